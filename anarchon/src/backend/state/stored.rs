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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::lease;
    use crate::option::{Overlap, Retention};
    use crate::run::{ClaimOutcome, Ending, Finish, ManualClaim, Registration, Release, RunClaim};

    fn instance(id: &str) -> InstanceId {
        InstanceId::new(id).unwrap()
    }

    /// A state in which everything that can be kept is.
    fn full(job: &JobName) -> JobState {
        let mut state = JobState::new(1);
        for (identity, who) in [("every 1s", "one"), ("every 2s, \u{1f980}", "two")] {
            state.register(&Registration::new(job.clone(), identity, "2026a", instance(who)), 100);
        }
        let claim = |slot: i64, who: &str| RunClaim {
            identity: "every 3s".into(),
            overlap: Overlap::Allow,
            retry_failed: Some(Duration::from_secs(5)),
            ..RunClaim::new(job.clone(), Slot::from_ms(slot), Token::random(), instance(who))
        };
        let endings = [Ending::Done, Ending::Failed("no: \u{0}".to_owned()), Ending::TimedOut(String::new())];
        for (slot, ending) in (1000..).zip(endings) {
            let claim = claim(slot, "one");
            assert!(matches!(state.claim(&claim, 2000), ClaimOutcome::Won { .. }));
            state.finish(&Finish::new(claim.key(), claim.token, ending, instance("one"), 0), 2001);
        }
        for (slot, returned) in [(1010, false), (1011, true)] {
            let claim = claim(slot, "three");
            state.claim(&claim, 2002);
            state.release(&Release { returned, ..Release::hand_over(claim.key(), claim.token) }, 2003);
        }
        let skipping = RunClaim { overlap: Overlap::Skip, ..claim(1020, "one") };
        assert!(matches!(state.claim(&skipping, 2004), ClaimOutcome::Overlap { recorded: true, .. }));
        let by_hand =
            ManualClaim { exclusive: true, ..ManualClaim::new(job.clone(), Token::random(), instance("two"), 0) };
        state.claim_manual(&by_hand, 2005);
        let last = claim(1030, "two");
        state.claim(&last, 2006);
        let stopped = Finish { last: true, ..Finish::new(last.key(), last.token, Ending::Done, instance("two"), 0) };
        state.finish(&stopped, 2007);
        state.paused = Some(Box::new(Pause { at: 7, ..Pause::new("me", "a note") }));
        state.trim_mark = Some(-3);
        state.fence = u64::MAX;
        state
    }

    #[test]
    fn a_state_comes_back_as_it_was() {
        let job = JobName::new("a").unwrap();
        for state in [JobState::new(-5), full(&job)] {
            let bytes = state.to_stored(i64::MIN);
            let read = Stored::read(&job, &bytes).unwrap();
            assert_eq!(read.at, i64::MIN);
            assert_eq!(format!("{:?}", read.state), format!("{state:?}"));
            assert_eq!(read.state.to_stored(i64::MIN), bytes);
        }
    }

    #[test]
    fn what_is_cut_short_or_spoilt_is_never_a_panic_and_what_is_newer_is_said_to_be() {
        let job = JobName::new("a").unwrap();
        let bytes = full(&job).to_stored(9);
        for len in 0..bytes.len() {
            assert_eq!(Stored::read(&job, &bytes[..len]).unwrap_err(), Fault::Damaged, "{len}");
        }
        for at in 1..bytes.len() {
            for bit in 0..8 {
                let mut spoilt = bytes.clone();
                spoilt[at] ^= 1 << bit;
                drop(Stored::read(&job, &spoilt));
            }
        }
        let mut newer = bytes;
        newer[0] = 2;
        newer.extend_from_slice(b"what the next release adds");
        assert!(Stored::read(&job, &newer).is_ok());
        newer[0] = 3;
        assert_eq!(Stored::read(&job, &newer).unwrap_err(), Fault::Newer(3));
    }

    #[test]
    fn only_that_a_job_was_seen_again_soon_is_not_worth_storing() {
        let state = full(&JobName::new("a").unwrap());
        let minute = Duration::from_secs(60);
        let seen = |after| JobState { touched: state.touched + after, ..state.clone() };
        assert!(seen(59_999).is_as_good_as(&state, minute) && !seen(60_000).is_as_good_as(&state, minute));
        assert!(!JobState { fence: 1, ..state.clone() }.is_as_good_as(&state, minute));
    }

    #[test]
    fn what_is_shed_is_the_oldest_that_has_ended_and_stays_decided() {
        let job = JobName::new("a").unwrap();
        let mut state = JobState::new(0);
        let claim = |slot| RunClaim::new(job.clone(), Slot::from_ms(slot), Token::random(), instance("one"));
        let open = RunClaim { lease: lease::MAX_RETRY_WAIT, overlap: Overlap::Allow, ..claim(1) };
        state.claim(&open, 100);
        for slot in 2..=9 {
            let claim = RunClaim { overlap: Overlap::Allow, ..claim(slot) };
            state.claim(&claim, 100);
            state.finish(&Finish::new(claim.key(), claim.token, Ending::Done, instance("one"), 0), 100);
        }
        let mut left = Vec::new();
        while state.shed() {
            left.push(state.history(&job, 100).len());
        }
        assert_eq!(left, [7, 5, 4, 3, 2, 1]);
        assert_eq!(state.history(&job, 100)[0].slot(), open.slot, "an unfinished run stays");
        assert!(matches!(state.claim(&claim(9), 100), ClaimOutcome::Late(_)));
        state.trim(&crate::run::Trim::new(job, Retention::new(0, None), Duration::ZERO), 100);
    }
}
