//! This program again, as a process of its own.

use std::process::Stdio;
use std::time::Duration;

use serde_json::Value;
use tokio::process::{Child, Command};

use crate::Fallible;

/// Hidden commands.
pub(crate) const CONTENDER: &str = "run-contender";
pub(crate) const INSTANCE: &str = "run-instance";

/// Starts this program with a hidden command; it is killed when the handle is dropped.
pub(crate) fn start(command: &str, options: &[(&str, String)]) -> Fallible<Child> {
    let mut child = Command::new(std::env::current_exe()?);
    child.arg(command).stdin(Stdio::piped()).stdout(Stdio::piped()).kill_on_drop(true);
    for (name, value) in options {
        child.arg(format!("--{name}={value}"));
    }
    Ok(child.spawn()?)
}

/// Runs a contender to its end, at most for `limit`; its figures are the last line that it prints.
pub(crate) async fn figures(options: &[(&str, String)], limit: Duration) -> Fallible<Value> {
    let child = start(CONTENDER, options)?;
    let output = tokio::time::timeout(limit, child.wait_with_output()).await;
    let output = output.map_err(|_| format!("a contender did not end within {limit:?}"))??;
    if !output.status.success() {
        return Err(format!("a contender failed: {}", output.status).into());
    }
    let text = String::from_utf8(output.stdout)?;
    let line = text.lines().next_back().ok_or("a contender printed nothing")?;
    Ok(serde_json::from_str(line)?)
}
