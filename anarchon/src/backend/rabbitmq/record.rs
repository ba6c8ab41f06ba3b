//! Records of history as messages: what is known is in the headers, and the text of an error in the body.

use lapin::BasicProperties;
use lapin::types::{AMQPValue, FieldTable, LongString};

use crate::lease::attempt_as_run;
use crate::run::{AttemptRecord, AttemptStatus, Finish, ManualClaim, Reason, RunKey, SlotClaim};
use crate::slot::{InstanceId, JobName, Slot, Token};

/// Messages are written to disk, like the queue they are in.
const PERSISTENT: u8 = 2;

/// What is said of a run at a time: that it was claimed, or how it ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Entry {
    slot: Slot,
    token: Token,
    manual: bool,
    instance: String,
    /// When it was claimed, or when it ended, in ms since the epoch.
    at: i64,
    end: Option<End>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct End {
    status: AttemptStatus,
    error: Option<String>,
    stopped: bool,
}

impl Entry {
    pub(super) fn claimed(claim: &SlotClaim, at: i64) -> Self {
        Self::new(claim.slot, claim.token, false, &claim.instance, at)
    }

    pub(super) fn started(claim: &ManualClaim) -> Self {
        Self::new(Slot::from_ms(claim.now), claim.token, true, &claim.instance, claim.now)
    }

    pub(super) fn ended(finish: &Finish) -> Self {
        let end = End {
            status: finish.ending.status(),
            error: finish.ending.error().map(str::to_owned),
            stopped: finish.last,
        };
        let entry = Self::new(finish.run.slot, finish.token, finish.run.manual.is_some(), &finish.instance, finish.now);
        Self { end: Some(end), ..entry }
    }

    fn new(slot: Slot, token: Token, manual: bool, instance: &InstanceId, at: i64) -> Self {
        Self { slot, token, manual, instance: instance.as_str().to_owned(), at, end: None }
    }

    /// The message's headers and body.
    pub(super) fn write(&self) -> (BasicProperties, Vec<u8>) {
        let text = |text: &str| AMQPValue::LongString(LongString::from(text));
        let mut headers = FieldTable::default();
        let mut set = |key: &str, value| {
            headers.insert(key.into(), value);
        };
        set("slot", AMQPValue::LongLongInt(self.slot.ms()));
        set("token", text(&self.token.to_string()));
        set("manual", AMQPValue::Boolean(self.manual));
        set("instance", text(&self.instance));
        set("at", AMQPValue::LongLongInt(self.at));
        let mut body = Vec::new();
        if let Some(end) = &self.end {
            set("status", text(end.status.as_str()));
            set("stopped", AMQPValue::Boolean(end.stopped));
            if let Some(error) = &end.error {
                set("error", AMQPValue::Boolean(true));
                body = error.clone().into_bytes();
            }
        }
        let properties = BasicProperties::default().with_delivery_mode(PERSISTENT).with_headers(headers);
        (properties, body)
    }

    /// Reads a message; `None` if it is none of ours.
    pub(super) fn read(properties: &BasicProperties, body: &[u8]) -> Option<Self> {
        let headers = properties.headers().as_ref()?.inner();
        let get = |key: &str| headers.get::<str>(key);
        let text = |key: &str| match get(key)? {
            AMQPValue::LongString(text) => Some(String::from_utf8_lossy(text.as_bytes()).into_owned()),
            _ => None,
        };
        let number = |key: &str| match get(key)? {
            AMQPValue::LongLongInt(number) => Some(*number),
            _ => None,
        };
        let flag = |key: &str| matches!(get(key), Some(AMQPValue::Boolean(true)));
        let end = match text("status") {
            Some(status) => Some(End {
                status: AttemptStatus::parse(&status)?,
                error: flag("error").then(|| String::from_utf8_lossy(body).into_owned()),
                stopped: flag("stopped"),
            }),
            None => None,
        };
        Some(Self {
            slot: Slot::from_ms(number("slot")?),
            token: Token::parse(&text("token")?)?,
            manual: flag("manual"),
            instance: text("instance")?,
            at: number("at")?,
            end,
        })
    }
}

/// Joins what was said of each run. Of what was said twice, the first counts.
pub(super) fn join(job: &JobName, entries: impl IntoIterator<Item = Entry>) -> Vec<AttemptRecord> {
    let mut records: Vec<AttemptRecord> = Vec::new();
    let mut places = std::collections::HashMap::new();
    for entry in entries {
        let place = *places.entry(entry.token).or_insert_with(|| {
            let run = match entry.manual {
                true => RunKey::manual(job.clone(), entry.slot, entry.token),
                false => RunKey::scheduled(job.clone(), entry.slot),
            };
            let record = AttemptRecord::new(run, 1, entry.token, entry.instance.as_str(), entry.at);
            let reason = if entry.manual { Reason::Manual } else { Reason::Scheduled };
            records.push(AttemptRecord { reason, ..record });
            records.len() - 1
        });
        if let (Some(end), Some(record)) = (entry.end, records.get_mut(place))
            && record.status.is_none()
        {
            record.status = Some(end.status);
            record.run_status = Some(attempt_as_run(end.status));
            record.ended_at = Some(entry.at.max(record.claimed_at));
            record.error = end.error;
            record.note = end.stopped.then(|| "stopped".to_owned());
        }
    }
    records
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::run::Ending;

    fn entries() -> Vec<Entry> {
        let (job, instance) = (JobName::new("job").unwrap(), InstanceId::new("here").unwrap());
        let claim = SlotClaim::new(job.clone(), Slot::from_ms(7), Token::random(), instance.clone());
        let run = RunKey::scheduled(job, claim.slot);
        let mut finish = Finish::new(run, claim.token, Ending::Failed("größer 🦀".to_owned()), instance, 20);
        finish.last = true;
        let end = Entry::ended(&finish);
        finish.now = 30;
        vec![Entry::claimed(&claim, 10), end, Entry::ended(&finish), Entry::claimed(&claim, 40)]
    }

    #[test]
    fn an_entry_comes_back_as_it_was_written() {
        for entry in entries() {
            let (properties, body) = entry.write();
            assert_eq!(Entry::read(&properties, &body), Some(entry));
        }
        assert_eq!(Entry::read(&BasicProperties::default(), b"x"), None);
    }

    #[test]
    fn of_what_was_said_twice_the_first_counts() {
        let job = JobName::new("job").unwrap();
        let records = join(&job, entries());
        assert_eq!(records.len(), 1);
        let record = &records[0];
        assert_eq!((record.claimed_at, record.ended_at, record.status), (10, Some(20), Some(AttemptStatus::Failed)));
        assert_eq!((record.error.as_deref(), record.note.as_deref()), (Some("größer 🦀"), Some("stopped")));
        let without_claim = join(&job, entries().into_iter().skip(1).take(1));
        assert_eq!((without_claim[0].claimed_at, without_claim[0].instance.as_str()), (20, "here"));
    }
}
