//! One play: random calls under one clock, each made on both stores, and the comparison of what they answer.

use std::collections::BTreeMap;
use std::fmt::Debug;
use std::sync::Arc;
use std::time::Duration;

use super::{HandClock, HandClocked, Random};
use crate::backend::{Backend as _, LeaseBackend as _, MemoryBackend};
use crate::error::BackendError;
use crate::option::{Overlap, Retention};
use crate::run::{
    Beat, ClaimKind, ClaimOutcome, Ending, Finish, ManualClaim, ManualOutcome, Pause, Registered, Registration,
    Release, RunClaim, RunKey, Timed, Trim,
};
use crate::slot::{InstanceId, JobName, Slot, Token};

const GRID: i64 = 10_000;

type Many<T> = Vec<Result<T, BackendError>>;

/// Answers that must all occur, or the play has missed a rule.
const ANSWERS: &[&str] = &[
    "Won {",
    "Early {",
    "reason: Scheduled",
    "reason: CatchUp",
    "reason: Takeover",
    "reason: HandOver",
    "reason: Retry",
    "reason: Manual",
    "Done { status: Done",
    "Done { status: Failed",
    "Done { status: TimedOut",
    "Done { status: Dead",
    "Done { status: Skipped",
    "Done { status: Running",
    "Running {",
    "Paused { recorded: true",
    "Paused { recorded: false",
    "Overlap { blocker",
    "recorded: true",
    "recorded: false",
    "Gone",
    "Late(Floor",
    "Late(Trimmed",
    "Late(TooOld",
    "Late(Stale",
    "value: Late",
    "value: Overlap",
    "Alive",
    "Lost",
    "Recorded { run: Done",
    "Recorded { run: Failed",
    "Recorded { run: TimedOut",
    "Recorded { run: Waiting",
    "Released",
    "superseded",
    "stopped",
    "HandedOver",
    "Returned",
    "reason: Paused",
    "reason: Overlap",
    "count: 2",
    "others: [(",
    "status: Waiting",
    "Pause { by",
];

pub(super) struct Play<B> {
    random: Random,
    clock: Arc<HandClock>,
    memory: MemoryBackend,
    other: B,
    now: i64,
    jobs: Vec<JobName>,
    instances: Vec<InstanceId>,
    /// Every attempt that was asked for, and those that were won.
    asked: Vec<(RunKey, Token)>,
    won: Vec<(RunKey, Token)>,
    log: Vec<String>,
    /// How often each kind of answer was given.
    pub(super) seen: BTreeMap<&'static str, u64>,
}

impl<B: HandClocked> Play<B> {
    pub(super) async fn new(seed: u64, other: B) -> Self {
        let now = 1_800_000_000_000;
        other.set_clock(now).await;
        let clock = Arc::new(HandClock::at(now));
        let jobs = ["a", "sync", "Sync", "it's; drop table \"x\" -- 🦀?"].map(|n| JobName::new(n).unwrap()).to_vec();
        let instances = ["i-1", "i-2", "ï'3"].map(|n| InstanceId::new(n).unwrap()).to_vec();
        Self {
            random: Random(seed),
            memory: MemoryBackend::with_clock(Arc::clone(&clock) as _),
            other,
            clock,
            now,
            jobs,
            instances,
            asked: Vec::new(),
            won: Vec::new(),
            log: Vec::new(),
            seen: BTreeMap::new(),
        }
    }

    fn token(&mut self) -> Token {
        let (a, b) = (self.random.next().to_le_bytes(), self.random.next().to_le_bytes());
        let mut bytes = [0; 16];
        bytes[..8].copy_from_slice(&a);
        bytes[8..].copy_from_slice(&b);
        Token::from_random_bytes(bytes)
    }

    fn retention(&mut self) -> Retention {
        let ttl = self.random.pick(&[None, None, Some(Duration::from_secs(30))]);
        Retention::new(self.random.pick(&[0, 1, 3, 10, 100]), ttl)
    }

    fn claim(&mut self, job: JobName) -> RunClaim {
        let random = &mut self.random;
        let back = i64::try_from(random.pick(&[0_u64, 0, 0, 0, 1, 1, 1, 2, 3, 5])).unwrap();
        let ahead = i64::from(random.chance(5));
        let mut slot = Slot::from_ms((self.now / GRID - back + ahead) * GRID);
        // Often a run that was started a moment ago: it may be up for a takeover.
        let recent = self.won.iter().rev().filter(|(run, _)| run.manual.is_none() && run.job == job).take(3);
        let recent: Vec<Slot> = recent.map(|(run, _)| run.slot).collect();
        if !recent.is_empty() && random.chance(35) {
            slot = random.pick(&recent);
        }
        let known: Vec<Token> = self
            .asked
            .iter()
            .filter(|(run, _)| *run == RunKey::scheduled(job.clone(), slot))
            .map(|(_, t)| *t)
            .collect();
        let token = if !known.is_empty() && random.chance(30) { random.pick(&known) } else { self.token() };
        let random = &mut self.random;
        let mut claim = RunClaim::new(job, slot, token, random.pick(&self.instances));
        claim.kind = random.pick(&[
            ClaimKind::Scheduled,
            ClaimKind::Scheduled,
            ClaimKind::Scheduled,
            ClaimKind::Scheduled,
            ClaimKind::CatchUp,
            ClaimKind::Takeover,
            ClaimKind::Takeover,
        ]);
        claim.identity = random.pick(&["every 10s", "cron * * * * *", ""]).into();
        claim.floor = random.pick(&[i64::MIN, self.now - 9 * GRID, self.now - 30 * GRID]);
        claim.previous =
            random.pick(&[None, Some(Slot::from_ms(slot.ms() - GRID)), Some(Slot::from_ms(slot.ms() - GRID))]);
        claim.limit = random.pick(&[
            Duration::ZERO,
            Duration::from_secs(15),
            Duration::from_secs(60),
            Duration::from_secs(60),
            Duration::MAX,
        ]);
        claim.lease = Duration::from_millis(random.pick(&[500, 2_000, 5_000, 20_000, 60_000]));
        claim.overlap = random.pick(&[Overlap::Skip, Overlap::Skip, Overlap::Allow]);
        claim.max_attempts = random.pick(&[1, 2, 3, 3, 50]);
        claim.retry_failed = random.pick(&[
            None,
            Some(Duration::from_secs(1)),
            Some(Duration::from_secs(1)),
            Some(Duration::from_secs(400)),
        ]);
        claim.takeover_within = Duration::from_millis(random.pick(&[0, 3_000, 60_000, 3_600_000]));
        claim.valid_until = if random.chance(5) { self.now - 1 } else { random.pick(&[i64::MAX, self.now]) };
        claim.retention = self.retention();
        self.asked.push((claim.key(), claim.token));
        claim
    }

    fn attempt(&mut self) -> (RunKey, Token) {
        if self.asked.is_empty() || self.random.chance(3) {
            let (job, token) = (self.random.pick(&self.jobs), self.token());
            return (RunKey::scheduled(job, Slot::from_ms(self.now / GRID * GRID)), token);
        }
        // Mostly recent winners: those may be alive.
        let from = if self.random.chance(85) && !self.won.is_empty() { &self.won } else { &self.asked };
        let count = from.len() as u64;
        let back = if self.random.chance(80) { self.random.below(count.min(4)) } else { self.random.below(count) };
        from[usize::try_from(count - 1 - back).unwrap()].clone()
    }

    fn finish(&mut self) -> Finish {
        let (run, token) = self.attempt();
        let endings = [
            Ending::Done,
            Ending::Failed("no".into()),
            Ending::Failed("it's \"bad\"?".into()),
            Ending::TimedOut("5 s".into()),
        ];
        let ending = self.random.pick(&endings);
        let mut finish = Finish::new(run, token, ending, self.random.pick(&self.instances), self.now);
        finish.last = self.random.chance(10);
        finish
    }

    fn release(&mut self) -> Release {
        let (run, token) = self.attempt();
        if self.random.chance(50) { Release::hand_over(run, token) } else { Release::unstarted(run, token) }
    }

    fn beat(&mut self) -> Beat {
        let (run, token) = self.attempt();
        Beat::new(run, token, Duration::from_millis(self.random.pick(&[1_000, 5_000, 30_000])))
    }

    fn registration(&mut self, job: JobName) -> Registration {
        let identity = self.random.pick(&["every 10s", "cron * * * * *", "at noon"]).to_owned();
        let fingerprint = format!("{identity} {}", self.random.pick(&["2025b", "2026a"]));
        Registration::new(job, identity, fingerprint, self.random.pick(&self.instances))
    }

    pub(super) async fn step(&mut self) {
        if self.random.chance(45) {
            let mut by = self.random.pick(&[1, 50, 300, 300, 1_000, 1_500, 2_500, 4_000, 9_000, 25_000]);
            if self.random.chance(1) {
                by = self.random.pick(&[-2_000, 3_600_000, 86_400_000]);
            }
            self.advance(by).await;
        }
        match self.random.below(100) {
            0..34 => {
                let job = self.random.pick(&self.jobs);
                let claim = self.claim(job);
                let both = (self.memory.claim(&claim).await, self.other.claim(&claim).await);
                if let Ok(timed) = &both.0
                    && matches!(timed.value, ClaimOutcome::Won { .. })
                {
                    self.won.push((claim.key(), claim.token));
                }
                self.equal(&claim, both);
            }
            34..44 => {
                let count = self.random.below(7);
                let mut claims = Vec::new();
                for _ in 0..count {
                    let job = self.random.pick(&self.jobs);
                    claims.push(self.claim(job));
                }
                let both = (self.memory.claim_many(&claims).await, self.other.claim_many(&claims).await);
                self.all_equal(&claims, both);
            }
            44..60 => {
                let finishes: Vec<Finish> = (0..self.random.below(4)).map(|_| self.finish()).collect();
                let both = (self.memory.finish_many(&finishes).await, self.other.finish_many(&finishes).await);
                self.all_equal(&finishes, both);
            }
            60..70 => {
                let beats: Vec<Beat> = (0..self.random.below(5)).map(|_| self.beat()).collect();
                let both = (self.memory.heartbeat_many(&beats).await, self.other.heartbeat_many(&beats).await);
                self.all_equal(&beats, both);
            }
            70..77 => {
                let releases: Vec<Release> = (0..self.random.below(3)).map(|_| self.release()).collect();
                let both = (self.memory.release_many(&releases).await, self.other.release_many(&releases).await);
                self.all_equal(&releases, both);
            }
            77..82 => self.manual().await,
            82..87 => {
                let job = self.random.pick(&self.jobs);
                let pause = self.random.chance(30).then(|| Pause::new("o'brien", "why \"not\"?"));
                let both = (
                    self.memory.set_paused(&job, pause.as_ref()).await,
                    self.other.set_paused(&job, pause.as_ref()).await,
                );
                self.equal(&pause, both);
            }
            87..91 => {
                let jobs: Vec<JobName> = (0..3).map(|_| self.random.pick(&self.jobs)).collect();
                let registrations: Vec<Registration> = jobs.into_iter().map(|job| self.registration(job)).collect();
                let after = Duration::from_secs(30 * 86_400);
                let both = (
                    sorted(self.memory.register(&registrations, after).await),
                    sorted(self.other.register(&registrations, after).await),
                );
                self.equal(&registrations, both);
            }
            91..92 => self.forget().await,
            _ => {
                let (retention, keep) =
                    (self.retention(), Duration::from_millis(self.random.pick(&[0, 15_000, 90_000])));
                let mut trims: Vec<Trim> =
                    self.jobs.iter().map(|job| Trim::new(job.clone(), retention, keep)).collect();
                trims[0].retention = self.retention();
                let both = (self.memory.trim(&trims).await, self.other.trim(&trims).await);
                self.equal(&trims, both);
            }
        }
        self.look().await;
    }

    async fn manual(&mut self) {
        let manual: Vec<(RunKey, Token)> = self.asked.iter().filter(|(run, _)| run.manual.is_some()).cloned().collect();
        let (job, token) = if !manual.is_empty() && self.random.chance(40) {
            let (run, token) = self.random.pick(&manual);
            (run.job, token)
        } else {
            (self.random.pick(&self.jobs), self.token())
        };
        let mut claim = ManualClaim::new(job.clone(), token, self.random.pick(&self.instances), self.now);
        claim.exclusive = self.random.chance(50);
        claim.lease = Duration::from_millis(self.random.pick(&[500, 5_000, 30_000]));
        claim.valid_until = self.random.pick(&[i64::MAX, i64::MAX, self.now - 1]);
        let both = (self.memory.claim_manual(&claim).await, self.other.claim_manual(&claim).await);
        if let Ok(timed) = &both.0
            && let ManualOutcome::Won { slot, .. } = timed.value
        {
            self.asked.push((RunKey::manual(job.clone(), slot, token), token));
            self.won.push((RunKey::manual(job, slot, token), token));
        }
        self.equal(&claim, both);
    }

    /// Forgets jobs, in the moment after a registration: that touches them at one time in both stores, while claims
    /// touch them exactly in one and now and then in the other. Then registers all of them again, since the memory
    /// store makes a job of any call that names one.
    pub(super) async fn forget(&mut self) {
        let some: Vec<JobName> = self.jobs.iter().filter(|_| self.random.chance(50)).cloned().collect();
        // Forgotten jobs are looked for once a minute: this does it, and finds none.
        self.advance(61_000).await;
        self.register_all(self.jobs.clone()).await;
        self.advance(5_000).await;
        self.register_all(some).await;
        self.advance(2_000).await;
        let after = Duration::from_millis(self.random.pick(&[1_999, 2_000, 6_999, 7_000]));
        let one = [self.registration(self.jobs[0].clone())];
        let both = (sorted(self.memory.register(&one, after).await), sorted(self.other.register(&one, after).await));
        self.equal(&(&one, after), both);
        self.look_at_all().await;
        self.register_all(self.jobs.clone()).await;
    }

    async fn register_all(&mut self, jobs: Vec<JobName>) {
        let all: Vec<Registration> = jobs.into_iter().map(|job| self.registration(job)).collect();
        let after = Duration::from_secs(30 * 86_400);
        let both = (sorted(self.memory.register(&all, after).await), sorted(self.other.register(&all, after).await));
        if all.is_empty() {
            return;
        }
        self.equal(&all, both);
    }

    async fn advance(&mut self, by: i64) {
        self.now += by;
        self.clock.set(self.now);
        self.other.set_clock(self.now).await;
    }

    async fn look(&mut self) {
        if self.random.chance(30) {
            let jobs: Vec<JobName> = self.jobs.iter().filter(|_| self.random.0.is_multiple_of(3)).cloned().collect();
            let both = (self.memory.active(&jobs).await, self.other.active(&jobs).await);
            self.equal(&("active", jobs), both);
        }
        if self.random.chance(30) {
            let (job, limit) = (self.random.pick(&self.jobs), self.random.pick(&[0, 1, 5, 1_000]));
            let both = (self.memory.history(&job, limit).await, self.other.history(&job, limit).await);
            self.equal(&("history", &job, limit), both);
            let both = (self.memory.paused(&job).await, self.other.paused(&job).await);
            self.equal(&("paused", &job), both);
        }
    }

    pub(super) async fn look_at_all(&mut self) {
        for job in self.jobs.clone() {
            let both = (self.memory.history(&job, 10_000).await, self.other.history(&job, 10_000).await);
            self.equal(&("history", &job), both);
        }
        let both = (self.memory.active(&[]).await, self.other.active(&[]).await);
        self.equal(&"active", both);
    }

    fn all_equal<T: Debug, Q: Debug>(&mut self, asked: &[Q], (memory, other): (Many<T>, Many<T>)) {
        let all = |answers: Many<T>| answers.into_iter().collect::<Result<Vec<T>, _>>();
        self.equal(&asked, (all(memory), all(other)));
    }

    fn equal<T: Debug, Q: Debug + ?Sized>(
        &mut self,
        asked: &Q,
        (memory, other): (Result<T, BackendError>, Result<T, BackendError>),
    ) {
        let memory = memory.unwrap();
        let answer = format!("{memory:?}");
        for word in ANSWERS {
            *self.seen.entry(word).or_default() += u64::try_from(answer.matches(word).count()).unwrap();
        }
        self.log.push(format!("at {}: {asked:?}\n    -> {answer}", self.now));
        match other {
            Ok(other) if equal_but_for_fences(&format!("{other:?}"), &answer) => {}
            other => {
                let from = self.log.len().saturating_sub(40);
                let log = self.log[from..].join("\n");
                panic!(
                    "after {} answers\n{log}\n\n{}: {other:?}\nmemory: {memory:?}",
                    self.log.len(),
                    self.other.name()
                );
            }
        }
    }
}

/// Whether two answers, written out, are equal; but the fences of the first may be greater, since a store may use one up
/// for a claim that is lost.
fn equal_but_for_fences(other: &str, memory: &str) -> bool {
    const FENCE: &str = "fence: Some(";
    let fence = |text: &str| -> (u64, String) {
        let (digits, rest) = text.split_at(text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len()));
        (digits.parse().unwrap(), rest.to_owned())
    };
    let (mut others, mut memories) = (other.split(FENCE), memory.split(FENCE));
    others.next() == memories.next()
        && loop {
            match (others.next().map(fence), memories.next().map(fence)) {
                (None, None) => break true,
                (Some((greater, other)), Some((fence, memory))) if greater >= fence && other == memory => {}
                _ => break false,
            }
        }
}

/// In which order those who disagree are named is not promised.
fn sorted(
    mut registered: Result<Timed<Vec<Registered>>, BackendError>,
) -> Result<Timed<Vec<Registered>>, BackendError> {
    if let Ok(timed) = &mut registered {
        timed.value.iter_mut().for_each(|answer| answer.others.sort());
    }
    registered
}
