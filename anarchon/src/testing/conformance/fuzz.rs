//! Random calls by several clients, held to what is true under any timing.
//!
//! A seed gives a sequence of calls, always the same one. While they are sent, a ledger keeps what each answer promised
//! and checks the next ones against it. Set `ANARCHON_FUZZ_SEED` to repeat a sequence, and `ANARCHON_FUZZ_STEPS` for a
//! longer one.

use std::collections::{HashMap, HashSet};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use super::Fixture;
use super::support::{Client, answer, failed, timed_out};
use crate::backend::LeaseBackend;
use crate::option::{Overlap, Retention};
use crate::run::{
    AttemptStatus, Beat, BeatOutcome, ClaimKind, ClaimOutcome, Ending, Finish, FinishOutcome, ManualClaim,
    ManualOutcome, Pause, Record, Registration, Release, ReleaseOutcome, RunClaim, RunKey, Status, Trim,
};
use crate::slot::{JobName, Slot, Token};

const CLIENTS: u64 = 3;
const SLOTS: u64 = 6;
/// Under `skip`, under `allow`, and under `skip` with a short history.
const JOBS: [&str; 3] = ["fuzz-skip", "fuzz-allow", "fuzz-short"];

/// A small generator whose numbers are the same everywhere and for ever.
struct Dice(u64);

impl Dice {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    fn below(&mut self, n: u64) -> u64 {
        self.next() % n
    }

    fn pick<T: Clone>(&mut self, of: &[T]) -> T {
        let n = self.below(u64::try_from(of.len()).expect("a short list"));
        of[usize::try_from(n).expect("an index")].clone()
    }

    fn token(&mut self) -> Token {
        Token::from_random_bytes((u128::from(self.next()) << 64 | u128::from(self.next())).to_be_bytes())
    }
}

/// One call.
#[derive(Clone, Debug)]
enum Call {
    Claim(RunClaim),
    Manual(ManualClaim),
    Beat(Beat),
    Finish(Finish),
    Release(Release),
    Pause(JobName, bool),
    Register(Registration),
    Trim(Trim),
    Active(JobName),
    Wait(Duration),
}

/// A packet that claimed something, for later calls to be about.
#[derive(Clone)]
enum Packet {
    Slot(RunClaim),
    Manual(ManualClaim),
}

/// The calls of a seed, each with the client that sends it.
fn plan<B: LeaseBackend>(client: &Client<B>, seed: u64, steps: u64) -> Vec<(usize, Call)> {
    let mut dice = Dice(seed);
    let mut packets: Vec<Packet> = Vec::new();
    let ms = Duration::from_millis;
    let long = Duration::from_secs(60);
    (0..steps)
        .map(|_| {
            let by = usize::try_from(dice.below(CLIENTS)).expect("an index");
            let client = client.on(dice.pick(&JOBS));
            let call = match dice.below(100) {
                0..30 => {
                    let slot = client.ago(i64::try_from(dice.below(SLOTS)).expect("small") * 10_000 + 10_000);
                    let previous = Slot::from_ms(slot.ms() - 10_000);
                    let claim = RunClaim {
                        token: dice.token(),
                        kind: dice.pick(&[
                            ClaimKind::Scheduled,
                            ClaimKind::CatchUp,
                            ClaimKind::Takeover,
                            ClaimKind::Takeover,
                        ]),
                        lease: dice.pick(&[ms(1), ms(1), ms(15), long]),
                        overlap: if client.job.as_str() == JOBS[1] { Overlap::Allow } else { Overlap::Skip },
                        previous: dice.pick(&[None, Some(previous)]),
                        max_attempts: dice.pick(&[1, 2, 3, 100]),
                        retry_failed: dice.pick(&[None, Some(ms(1)), Some(long)]),
                        takeover_within: dice.pick(&[Duration::ZERO, long, long, long]),
                        valid_until: dice.pick(&[i64::MAX, i64::MAX, i64::MAX, client.start - 1]),
                        ..client.scheduled(slot)
                    };
                    packets.push(Packet::Slot(claim.clone()));
                    Call::Claim(claim)
                }
                // Not where runs are trimmed at once: a copy of a manual claim that is no longer known would start anew.
                30..35 if client.job.as_str() != JOBS[2] => {
                    let (token, lease) = (dice.token(), dice.pick(&[ms(1), ms(15), long]));
                    let claim = ManualClaim { token, lease, exclusive: dice.below(2) == 0, ..client.manual() };
                    packets.push(Packet::Manual(claim.clone()));
                    Call::Manual(claim)
                }
                35..45 => match packets.len() {
                    0 => Call::Active(client.job),
                    _ => match dice.pick(&packets) {
                        Packet::Slot(claim) => Call::Claim(claim),
                        Packet::Manual(claim) => Call::Manual(claim),
                    },
                },
                45..80 if !packets.is_empty() => {
                    let recent = packets.len().saturating_sub(12);
                    let from = if dice.below(3) == 0 { 0 } else { recent };
                    let (run, token) = match dice.pick(&packets[from..]) {
                        Packet::Slot(claim) => (claim.key(), claim.token),
                        Packet::Manual(claim) => {
                            (RunKey::manual(claim.job, Slot::from_ms(0), claim.token), claim.token)
                        }
                    };
                    match dice.below(10) {
                        0..3 => Call::Beat(Beat::new(run, token, dice.pick(&[ms(1), ms(15), long]))),
                        3..7 => {
                            let ending = dice.pick(&[Ending::Done, failed("no"), failed("no"), timed_out("slow")]);
                            Call::Finish(Finish { last: dice.below(8) == 0, ..client.finish_of(&run, token, ending) })
                        }
                        _ => Call::Release(Release { run, token, returned: dice.below(2) == 0 }),
                    }
                }
                80..86 => Call::Pause(client.job, dice.below(3) == 0),
                86..88 => {
                    let identity = dice.pick(&["a", "b"]).to_owned();
                    Call::Register(Registration::new(client.job, identity.clone(), identity, client.instance))
                }
                88..90 => {
                    let size = if client.job.as_str() == JOBS[2] { 2 } else { 10_000 };
                    Call::Trim(Trim::new(client.job, Retention::new(size, None), Duration::ZERO))
                }
                90..94 => Call::Wait(dice.pick(&[ms(1), ms(2), ms(5)])),
                _ => Call::Active(client.job),
            };
            (by, call)
        })
        .collect()
}

/// What was promised about an attempt.
#[derive(Clone, Debug)]
struct Promise {
    run: RunKey,
    attempt: u32,
    fence: u64,
    /// Recorded or released like this, if it was.
    ended: Option<AttemptStatus>,
    /// No more to be won: it was told so.
    over: bool,
}

/// What the answers have promised so far.
#[derive(Default)]
struct Ledger {
    won: HashMap<Token, Promise>,
    fences: HashMap<JobName, HashSet<u64>>,
    greatest: HashMap<JobName, u64>,
    slots: HashMap<Token, Slot>,
    /// How attempts ended whose win is not heard of yet: another client may hear of the end before the winner of its win.
    ended_early: HashMap<Token, AttemptStatus>,
}

impl Ledger {
    /// `was_over`: the token had been told that it was over before this call was sent. `alone`: no other call was under
    /// way, so that answers come in the order of their decisions.
    fn won(&mut self, run: RunKey, token: Token, attempt: u32, fence: Option<u64>, was_over: bool, alone: bool) {
        let fence = fence.expect("a store with leases gives a fence");
        assert!(!was_over, "{token} of {run} wins after it was told that it is over");
        if let Some(promise) = self.won.get(&token) {
            assert_eq!(
                (&promise.run, promise.attempt, promise.fence),
                (&run, attempt, fence),
                "{token} wins otherwise"
            );
            return;
        }
        assert!(self.fences.entry(run.job.clone()).or_default().insert(fence), "fence {fence} of {run} twice");
        let greatest = self.greatest.entry(run.job.clone()).or_default();
        assert!(!alone || fence > *greatest, "fence {fence} of {run} after {greatest}");
        *greatest = fence.max(*greatest);
        self.slots.insert(token, run.slot);
        let ended = self.ended_early.remove(&token);
        self.won.insert(token, Promise { run, attempt, fence, ended, over: ended.is_some() });
    }

    fn over(&mut self, token: Token, ended: Option<AttemptStatus>) {
        let Some(promise) = self.won.get_mut(&token) else {
            if let Some(ended) = ended {
                let known = *self.ended_early.entry(token).or_insert(ended);
                assert_eq!(known, ended, "{token} ended in two ways");
            }
            return;
        };
        promise.over = true;
        if ended.is_some() {
            assert!(promise.ended.is_none() || promise.ended == ended, "{token} ended as {ended:?} and {promise:?}");
            promise.ended = ended;
        }
    }

    /// Lost says that an attempt is over only if it was won before that was asked: what was sent before the answer to its
    /// claim may have been decided before the claim, or name a manual run by no slot.
    fn lost(&mut self, token: Token, was_won: bool) {
        if was_won {
            self.over(token, None);
        }
    }

    fn is_over(&self, token: Token) -> bool {
        self.won.get(&token).is_some_and(|promise| promise.over)
    }

    /// One attempt per number, of those that were not returned, and one recorded end of a run at most that is final.
    fn check(&self) {
        assert!(self.ended_early.is_empty(), "ended, but never won: {:?}", self.ended_early);
        let mut numbers = HashMap::new();
        for (token, promise) in &self.won {
            if promise.ended != Some(AttemptStatus::Returned)
                && let Some(other) = numbers.insert((&promise.run, promise.attempt), token)
            {
                let other_one = &self.won[other];
                panic!(
                    "attempt {} of {} was won by {token} and by {other} ({other_one:?})",
                    promise.attempt, promise.run
                );
            }
        }
        let mut done = HashSet::new();
        for promise in self.won.values().filter(|p| p.ended == Some(AttemptStatus::Done)) {
            assert!(done.insert(&promise.run), "{} is done twice", promise.run);
        }
    }
}

struct Fuzz<B> {
    client: Client<B>,
    ledger: Arc<Mutex<Ledger>>,
    alone: bool,
}

impl<B: LeaseBackend> Fuzz<B> {
    fn ledger<R>(&self, with: impl FnOnce(&mut Ledger) -> R) -> R {
        with(&mut self.ledger.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// A manual run's key holds the slot it was given.
    fn key(&self, run: &RunKey) -> RunKey {
        let slot = run.manual.and_then(|token| self.ledger(|l| l.slots.get(&token).copied()));
        RunKey { slot: slot.unwrap_or(run.slot), ..run.clone() }
    }

    async fn send(&self, call: &Call) {
        let store = &self.client.store;
        match call {
            Call::Claim(claim) => {
                let was_over = self.ledger(|l| l.is_over(claim.token));
                match answer!("claim", store.claim(claim).await).value {
                    ClaimOutcome::Won { attempt, fence, .. } => {
                        self.ledger(|l| l.won(claim.key(), claim.token, attempt, fence, was_over, self.alone));
                    }
                    ClaimOutcome::Done { .. } => self.ledger(|l| l.over(claim.token, None)),
                    _ => {}
                }
            }
            Call::Manual(claim) => {
                let was_over = self.ledger(|l| l.is_over(claim.token));
                match answer!("claim_manual", store.claim_manual(claim).await).value {
                    ManualOutcome::Won { slot, fence } => {
                        let run = RunKey::manual(claim.job.clone(), slot, claim.token);
                        self.ledger(|l| l.won(run, claim.token, 1, fence, was_over, self.alone));
                    }
                    ManualOutcome::Late => self.ledger(|l| l.over(claim.token, None)),
                    ManualOutcome::Overlap => {}
                }
            }
            Call::Beat(beat) => {
                let beat = Beat { run: self.key(&beat.run), ..beat.clone() };
                let was_over = self.ledger(|l| l.is_over(beat.token));
                if answer!("heartbeat", store.heartbeat(&beat).await).value == BeatOutcome::Alive {
                    assert!(!was_over, "{beat:?} is alive after it was told that it is over");
                }
            }
            Call::Finish(finish) => {
                let was_won = self.ledger(|l| l.won.contains_key(&finish.token));
                let finish = Finish { run: self.key(&finish.run), ..finish.clone() };
                match answer!("finish", store.finish(&finish).await).value {
                    FinishOutcome::Recorded { run, retry_in } => {
                        assert_eq!(run == Status::Waiting, retry_in.is_some(), "{finish:?}");
                        self.ledger(|l| l.over(finish.token, Some(finish.ending.status())));
                    }
                    FinishOutcome::Lost => self.ledger(|l| l.lost(finish.token, was_won)),
                }
            }
            Call::Release(release) => {
                let was_won = self.ledger(|l| l.won.contains_key(&release.token));
                let release = Release { run: self.key(&release.run), ..release.clone() };
                let status = if release.returned { AttemptStatus::Returned } else { AttemptStatus::HandedOver };
                match answer!("release", store.release(&release).await).value {
                    ReleaseOutcome::Released => self.ledger(|l| l.over(release.token, Some(status))),
                    ReleaseOutcome::Lost => self.ledger(|l| l.lost(release.token, was_won)),
                }
            }
            Call::Pause(job, on) => {
                let pause = on.then(|| Pause::new("fuzz", "fuzz"));
                answer!("set_paused", store.set_paused(job, pause.as_ref()).await);
            }
            Call::Register(registration) => {
                let jobs = [registration.clone()];
                let month = Duration::from_secs(30 * 86_400);
                answer!("register", store.register(&jobs, month).await);
            }
            Call::Trim(trim) => {
                let jobs = [trim.clone()];
                answer!("trim", store.trim(&jobs).await);
            }
            Call::Active(job) => self.look(job).await,
            Call::Wait(wait) => self.client.pass(*wait).await,
        }
    }

    /// What can be seen at one moment.
    async fn look(&self, job: &JobName) {
        let client = self.client.on(job.as_str());
        let active = client.active().await;
        let exclusive: HashSet<_> = active.iter().map(|a| &a.run).collect();
        assert_eq!(exclusive.len(), active.len(), "a run is active once: {active:?}");
        let live: Vec<_> = active
            .iter()
            .filter(|a| a.status == Status::Running && !a.left.is_zero() && a.run.manual.is_none())
            .collect();
        assert!(job.as_str() == JOBS[1] || live.len() <= 1, "two runs of {job} are live under skip: {live:?}");
        if self.alone {
            let known = self.ledger(|l| active.iter().all(|a| l.won.values().any(|p| p.run == a.run)));
            assert!(known, "a run is active that nobody has won: {active:?}");
        }
    }

    /// What history says in the end, against what was promised.
    async fn compare(&self, job: &str) {
        let client = self.client.on(job);
        let records = client.records(100_000).await;
        let order: Vec<_> = records.iter().map(|r| (r.slot(), r.attempt().and_then(|a| a.fence))).collect();
        assert!(order.windows(2).all(|pair| pair[0] >= pair[1]), "newest first: {order:?}");
        let attempts: Vec<_> = records.iter().filter_map(Record::attempt).collect();
        let told: HashSet<_> = attempts.iter().map(|a| a.token).collect();
        assert_eq!(told.len(), attempts.len(), "one record per attempt");
        self.ledger(|ledger| {
            ledger.check();
            for attempt in &attempts {
                let promise = ledger.won.get(&attempt.token).unwrap_or_else(|| panic!("nobody won {attempt:?}"));
                let promised = (&promise.run, promise.attempt, Some(promise.fence));
                assert_eq!((&attempt.run, attempt.attempt, attempt.fence), promised, "{attempt:?}");
                let status = attempt.status.expect("a status");
                assert!(promise.ended.is_none_or(|ended| ended == status), "{promise:?}, but {attempt:?}");
                assert_eq!(attempt.ended_at.is_none(), status == AttemptStatus::Running, "{attempt:?}");
                assert_eq!(
                    attempt.run_status,
                    attempts.iter().find(|a| a.run == attempt.run).and_then(|a| a.run_status)
                );
            }
            for (token, promise) in ledger.won.iter().filter(|(_, p)| p.run.job.as_str() == job) {
                assert!(job == JOBS[2] || told.contains(token), "history has forgotten {promise:?}");
            }
        });
        let mut spans = Vec::new();
        for record in &records {
            if let Record::Skipped(skip) = record {
                assert!(skip.first <= skip.last && skip.count >= 1, "{skip:?}");
                let inside = |a: &&&crate::run::AttemptRecord| {
                    a.run.manual.is_none() && a.run.slot >= skip.first && a.run.slot <= skip.last
                };
                assert_eq!(attempts.iter().find(inside), None, "a run stands inside {skip:?}");
                spans.push((skip.first, skip.last));
            }
        }
        spans.sort();
        assert!(spans.windows(2).all(|pair| pair[0].1 < pair[1].0), "skips stand apart: {spans:?}");
    }
}

/// Sends the calls of `seed`, one after the other or all clients at once.
pub async fn run_seed<F: Fixture<Backend: LeaseBackend>>(fixture: &F, seed: u64, steps: u64, at_once: bool) {
    let first = Client::new(fixture).await;
    let ledger = Arc::new(Mutex::new(Ledger::default()));
    let calls = plan(&first, seed, steps);
    let mut fuzzers = Vec::new();
    for n in 0..CLIENTS {
        let client = first.other(fixture, &format!("instance-{n}")).await;
        fuzzers.push(Fuzz { client, ledger: Arc::clone(&ledger), alone: !at_once });
    }
    let watch = Fuzz { client: first, ledger, alone: !at_once };
    if at_once {
        let mut tasks = Vec::new();
        for (n, fuzz) in fuzzers.into_iter().enumerate() {
            let calls: Vec<_> = calls.iter().filter(|(by, _)| *by == n).map(|(_, call)| call.clone()).collect();
            tasks.push(tokio::spawn(async move {
                for call in &calls {
                    fuzz.send(call).await;
                }
            }));
        }
        for task in tasks {
            task.await.expect("a client");
        }
    } else {
        for (by, call) in &calls {
            fuzzers[*by].send(call).await;
        }
    }
    for job in JOBS {
        watch.compare(job).await;
        watch.look(&super::support::job(job)).await;
    }
}

struct Naming(u64, u64);

impl Drop for Naming {
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("repeat with ANARCHON_FUZZ_SEED={} ANARCHON_FUZZ_STEPS={}", self.0, self.1);
        }
    }
}

async fn seeds<F: Fixture<Backend: LeaseBackend>>(fixture: &F, at_once: bool) {
    let number = |name: &str| std::env::var(name).ok().and_then(|text| text.parse::<u64>().ok());
    let steps = number("ANARCHON_FUZZ_STEPS").unwrap_or(600);
    let seed = number("ANARCHON_FUZZ_SEED").unwrap_or_else(|| Dice(u64::from(std::process::id())).next() ^ now());
    let naming = Naming(seed, steps);
    run_seed(fixture, seed, steps, at_once).await;
    drop(naming);
}

fn now() -> u64 {
    use crate::clock::{Clock as _, SystemClock};
    SystemClock.wall_ms().unsigned_abs()
}

/// Random calls, one after the other by several clients.
pub async fn random_calls_keep_their_promises<F: Fixture<Backend: LeaseBackend>>(fixture: &F) {
    seeds(fixture, false).await;
}

/// Random calls by several clients at once.
pub async fn random_calls_at_once_keep_their_promises<F: Fixture<Backend: LeaseBackend>>(fixture: &F) {
    seeds(fixture, true).await;
}
