//! The stream: made when it is not there, and held to its settings when it is.

use async_nats::HeaderMap;
use serde_json::{Value, json};

use super::Failure;
use super::link::{Link, time};
use crate::error::{BackendError, BackendErrorKind};
use crate::slot::is_plain;

/// The setting that says on how many servers a stream is kept.
const REPLICAS: &str = "num_replicas";

/// Why this option's value cannot be a stream's or a bucket's name.
pub(in crate::backend) fn wrong_name(option: &str, name: &str) -> Option<String> {
    let good = (1..=128).contains(&name.len()) && name.chars().all(is_plain);
    (!good).then(|| format!("`{option}` is {name:?}; it must be 1 to 128 letters, digits, `_` and `-`"))
}

/// What a setting of a stream must be.
#[derive(Debug)]
pub(in crate::backend) struct Setting {
    /// Its name in the stream's configuration.
    pub(in crate::backend) name: &'static str,
    /// What it is when the stream is made.
    pub(in crate::backend) value: Value,
    /// What to make of a stream that has this other value.
    pub(in crate::backend) other: fn(stored: &Value, wanted: &Value) -> Other,
}

/// What to make of another value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::backend) enum Other {
    /// It does as well.
    Fine,
    /// It can be changed without loss.
    Change,
    /// Changing it would lose what is kept, or what is promised.
    Refuse,
}

/// As many replicas as the most that anybody asked for: more can be added while the stream is in use, and to take some away
/// is for people to decide.
pub(in crate::backend) fn replicas(count: u32) -> Setting {
    let other = |stored: &Value, wanted: &Value| match (stored.as_u64(), wanted.as_u64()) {
        (Some(stored), Some(wanted)) if stored < wanted => Other::Change,
        _ => Other::Fine,
    };
    Setting { name: REPLICAS, value: json!(count), other }
}

impl Setting {
    /// One that may not differ.
    pub(in crate::backend) fn fixed(name: &'static str, value: Value) -> Self {
        Self { name, value, other: |_, _| Other::Refuse }
    }

    /// One that only matters when the stream is made.
    pub(in crate::backend) fn initial(name: &'static str, value: Value) -> Self {
        Self { name, value, other: |_, _| Other::Fine }
    }

    /// One that is the largest that anybody asked for.
    pub(in crate::backend) fn largest(name: &'static str, value: Value) -> Self {
        let other = |stored: &Value, wanted: &Value| match (stored.as_i64(), wanted.as_i64()) {
            (Some(stored), Some(wanted)) if stored > 0 && stored < wanted => Other::Change,
            _ => Other::Fine,
        };
        Self { name, value, other }
    }
}

/// Makes the stream, or sees that the one that is there will do. Tells its configuration.
pub(in crate::backend) async fn ensure(link: &Link, stream: &str, settings: &[Setting]) -> Result<Value, BackendError> {
    let stored = match link.ask(format!("STREAM.INFO.{stream}"), &Value::Null).await {
        Ok(info) => info,
        Err(failure) if failure.is_no_stream() => match make(link, stream, settings).await {
            Ok(info) => info,
            // Another instance may have made it meanwhile, with other settings.
            Err(refused @ Failure::No(_)) => {
                let again = link.ask(format!("STREAM.INFO.{stream}"), &Value::Null).await;
                again.map_err(|failure| link.sort(if failure.is_no_stream() { &refused } else { &failure }))?
            }
            Err(failure) => return Err(link.sort(&failure)),
        },
        Err(failure) => return Err(link.sort(&failure)),
    };
    let mut config = stored.get("config").cloned().unwrap_or_default();
    let mut changes = false;
    for setting in settings {
        let is = config.get(setting.name).cloned().unwrap_or_default();
        if is == setting.value {
            continue;
        }
        match (setting.other)(&is, &setting.value) {
            Other::Fine => {}
            // NATS 2.9 would take it, and keep no other copy.
            Other::Change if setting.name == REPLICAS && stored.get("cluster").is_none() => {
                let why = "`replicas` of more than 1 need a cluster, and this is one server";
                return Err(link.error(BackendErrorKind::Config, why));
            }
            Other::Change => {
                config[setting.name] = setting.value.clone();
                changes = true;
            }
            Other::Refuse => {
                let why = format!(
                    "the stream `{stream}` has `{}` {is}, and this program wants {}; give this program the same, or \
                     another stream",
                    setting.name, setting.value
                );
                return Err(link.error(BackendErrorKind::Config, why));
            }
        }
    }
    if changes {
        let updated = link.ask(format!("STREAM.UPDATE.{stream}"), &config).await;
        updated.map_err(|failure| link.sort(&failure))?;
    }
    Ok(config)
}

async fn make(link: &Link, stream: &str, settings: &[Setting]) -> Result<Value, Failure> {
    let mut config = json!({ "name": stream });
    for setting in settings {
        config[setting.name] = setting.value.clone();
    }
    link.ask(format!("STREAM.CREATE.{stream}"), &config).await
}

impl Link {
    /// The clock of the stream's leader, in ms, read after this was called.
    ///
    /// Servers before 2.10 do not tell it, but stamp what they store: something is stored under `stamped`, and its stamp, or a
    /// later one, is read.
    pub(in crate::backend) async fn time(&self, stream: &str, stamped: &str) -> Result<i64, Failure> {
        let info = self.ask(format!("STREAM.INFO.{stream}"), &Value::Null).await?;
        if let Some(now) = time(info.get("ts")) {
            return Ok(now);
        }
        let mut headers = HeaderMap::new();
        headers.insert("Nats-Rollup", "sub"); // only the latest is kept
        self.publish(stamped.to_owned(), headers, Vec::new(), None).await?;
        let stamp = self.latest(stream, stamped).await?;
        stamp.map(|stamp| stamp.at).ok_or_else(|| Failure::Strange("what was stored is not there".to_owned()))
    }

    /// The subjects of the stream that match, in no order.
    pub(in crate::backend) async fn subjects(&self, stream: &str, filter: &str) -> Result<Vec<String>, Failure> {
        let mut subjects = Vec::new();
        loop {
            let request = json!({ "subjects_filter": filter, "offset": subjects.len() });
            let info = self.ask(format!("STREAM.INFO.{stream}"), &request).await?;
            let page = info.get("state").and_then(|state| state.get("subjects")).and_then(Value::as_object);
            let before = subjects.len();
            subjects.extend(page.into_iter().flat_map(|page| page.keys().cloned()));
            let total = info.get("total").and_then(Value::as_u64).and_then(|total| usize::try_from(total).ok());
            if subjects.len() == before || subjects.len() >= total.unwrap_or(0) {
                return Ok(subjects);
            }
        }
    }
}
