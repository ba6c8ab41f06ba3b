//! A store of your own, in its smallest form: a file to which lines are added, one line for each claim that was won and
//! for each run that has ended. It can only say who was first, so it is a `ClaimBackend`.
//!
//! ```text
//! cargo run -p examples --example own_backend
//! cargo test -p examples --example own_backend
//! ```
//!
//! You will see two instances with nothing in common but the file run six slots, each slot once. It takes some 4 seconds,
//! ends by itself and removes the file. The tests are the conformance suite, which is what makes a store one to rely on.
//! This one never forgets, and reads its whole file for each call: do better in earnest.

use std::fs::File;
use std::io::{Read as _, Write as _};
use std::path::PathBuf;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use anarchon::backend::{ClaimOnly, ServerInfo};
use anarchon::run::{
    Finish, FinishOutcome, ManualClaim, ManualOutcome, Registered, Registration, SlotClaim, SlotOutcome, Timed,
};
use anarchon::{
    AttemptRecord, AttemptStatus, Backend, BackendError, BackendErrorKind, BoxError, ClaimBackend, Context, InstanceId,
    JobName, Reason, Record, RunKey, Scheduler, Slot, State, Token, lease,
};
use serde::{Deserialize, Serialize};
use tokio::sync::mpsc;

#[derive(Clone)]
struct Journal(PathBuf);

#[derive(Serialize, Deserialize)]
enum Line {
    Won { job: String, slot: i64, token: String, instance: String, at: i64, manual: bool },
    Ended { token: String, status: String, error: Option<String>, at: i64 },
}

impl Journal {
    /// One step, which no other process can come between: it sees all lines and the time, and may add a line. There is no
    /// await in it, so nobody can drop it half way.
    fn step<T>(&self, decide: impl FnOnce(&[Line], i64) -> (T, Option<Line>)) -> Result<Timed<T>, BackendError> {
        let attempt = || -> std::io::Result<Timed<T>> {
            let mut file = File::options().read(true).append(true).create(true).open(&self.0)?;
            file.lock()?; // until it is closed
            let mut text = String::new();
            file.read_to_string(&mut text)?;
            // What cannot be read was cut off by a crash, before anybody was told of it.
            let lines: Vec<Line> = text.lines().filter_map(|line| serde_json::from_str(line).ok()).collect();
            let now = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_millis() as i64);
            let (answer, line) = decide(&lines, now);
            if let Some(line) = line {
                // The line's end comes first, so that it is not added to half a line.
                file.write_all(format!("\n{}", serde_json::to_string(&line)?).as_bytes())?;
                file.sync_data()?;
            }
            Ok(Timed::at(answer, now))
        };
        // Whether the line was written is not known then; the same call comes again.
        attempt().map_err(|error| BackendError::new("journal", BackendErrorKind::Unknown, error.to_string()))
    }
}

/// The line of a claim that was won, and its slot.
fn won(lines: &[Line], wanted: &Token) -> Option<Slot> {
    lines.iter().find_map(|line| match line {
        Line::Won { slot, token, .. } if *token == wanted.to_string() => Some(Slot::from_ms(*slot)),
        _ => None,
    })
}

fn line(job: &JobName, slot: Slot, token: Token, instance: &InstanceId, at: i64, manual: bool) -> Option<Line> {
    let (job, token, instance) = (job.to_string(), token.to_string(), instance.to_string());
    Some(Line::Won { job, slot: slot.ms(), token, instance, at, manual })
}

impl ClaimBackend for Journal {
    async fn claim(&self, claim: &SlotClaim) -> Result<Timed<SlotOutcome>, BackendError> {
        self.step(|lines, now| {
            let age = now - claim.slot.ms();
            let taken = |line: &Line| {
                matches!(line, Line::Won { job, slot, manual: false, .. }
                if *job == claim.job.as_str() && *slot == claim.slot.ms())
            };
            if now > claim.valid_until {
                (SlotOutcome::Stale, None)
            } else if age < 0 {
                (SlotOutcome::Early(Duration::from_millis(age.unsigned_abs())), None)
            } else if won(lines, &claim.token).is_some() {
                (SlotOutcome::Won, None) // the same claim, sent again
            } else if lines.iter().any(taken) {
                (SlotOutcome::Taken, None)
            } else if Duration::from_millis(age.unsigned_abs()) > claim.limit {
                (SlotOutcome::Late, None)
            } else {
                (SlotOutcome::Won, line(&claim.job, claim.slot, claim.token, &claim.instance, now, false))
            }
        })
    }
}

impl Backend for Journal {
    type Strength = ClaimOnly;

    fn name(&self) -> &str {
        "journal"
    }

    async fn connect(&self) -> Result<ServerInfo, BackendError> {
        self.step(|_, _| (ServerInfo::new("a journal"), None)).map(|answer| answer.value)
    }

    async fn clock(&self) -> Result<Option<i64>, BackendError> {
        self.step(|_, now| (Some(now), None)).map(|answer| answer.value)
    }

    async fn register(&self, jobs: &[Registration], _: Duration) -> Result<Timed<Vec<Registered>>, BackendError> {
        self.step(|_, now| (jobs.iter().map(|_| Registered::new(now)).collect(), None))
    }

    async fn claim_manual(&self, claim: &ManualClaim) -> Result<Timed<ManualOutcome>, BackendError> {
        self.step(|lines, now| match won(lines, &claim.token) {
            _ if now > claim.valid_until => (ManualOutcome::Late, None),
            Some(slot) => (ManualOutcome::Won { slot, fence: None }, None),
            None => {
                let slot = Slot::from_ms(now);
                let line = line(&claim.job, slot, claim.token, &claim.instance, now, true);
                (ManualOutcome::Won { slot, fence: None }, line)
            }
        })
    }

    async fn finish(&self, finish: &Finish) -> Result<Timed<FinishOutcome>, BackendError> {
        let (status, wanted) = (finish.ending.status(), finish.token.to_string());
        self.step(|lines, at| {
            let ended = lines.iter().any(|line| matches!(line, Line::Ended { token, .. } if *token == wanted));
            let outcome = FinishOutcome::Recorded { run: lease::attempt_as_run(status), retry_in: None };
            let error = finish.ending.error().map(str::to_owned);
            let line = Line::Ended { token: wanted.clone(), status: status.to_string(), error, at };
            (outcome, (!ended).then_some(line))
        })
    }

    async fn history(&self, job: &JobName, limit: u32) -> Result<Vec<Record>, BackendError> {
        self.step(|lines, _| (history(lines, job, limit), None)).map(|answer| answer.value)
    }

    async fn close(&self) {}
}

/// The newest attempts of a job, each with its end, newest first.
fn history(lines: &[Line], wanted: &JobName, limit: u32) -> Vec<Record> {
    let mut attempts: Vec<AttemptRecord> = Vec::new();
    for line in lines {
        match line {
            Line::Won { job, slot, token, instance, at, manual } if *job == wanted.as_str() => {
                let (slot, Some(token)) = (Slot::from_ms(*slot), Token::parse(token)) else { continue };
                let run = if *manual {
                    RunKey::manual(wanted.clone(), slot, token)
                } else {
                    RunKey::scheduled(wanted.clone(), slot)
                };
                let mut attempt = AttemptRecord::new(run, 1, token, instance, *at);
                attempt.reason = if *manual { Reason::Manual } else { Reason::Scheduled };
                attempts.push(attempt);
            }
            Line::Ended { token, status, error, at } => {
                let attempt = attempts.iter_mut().find(|attempt| attempt.token.to_string() == *token);
                let (Some(attempt), Some(status)) = (attempt, AttemptStatus::parse(status)) else { continue };
                (attempt.status, attempt.run_status) = (Some(status), Some(lease::attempt_as_run(status)));
                (attempt.error, attempt.ended_at) = (error.clone(), Some(*at));
            }
            Line::Won { .. } => {}
        }
    }
    attempts.sort_by_key(|attempt| std::cmp::Reverse(attempt.run.slot));
    attempts.into_iter().take(limit as usize).map(Record::Attempt).collect()
}

async fn greet(ctx: Context, State(greeted): State<mpsc::UnboundedSender<()>>) {
    println!("{}  {} says hello", ctx.slot().format("%H:%M:%S%.3f"), ctx.instance_id());
    // Nobody listens any more when the program ends.
    let _ = greeted.send(());
}

#[tokio::main]
async fn main() -> Result<(), BoxError> {
    let directory = tempfile::tempdir()?;
    let file = directory.path().join("journal");
    let (sender, mut greeted) = mpsc::unbounded_channel::<()>();
    let mut instances = Vec::new();
    for name in ["a", "b"] {
        let builder = Scheduler::builder(Journal(file.clone())).instance_id(name).state(sender.clone());
        let instance = builder.start().await?;
        instance.every("greet", "500ms", greet).add().await?;
        instances.push(instance);
    }
    for _ in 0..6 {
        greeted.recv().await.ok_or("both are gone")?;
    }
    for instance in instances {
        instance.stop().await?;
    }
    println!("the journal:{}", std::fs::read_to_string(&file)?);
    Ok(())
}

#[cfg(test)]
mod tests {
    use anarchon::testing::conformance::Fixture;

    use super::Journal;

    /// Each test has a file of its own, which goes with it.
    struct Own(tempfile::TempDir);

    impl Fixture for Own {
        type Backend = Journal;

        async fn backend(&self) -> Journal {
            Journal(self.0.path().join("journal"))
        }
    }

    anarchon::claim_conformance!(journal, || async { Own(tempfile::tempdir().expect("a folder")) });
}
