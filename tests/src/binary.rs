//! Where the programs are that tests start.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Mutex;

/// An example of this workspace: in the directory that `ANARCHON_EXAMPLES` names, or else built now by cargo, with the
/// profile of this test.
///
/// # Panics
/// When it cannot be built.
#[must_use]
pub fn example(name: &str) -> PathBuf {
    static BUILT: Mutex<BTreeMap<String, PathBuf>> = Mutex::new(BTreeMap::new());
    if let Some(directory) = std::env::var_os("ANARCHON_EXAMPLES") {
        return Path::new(&directory).join(name);
    }
    let mut built = BUILT.lock().expect("no build has failed before");
    built.entry(name.to_owned()).or_insert_with(|| build(name)).clone()
}

fn build(example: &str) -> PathBuf {
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let manifest = Path::new(env!("CARGO_MANIFEST_DIR")).join("../Cargo.toml");
    let output = Command::new(cargo)
        .args(["build", "--quiet", "-p", "examples", "--features", "servers", "--example", example])
        .args(["--message-format", "json"])
        .args(["--profile", &profile()])
        .arg("--manifest-path")
        .arg(manifest)
        .stderr(Stdio::inherit())
        .output()
        .expect("cargo cannot be run");
    assert!(output.status.success(), "the example `{example}` cannot be built; see above");
    let built = String::from_utf8_lossy(&output.stdout).lines().find_map(|line| {
        let message: serde_json::Value = serde_json::from_str(line).ok()?;
        let named = message["target"]["name"] == example && message["reason"] == "compiler-artifact";
        message["executable"].as_str().filter(|_| named).map(PathBuf::from)
    });
    built.expect("cargo names no executable")
}

/// The profile by which this test was built: its file lies in `<target>/<directory of the profile>/deps`.
fn profile() -> String {
    let test = std::env::current_exe().expect("a test has a file");
    let directory = test.ancestors().nth(2).and_then(Path::file_name).and_then(|name| name.to_str());
    match directory {
        None | Some("debug") => "dev".to_owned(),
        Some(profile) => profile.to_owned(),
    }
}
