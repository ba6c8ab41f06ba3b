//! What scripts answer, as values of the contract. Nothing is decided here.

use std::time::Duration;

use redis::Value;

use crate::clock::from_ms;
use crate::error::BackendErrorKind;
use crate::lease::attempt_as_run;
use crate::run::{
    AttemptRecord, AttemptStatus, BeatOutcome, ClaimOutcome, FinishOutcome, KnownJob, KnownSchedule, Lateness,
    ManualOutcome, Pause, Reason, Record, Registered, Registrant, ReleaseOutcome, RunClaim, RunKey, SkipReason,
    SkipRecord, SlotOutcome, Status,
};
use crate::slot::{JobName, Slot, Token};

/// What an answer could not be read for.
pub(super) type Unread = (BackendErrorKind, String);
pub(super) type Read<T> = Result<T, Unread>;

fn unread(what: &str, found: impl AsRef<str>) -> Unread {
    let found: String = found.as_ref().chars().take(64).collect();
    (BackendErrorKind::Config, format!("the store holds {found:?}, which is no {what} that this release knows"))
}

/// One answer: a word, and what goes with it; or a number, to a usual claim.
#[derive(Debug)]
pub(super) struct Answer(Value);

impl Answer {
    /// The answers of one call, and the clock they were given at.
    pub(super) fn all(value: Value) -> Read<(i64, Vec<Answer>)> {
        let mut values = Answer(value).values()?.into_iter();
        let Some(Value::Int(now)) = values.next() else { return Err(unread("answer", "no time")) };
        Ok((now, values.map(Answer).collect()))
    }

    fn values(self) -> Read<Vec<Value>> {
        match self.0 {
            Value::Array(values) => Ok(values),
            other => Err(unread("answer", format!("{other:?}"))),
        }
    }

    /// The answers in it, from this one on.
    fn parts(self, from: usize) -> Read<impl Iterator<Item = Answer>> {
        Ok(self.values()?.into_iter().skip(from).map(Answer))
    }

    fn get(&self, at: usize) -> Option<&Value> {
        match &self.0 {
            Value::Array(values) => values.get(at),
            _ => None,
        }
    }

    pub(super) fn int(&self, at: usize) -> Read<i64> {
        match self.get(at) {
            Some(Value::Int(number)) => Ok(*number),
            other => Err(unread("number", format!("{other:?}"))),
        }
    }

    pub(super) fn opt_int(&self, at: usize) -> Read<Option<i64>> {
        if self.is_none(at) { Ok(None) } else { self.int(at).map(Some) }
    }

    fn is_none(&self, at: usize) -> bool {
        matches!(self.get(at), None | Some(Value::Nil | Value::Boolean(false)))
    }

    pub(super) fn text(&self, at: usize) -> Read<&str> {
        match self.get(at) {
            Some(Value::BulkString(bytes)) => {
                std::str::from_utf8(bytes).map_err(|_| unread("text", String::from_utf8_lossy(bytes)))
            }
            Some(Value::SimpleString(text)) => Ok(text),
            other => Err(unread("text", format!("{other:?}"))),
        }
    }

    pub(super) fn opt_text(&self, at: usize) -> Read<Option<String>> {
        if self.is_none(at) { Ok(None) } else { self.text(at).map(|text| Some(text.to_owned())) }
    }

    /// The word; that the data is newer is an error.
    pub(super) fn word(&self) -> Read<&str> {
        match self.text(0)? {
            "newer" => Err((
                BackendErrorKind::Config,
                format!(
                    "the data was written by a newer release of anarchon (its format is {}); update this program",
                    self.text(1).unwrap_or("unknown")
                ),
            )),
            word => Ok(word),
        }
    }

    fn number(&self, at: usize) -> Read<u32> {
        let number = self.int(at)?;
        u32::try_from(number).map_err(|_| unread("small number", number.to_string()))
    }

    fn wait(&self, at: usize) -> Read<Duration> {
        self.int(at).map(from_ms)
    }

    fn fence(&self, at: usize) -> Read<Option<u64>> {
        Ok(u64::try_from(self.int(at)?).ok())
    }

    fn slot(&self, at: usize) -> Read<Slot> {
        let text = self.text(at)?;
        text.parse().map(Slot::from_ms).map_err(|_| unread("slot", text))
    }

    fn flag(&self, at: usize) -> Read<bool> {
        self.int(at).map(|flag| flag != 0)
    }

    pub(super) fn status(&self, at: usize) -> Read<Status> {
        let word = self.text(at)?;
        Status::parse(word).ok_or_else(|| unread("status of a run", word))
    }

    fn reason(&self, at: usize) -> Read<Reason> {
        let word = self.text(at)?;
        Reason::parse(word).ok_or_else(|| unread("reason of an attempt", word))
    }

    fn token(&self, at: usize) -> Read<Token> {
        let text = self.text(at)?;
        Token::parse(text).ok_or_else(|| unread("token", text))
    }

    /// A run by its id and its slot.
    pub(super) fn run(&self, job: &JobName, id: usize, slot: usize) -> Read<RunKey> {
        let slot = self.slot(slot)?;
        match self.text(id)?.strip_prefix('m') {
            None => Ok(RunKey::scheduled(job.clone(), slot)),
            Some(token) => {
                let token = Token::parse(token).ok_or_else(|| unread("token", token))?;
                Ok(RunKey::manual(job.clone(), slot, token))
            }
        }
    }

    pub(super) fn claim(&self, claim: &RunClaim) -> Read<ClaimOutcome> {
        let job = &claim.job;
        // The fence of a first attempt, which is as it was asked for; or what is left of another's, as -1, -2 and so on.
        if let Value::Int(number) = self.0 {
            return Ok(match u64::try_from(number) {
                Ok(fence) => ClaimOutcome::Won {
                    attempt: 1,
                    fence: Some(fence),
                    reason: claim.kind.first_reason(),
                    max_attempts: claim.max_attempts,
                },
                Err(_) => ClaimOutcome::Running { left: from_ms(-1 - number) },
            });
        }
        Ok(match self.word()? {
            "early" => ClaimOutcome::Early { wait: self.wait(1)? },
            "won" => ClaimOutcome::Won {
                attempt: self.number(1)?,
                fence: self.fence(2)?,
                reason: self.reason(3)?,
                max_attempts: self.number(4)?,
            },
            "done" => ClaimOutcome::Done { status: self.status(1)? },
            "running" => ClaimOutcome::Running { left: self.wait(1)? },
            "paused" => ClaimOutcome::Paused { recorded: self.flag(1)? },
            "overlap" => {
                ClaimOutcome::Overlap { blocker: self.run(job, 1, 2)?, left: self.wait(3)?, recorded: self.flag(4)? }
            }
            "gone" => ClaimOutcome::Gone,
            "late" => ClaimOutcome::Late(match self.text(1)? {
                "floor" => Lateness::Floor,
                "trimmed" => Lateness::Trimmed,
                "too old" => Lateness::TooOld,
                "stale" => Lateness::Stale,
                other => return Err(unread("lateness", other)),
            }),
            other => return Err(unread("outcome of a claim", other)),
        })
    }

    pub(super) fn manual(&self) -> Read<ManualOutcome> {
        Ok(match self.word()? {
            "won" => ManualOutcome::Won { slot: self.slot(1)?, fence: self.fence(2)? },
            "overlap" => ManualOutcome::Overlap,
            "late" => ManualOutcome::Late,
            other => return Err(unread("outcome of a manual claim", other)),
        })
    }

    pub(super) fn beat(&self) -> Read<BeatOutcome> {
        match self.word()? {
            "alive" => Ok(BeatOutcome::Alive),
            "lost" => Ok(BeatOutcome::Lost),
            other => Err(unread("outcome of a heartbeat", other)),
        }
    }

    pub(super) fn finish(&self) -> Read<FinishOutcome> {
        match self.word()? {
            "recorded" => Ok(FinishOutcome::Recorded { run: self.status(1)?, retry_in: self.opt_int(2)?.map(from_ms) }),
            "lost" => Ok(FinishOutcome::Lost),
            other => Err(unread("outcome of a finish", other)),
        }
    }

    pub(super) fn release(&self) -> Read<ReleaseOutcome> {
        match self.word()? {
            "released" => Ok(ReleaseOutcome::Released),
            "lost" => Ok(ReleaseOutcome::Lost),
            other => Err(unread("outcome of a release", other)),
        }
    }

    /// The floor, and who disagrees, in the order of their schedules.
    pub(super) fn registered(self) -> Read<Registered> {
        self.word()?;
        let floor = self.text(1)?;
        let mut registered = Registered::new(floor.parse().map_err(|_| unread("floor", floor))?);
        let mut others = Vec::new();
        for by in self.parts(2)? {
            others.push((by.text(0)?.to_owned(), (by.text(1)?.to_owned(), by.text(2)?.to_owned())));
        }
        others.sort();
        registered.others = others.into_iter().map(|(_, by)| by).collect();
        Ok(registered)
    }

    pub(super) fn pause(&self) -> Read<Option<Pause>> {
        self.word()?;
        self.pause_at(1)
    }

    fn pause_at(&self, place: usize) -> Read<Option<Pause>> {
        if self.is_none(place) {
            return Ok(None);
        }
        let mut pause = Pause::new(self.text(place)?, self.text(place + 2)?);
        pause.at = self.time(place + 1)?;
        Ok(Some(pause))
    }

    fn time(&self, place: usize) -> Read<i64> {
        let text = self.text(place)?;
        text.parse().map_err(|_| unread("time", text))
    }

    /// What is known of a job, whose key comes first.
    pub(super) fn known(self, job: JobName) -> Read<KnownJob> {
        let mut known = KnownJob::new(job);
        known.trim_mark = if self.is_none(1) { None } else { Some(self.slot(1)?) };
        known.pause = self.pause_at(2)?;
        for line in self.parts(5)? {
            let mut schedule = KnownSchedule::new(line.text(0)?, line.time(1)?);
            if !line.is_none(2) {
                schedule.registered = Some(Registrant::new(line.text(2)?, line.text(3)?, line.time(4)?));
            }
            known.schedules.push(schedule);
        }
        known.schedules.sort_by(|a, b| a.identity.cmp(&b.identity));
        Ok(known)
    }

    pub(super) fn history(self, job: &JobName) -> Read<Vec<Record>> {
        self.word()?;
        self.parts(1)?.map(|line| line.record(job)).collect()
    }

    /// What was decided about who is first.
    pub(super) fn first(&self) -> Read<SlotOutcome> {
        Ok(match self.word()? {
            "won" => SlotOutcome::Won,
            "taken" => SlotOutcome::Taken,
            "early" => SlotOutcome::Early(self.wait(1)?),
            "late" => SlotOutcome::Late,
            "stale" => SlotOutcome::Stale,
            other => return Err(unread("outcome of a claim", other)),
        })
    }

    /// A manual run of a store without leases.
    pub(super) fn first_manual(&self) -> Read<ManualOutcome> {
        match self.word()? {
            "won" => Ok(ManualOutcome::Won { slot: self.slot(1)?, fence: None }),
            "late" => Ok(ManualOutcome::Late),
            other => Err(unread("outcome of a manual claim", other)),
        }
    }

    /// The history of a store without leases.
    pub(super) fn first_history(self, job: &JobName) -> Read<Vec<Record>> {
        self.word()?;
        self.parts(1)?.map(|line| line.first_attempt(job).map(Record::Attempt)).collect()
    }

    fn first_attempt(&self, job: &JobName) -> Read<AttemptRecord> {
        let (token, slot, manual) = (self.token(0)?, self.slot(1)?, !self.is_none(2));
        let run = if manual { RunKey::manual(job.clone(), slot, token) } else { RunKey::scheduled(job.clone(), slot) };
        let status = self.opt_text(5)?;
        let status = status
            .map(|word| AttemptStatus::parse(&word).ok_or_else(|| unread("status of an attempt", word)))
            .transpose()?;
        Ok(AttemptRecord {
            reason: if manual { Reason::Manual } else { Reason::Scheduled },
            status,
            run_status: status.map(attempt_as_run),
            ended_at: self.opt_int(6)?,
            error: self.opt_text(7)?,
            note: self.opt_text(8)?,
            ..AttemptRecord::new(run, 1, token, self.text(3)?, self.int(4)?)
        })
    }

    fn record(&self, job: &JobName) -> Read<Record> {
        match self.text(0)? {
            "attempt" => self.attempt(job).map(Record::Attempt),
            "skipped" => {
                let (count, reason) = (self.text(3)?, self.text(4)?);
                let count = count.parse().map_err(|_| unread("count", count))?;
                let reason = SkipReason::parse(reason).ok_or_else(|| unread("reason of a skip", reason))?;
                Ok(Record::Skipped(SkipRecord::new(job.clone(), self.slot(1)?, self.slot(2)?, count, reason)))
            }
            other => Err(unread("record", other)),
        }
    }

    fn attempt(&self, job: &JobName) -> Read<AttemptRecord> {
        let status = self.text(9)?;
        let status = AttemptStatus::parse(status).ok_or_else(|| unread("status of an attempt", status))?;
        Ok(AttemptRecord {
            fence: self.fence(6)?,
            reason: self.reason(7)?,
            status: Some(status),
            run_status: Some(self.status(3)?),
            ended_at: self.opt_int(11)?,
            error: self.opt_text(12)?,
            note: self.opt_text(13)?,
            ..AttemptRecord::new(self.run(job, 1, 2)?, self.number(4)?, self.token(5)?, self.text(8)?, self.int(10)?)
        })
    }
}
