//! A job's state as bytes, for stores that keep it whole: its format, the store's time when it was written, then the state.
//!
//! Numbers are of variable length, and texts and words that come again are kept once, so that an attempt that has ended takes
//! some 60 bytes. A release writes one format, and reads that and the next one.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use super::{Attempt, JobState, Registrant, RunId, Runs, Schedule};
use crate::clock::{from_ms, to_ms};
use crate::lease::StoredRun;
use crate::run::{AttemptStatus, Pause, Reason, RunKey, SkipReason, SkipRecord, Status};
use crate::slot::{InstanceId, JobName, Slot, Token};

/// What this release writes.
const FORMAT: u64 = 1;

/// The newest that this release can read: the next one only adds to the end.
const NEWEST: u64 = 2;

/// The remarks there are.
const NOTES: [&str; 2] = ["superseded", "stopped"];

/// Why stored bytes are no state.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::backend) enum Fault {
    /// Written by a newer release, in this format.
    Newer(u64),
    /// Cut short, or of somebody else's.
    Damaged,
}

/// What a store keeps of a job.
#[derive(Debug)]
pub(in crate::backend) struct Stored {
    /// The store's time when it was written.
    pub(in crate::backend) at: i64,
    /// The state.
    pub(in crate::backend) state: JobState,
}

impl Stored {
    /// Reads what [`JobState::to_stored`] wrote of this job.
    pub(in crate::backend) fn read(job: &JobName, bytes: &[u8]) -> Result<Self, Fault> {
        let mut reader = Reader { bytes, texts: Vec::new() };
        match reader.number().ok_or(Fault::Damaged)? {
            1..=NEWEST => {}
            newer => return Err(Fault::Newer(newer)),
        }
        reader.stored(job).ok_or(Fault::Damaged)
    }
}

impl JobState {
    /// The bytes to keep, if they are written at `at`.
    pub(in crate::backend) fn to_stored(&self, at: i64) -> Vec<u8> {
        let mut body = Writer::default();
        body.state(self);
        let mut whole = Writer::default();
        whole.number(FORMAT);
        whole.signed(at);
        whole.number(count(body.texts.len()));
        let mut texts: Vec<(String, u64)> = body.texts.drain().collect();
        texts.sort_unstable_by_key(|(_, number)| *number);
        texts.iter().for_each(|(text, _)| whole.bytes(text.as_bytes()));
        whole.out.extend(body.out);
        whole.out
    }

    /// Whether both would be kept alike, but for when an instance had the job last, in so far as that is not `apart`.
    pub(in crate::backend) fn is_as_good_as(&self, other: &Self, apart: Duration) -> bool {
        self.touched.abs_diff(other.touched) < apart.as_millis().try_into().unwrap_or(u64::MAX)
            && self.body() == other.body()
    }

    /// Everything but when an instance had the job last.
    fn body(&self) -> (Vec<u8>, HashMap<String, u64>) {
        let mut writer = Writer::default();
        writer.state_untouched(self);
        (writer.out, writer.texts)
    }

    /// Makes room where a store cannot keep so much: the oldest quarter of what has ended goes, as a trim would have it.
    /// Says whether there was any.
    pub(in crate::backend) fn shed(&mut self) -> bool {
        let over: Vec<RunId> = self.runs.all().filter(|run| !run.unfinished()).map(|run| super::id(&run.key)).collect();
        let quarter = over.len().div_ceil(4);
        for run in over.into_iter().take(quarter) {
            self.remove(run);
        }
        quarter > 0
    }
}

fn count(len: usize) -> u64 {
    u64::try_from(len).unwrap_or(u64::MAX)
}

#[derive(Default)]
struct Writer {
    out: Vec<u8>,
    /// Texts by their number, in the order they were first used.
    texts: HashMap<String, u64>,
}

impl Writer {
    fn number(&mut self, mut number: u64) {
        while let Ok(low) = u8::try_from(number & 0x7f) {
            number >>= 7;
            if number == 0 {
                self.out.push(low);
                return;
            }
            self.out.push(low | 0x80);
        }
    }

    /// Small numbers of either sign are short.
    fn signed(&mut self, number: i64) {
        self.number((number.cast_unsigned() << 1) ^ (number >> 63).cast_unsigned());
    }

    fn bytes(&mut self, bytes: &[u8]) {
        self.number(count(bytes.len()));
        self.out.extend_from_slice(bytes);
    }

    fn text(&mut self, text: &str) {
        let next = count(self.texts.len());
        let number = *self.texts.entry(text.to_owned()).or_insert(next);
        self.number(number);
    }

    fn token(&mut self, token: Token) {
        self.out.extend_from_slice(&token.to_bytes());
    }

    fn duration(&mut self, duration: Duration) {
        self.signed(to_ms(duration));
    }

    fn opt<T>(&mut self, value: Option<T>, write: impl FnOnce(&mut Self, T)) {
        self.number(u64::from(value.is_some()));
        if let Some(value) = value {
            write(self, value);
        }
    }

    fn list<T>(&mut self, items: impl ExactSizeIterator<Item = T>, mut write: impl FnMut(&mut Self, T)) {
        self.number(count(items.len()));
        items.for_each(|item| write(self, item));
    }

    fn state(&mut self, state: &JobState) {
        self.signed(state.touched);
        self.state_untouched(state);
    }

    fn state_untouched(&mut self, state: &JobState) {
        self.number(state.fence);
        self.opt(state.trim_mark, Self::signed);
        self.opt(state.paused.as_deref(), |w, pause| {
            w.bytes(pause.by.as_bytes());
            w.signed(pause.at);
            w.bytes(pause.note.as_bytes());
        });
        self.list(state.schedules.iter(), |w, (identity, schedule)| {
            w.bytes(identity.as_bytes());
            w.signed(schedule.floor);
            w.opt(schedule.registered.as_ref(), |w, by| {
                w.bytes(by.fingerprint.as_bytes());
                w.text(by.instance.as_str());
                w.signed(by.at);
            });
        });
        self.list(state.runs.all.iter(), Self::run);
        self.list(state.attempts.iter(), Self::attempt);
        self.list(state.skips.values(), |w, skip| {
            w.signed(skip.first.ms());
            w.signed(skip.last.ms());
            w.number(skip.count);
            w.text(skip.reason.as_str());
        });
    }

    fn run_id(&mut self, (slot, manual): RunId) {
        self.signed(slot.ms());
        self.opt(manual, Self::token);
    }

    fn run(&mut self, run: &StoredRun) {
        self.run_id(super::id(&run.key));
        self.text(run.status.as_str());
        self.number(run.attempt.into());
        self.number(run.failures.into());
        self.number(run.releases.into());
        self.opt(run.token, Self::token);
        self.signed(run.until);
        self.opt(run.last_ended, |w, status| w.text(status.as_str()));
        self.number(run.max_attempts.into());
        self.opt(run.retry_failed, Self::duration);
        self.duration(run.takeover_within);
        self.number(run.counts.into());
    }

    fn attempt(&mut self, attempt: &Attempt) {
        self.run_id(attempt.run);
        self.number(attempt.number.into());
        self.text(attempt.reason.as_str());
        self.text(attempt.status.as_str());
        self.token(attempt.token);
        self.number(attempt.fence);
        self.text(attempt.instance.as_str());
        self.signed(attempt.claimed_at);
        self.opt(attempt.ended_at, Self::signed);
        self.opt(attempt.error.as_deref(), |w, error| w.bytes(error.as_bytes()));
        let note = attempt.note.and_then(|note| NOTES.iter().position(|known| *known == note));
        self.opt(note, |w, note| w.number(count(note)));
    }
}

struct Reader<'a> {
    bytes: &'a [u8],
    texts: Vec<&'a str>,
}

impl<'a> Reader<'a> {
    fn byte(&mut self) -> Option<u8> {
        let (first, rest) = self.bytes.split_first()?;
        self.bytes = rest;
        Some(*first)
    }

    fn number(&mut self) -> Option<u64> {
        let mut number = 0;
        for shift in (0..64).step_by(7) {
            let byte = self.byte()?;
            number |= u64::from(byte & 0x7f) << shift;
            if byte & 0x80 == 0 {
                return Some(number);
            }
        }
        None
    }

    fn small(&mut self) -> Option<u32> {
        self.number()?.try_into().ok()
    }

    fn flag(&mut self) -> Option<bool> {
        match self.number()? {
            0 => Some(false),
            1 => Some(true),
            _ => None,
        }
    }

    fn signed(&mut self) -> Option<i64> {
        let number = self.number()?;
        Some((number >> 1).cast_signed() ^ -(number & 1).cast_signed())
    }

    fn take(&mut self, len: usize) -> Option<&'a [u8]> {
        let (taken, rest) = self.bytes.split_at_checked(len)?;
        self.bytes = rest;
        Some(taken)
    }

    fn bytes(&mut self) -> Option<&'a str> {
        let len = self.number()?.try_into().ok()?;
        std::str::from_utf8(self.take(len)?).ok()
    }

    fn text(&mut self) -> Option<&'a str> {
        let number: usize = self.number()?.try_into().ok()?;
        self.texts.get(number).copied()
    }

    fn instance(&mut self) -> Option<InstanceId> {
        InstanceId::new(self.text()?).ok()
    }

    fn token(&mut self) -> Option<Token> {
        Some(Token::from_bytes(self.take(16)?.try_into().ok()?))
    }

    fn duration(&mut self) -> Option<Duration> {
        Some(from_ms(self.signed()?))
    }

    /// The outer `None` is damage.
    fn opt<T>(&mut self, read: impl FnOnce(&mut Self) -> Option<T>) -> Option<Option<T>> {
        if self.flag()? { read(self).map(Some) } else { Some(None) }
    }

    fn list<T>(&mut self, mut read: impl FnMut(&mut Self) -> Option<T>) -> Option<Vec<T>> {
        let len = self.number()?;
        let mut items = Vec::new();
        for _ in 0..len {
            items.push(read(self)?);
        }
        Some(items)
    }

    fn stored(&mut self, job: &JobName) -> Option<Stored> {
        let at = self.signed()?;
        self.texts = self.list(Self::bytes)?;
        let touched = self.signed()?;
        let fence = self.number()?;
        let trim_mark = self.opt(Self::signed)?;
        let paused = self.opt(|r| {
            let (by, at, note) = (r.bytes()?, r.signed()?, r.bytes()?);
            Some(Box::new(Pause { at, ..Pause::new(by, note) }))
        })?;
        let schedules = self.list(Self::schedule)?;
        let all = self.list(|r| r.run(job))?;
        let attempts = self.list(Self::attempt)?;
        let skips = self.list(|r| {
            let (first, last) = (Slot::from_ms(r.signed()?), Slot::from_ms(r.signed()?));
            let (count, reason) = (r.number()?, SkipReason::parse(r.text()?)?);
            Some((first, SkipRecord::new(job.clone(), first, last, count, reason)))
        })?;
        let settled = all.iter().take_while(|run| !run.unfinished()).count();
        let runs = Runs { all, settled };
        let skips = skips.into_iter().collect();
        Some(Stored { at, state: JobState { runs, attempts, skips, schedules, paused, fence, trim_mark, touched } })
    }

    fn schedule(&mut self) -> Option<(Arc<str>, Schedule)> {
        let (identity, floor) = (self.bytes()?.into(), self.signed()?);
        let registered = self
            .opt(|r| Some(Registrant { fingerprint: r.bytes()?.into(), instance: r.instance()?, at: r.signed()? }))?;
        Some((identity, Schedule { floor, registered }))
    }

    fn run_id(&mut self) -> Option<RunId> {
        Some((Slot::from_ms(self.signed()?), self.opt(Self::token)?))
    }

    fn run(&mut self, job: &JobName) -> Option<StoredRun> {
        let (slot, manual) = self.run_id()?;
        Some(StoredRun {
            key: RunKey { job: job.clone(), slot, manual },
            status: Status::parse(self.text()?)?,
            attempt: self.small()?,
            failures: self.small()?,
            releases: self.small()?,
            token: self.opt(Self::token)?,
            until: self.signed()?,
            last_ended: self.opt(|r| AttemptStatus::parse(r.text()?))?,
            max_attempts: self.small()?,
            retry_failed: self.opt(Self::duration)?,
            takeover_within: self.duration()?,
            counts: self.flag()?,
        })
    }

    fn attempt(&mut self) -> Option<Attempt> {
        Some(Attempt {
            run: self.run_id()?,
            number: self.small()?,
            reason: Reason::parse(self.text()?)?,
            status: AttemptStatus::parse(self.text()?)?,
            token: self.token()?,
            fence: self.number()?,
            instance: self.instance()?,
            claimed_at: self.signed()?,
            ended_at: self.opt(Self::signed)?,
            error: self.opt(Self::bytes)?.map(Into::into),
            // A newer release may have remarks that this one does not know.
            note: self.opt(Self::number)?.and_then(|note| NOTES.get(usize::try_from(note).ok()?).copied()),
        })
    }
}
