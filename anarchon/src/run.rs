//! What is said about a run: the requests an instance sends, the store's answers, and the records that history shows.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use crate::option::{Overlap, Retention};
use crate::slot::{InstanceId, JobName, Slot, Token};

macro_rules! words {
    ($(#[$meta:meta])* $name:ident { $($(#[$vmeta:meta])* $variant:ident = $text:literal,)+ }) => {
        $(#[$meta])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        #[non_exhaustive]
        pub enum $name { $($(#[$vmeta])* $variant,)+ }

        impl $name {
            /// The word that stores, logs and tables use.
            #[must_use]
            pub const fn as_str(self) -> &'static str {
                match self { $(Self::$variant => $text,)+ }
            }

            /// Reads the word back; `None` when it is not one of them.
            #[must_use]
            pub fn parse(word: &str) -> Option<Self> {
                match word { $($text => Some(Self::$variant),)+ _ => None }
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(self.as_str())
            }
        }
    };
}

words! {
    /// The state of a run.
    Status {
        /// An attempt runs, or ran and was given up, so that a backup may start the next one.
        Running = "running",
        /// The last attempt failed; the next one starts once its wait is over (`retry_failed`).
        Waiting = "waiting",
        /// An attempt ended well.
        Done = "done",
        /// The last attempt failed and no other follows.
        Failed = "failed",
        /// The last attempt ran out of time and no other follows.
        TimedOut = "timed_out",
        /// Its runners died, and either no attempt is left or nobody took it over in time.
        Dead = "dead",
        /// The slot was decided without a run: the job was paused, or another run of it was live.
        Skipped = "skipped",
    }
}

words! {
    /// The state of one attempt.
    AttemptStatus {
        /// It runs.
        Running = "running",
        /// It ended well.
        Done = "done",
        /// The handler returned an error or panicked.
        Failed = "failed",
        /// It ran longer than its time-out.
        TimedOut = "timed_out",
        /// Its lease ran out.
        Lost = "lost",
        /// The instance stopped and gave the run up, for another to start it again.
        HandedOver = "handed_over",
        /// Won, but given back before the handler started.
        Returned = "returned",
    }
}

words! {
    /// Why an attempt was started.
    Reason {
        /// Its slot was due.
        Scheduled = "scheduled",
        /// The runner before it died.
        Takeover = "takeover",
        /// The runner before it gave the run up while stopping.
        HandOver = "hand-over",
        /// The attempt before it failed, and `retry_failed` is set.
        Retry = "retry",
        /// The slot was missed while nobody ran, and is made up for.
        CatchUp = "catch-up",
        /// Somebody called `run_now`.
        Manual = "manual",
    }
}

words! {
    /// Why a slot was skipped on the record.
    SkipReason {
        /// Another run of the job was live.
        Overlap = "overlap",
        /// The job was paused.
        Paused = "paused",
    }
}

words! {
    /// What a claim wants.
    ClaimKind {
        /// A slot that fell due while the instance was up.
        Scheduled = "scheduled",
        /// The latest slot that was due before start, wake-up or a clock jump.
        CatchUp = "catch-up",
        /// A run whose lease is over.
        Takeover = "takeover",
    }
}

/// The identity of a run: a job and a slot, or for a manual run its own token.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct RunKey {
    /// The job.
    pub job: JobName,
    /// The slot; for a manual run the store's time when it was claimed.
    pub slot: Slot,
    /// The token that names a manual run; `None` for the run of a slot.
    pub manual: Option<Token>,
}

impl RunKey {
    /// The run of `job` at `slot`.
    #[must_use]
    pub fn scheduled(job: JobName, slot: Slot) -> Self {
        Self { job, slot, manual: None }
    }

    /// A manual run, named by its token.
    #[must_use]
    pub fn manual(job: JobName, slot: Slot, token: Token) -> Self {
        Self { job, slot, manual: Some(token) }
    }
}

impl fmt::Display for RunKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.manual {
            None => write!(f, "{} @ {}", self.job, self.slot),
            Some(token) => write!(f, "{} (manual {token})", self.job),
        }
    }
}

/// "I am running this slot, unless someone already does": the request to a claim-only store.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct SlotClaim {
    /// The job.
    pub job: JobName,
    /// The slot.
    pub slot: Slot,
    /// The attempt's token; a claim sent twice carries the same one.
    pub token: Token,
    /// Who asks.
    pub instance: InstanceId,
    /// How late, in all, the slot may be by the store's clock, where the store has one; later is refused.
    pub limit: Duration,
    /// The store time after which this packet must be refused, in ms since the epoch; `i64::MAX` for a store without a clock.
    pub valid_until: i64,
    /// How much history to keep.
    pub retention: Retention,
}

impl SlotClaim {
    /// A claim of `job` at `slot` that never goes stale.
    #[must_use]
    pub fn new(job: JobName, slot: Slot, token: Token, instance: InstanceId) -> Self {
        let limit = Duration::from_secs(60);
        Self { job, slot, token, instance, limit, valid_until: i64::MAX, retention: Retention::default() }
    }
}

/// A claim on a lease backend. What it needs to know of the job travels with it, so the store decides in one step.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct RunClaim {
    /// The job.
    pub job: JobName,
    /// The slot.
    pub slot: Slot,
    /// What the claim wants.
    pub kind: ClaimKind,
    /// The attempt's token; a claim sent twice carries the same one.
    pub token: Token,
    /// Who asks.
    pub instance: InstanceId,
    /// The job's schedule identity.
    pub identity: Arc<str>,
    /// The floor this instance was given for that identity, in store ms; the store takes it from here when it has none.
    pub floor: i64,
    /// The slot before this one by the job's own schedule.
    pub previous: Option<Slot>,
    /// How old the slot may be: `max_late` for a scheduled claim, max(`max_late`, `catch_up`) for a catch-up.
    pub limit: Duration,
    /// How long a won lease lasts.
    pub lease: Duration,
    /// What to do while another run of the job is live.
    pub overlap: Overlap,
    /// How many started attempts may end lost, failed or timed out; kept with the run at its first claim.
    pub max_attempts: u32,
    /// The first wait before a failed attempt is started again; kept with the run.
    pub retry_failed: Option<Duration>,
    /// How long after its lease ended a run may still be taken over; kept with the run.
    pub takeover_within: Duration,
    /// The store time after which this packet is refused, in ms since the epoch.
    pub valid_until: i64,
    /// How much history to keep.
    pub retention: Retention,
}

impl RunClaim {
    /// A scheduled claim with the default options that never goes stale; set the fields that differ.
    #[must_use]
    pub fn new(job: JobName, slot: Slot, token: Token, instance: InstanceId) -> Self {
        Self {
            job,
            slot,
            kind: ClaimKind::Scheduled,
            token,
            instance,
            identity: Arc::default(),
            floor: i64::MIN,
            previous: None,
            limit: Duration::from_secs(60),
            lease: Duration::from_secs(15),
            overlap: Overlap::Skip,
            max_attempts: 3,
            retry_failed: None,
            takeover_within: Duration::from_secs(3600),
            valid_until: i64::MAX,
            retention: Retention::default(),
        }
    }

    /// The run this claim is about.
    #[must_use]
    pub fn key(&self) -> RunKey {
        RunKey::scheduled(self.job.clone(), self.slot)
    }
}

/// A manual run to be started here and now.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct ManualClaim {
    /// The job.
    pub job: JobName,
    /// The token, which also names the run.
    pub token: Token,
    /// Who asks.
    pub instance: InstanceId,
    /// Refused while another run of the job is live, and counts as one itself.
    pub exclusive: bool,
    /// How long the lease lasts; ignored by claim-only stores.
    pub lease: Duration,
    /// The store time after which this packet is refused, in ms since the epoch.
    pub valid_until: i64,
    /// How much history to keep.
    pub retention: Retention,
    /// The caller's store time, for a store that has no clock of its own, in ms since the epoch.
    pub now: i64,
}

impl ManualClaim {
    /// A manual run that never goes stale and does not mind other runs.
    #[must_use]
    pub fn new(job: JobName, token: Token, instance: InstanceId, now: i64) -> Self {
        Self {
            job,
            token,
            instance,
            exclusive: false,
            lease: Duration::from_secs(15),
            valid_until: i64::MAX,
            retention: Retention::default(),
            now,
        }
    }
}

/// The store's answer to a [`ManualClaim`].
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ManualOutcome {
    /// It may start.
    Won {
        /// The time the store gave it, in its own clock.
        slot: Slot,
        /// The fence, on stores with leases.
        fence: Option<u64>,
    },
    /// An exclusive one was refused: another run of the job is live.
    Overlap,
    /// The packet came after its `valid_until`, or the run has ended already.
    Late,
}

/// What a claim-only store answers: was this token first?
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum SlotOutcome {
    /// The token was first, or is the first one sent again.
    Won,
    /// Another was first.
    Taken,
    /// The slot lies after the store's clock by this much.
    Early(Duration),
    /// Too old for the store's memory, or for `limit`.
    Late,
    /// The packet came after its `valid_until`.
    Stale,
}

/// Why a claim came too late.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Lateness {
    /// At or before the floor: it was never owed.
    Floor,
    /// At or before the trim mark: it was decided, and forgotten.
    Trimmed,
    /// Older than the claim's limit by the store's clock.
    TooOld,
    /// The packet came after its `valid_until`; nobody is told.
    Stale,
}

/// The outcome of a claim on a lease backend. Losing is a value and no error.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ClaimOutcome {
    /// The slot is later than the store's clock: ask again after `wait`, with the same token.
    Early {
        /// How long until the slot.
        wait: Duration,
    },
    /// This token runs the attempt. The same token asked again gets the same answer.
    Won {
        /// The attempt's number, from 1.
        attempt: u32,
        /// Grows with every won claim of the job; `None` on stores without leases.
        fence: Option<u64>,
        /// Why the attempt starts.
        reason: Reason,
        /// The run's `max_attempts`, as stored at its first claim; a run with 1 is never handed over.
        max_attempts: u32,
    },
    /// Decided and over; or taken by a store without leases.
    Done {
        /// The run's status, or that of the attempt whose late packet this was.
        status: Status,
    },
    /// Someone runs it, or it waits for its retry time: become a backup.
    Running {
        /// How long its lease, or its wait, still lasts; zero when a locked row hides it.
        left: Duration,
    },
    /// The job is paused.
    Paused {
        /// Whether the slot was recorded as skipped.
        recorded: bool,
    },
    /// Another run of the job is live.
    Overlap {
        /// That run.
        blocker: RunKey,
        /// How long the blocker's lease still lasts.
        left: Duration,
        /// Whether the slot was recorded as skipped.
        recorded: bool,
    },
    /// A takeover found no run.
    Gone,
    /// Too late to be decided; not recorded.
    Late(Lateness),
}

/// A store's answer together with its clock.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Timed<T> {
    /// The answer.
    pub value: T,
    /// The store's clock when it answered, in ms since the epoch; `None` where it has none.
    pub store_ms: Option<i64>,
}

impl<T> Timed<T> {
    /// An answer given at `store_ms`.
    pub const fn at(value: T, store_ms: i64) -> Self {
        Self { value, store_ms: Some(store_ms) }
    }

    /// The answer of a store without a clock.
    pub const fn clockless(value: T) -> Self {
        Self { value, store_ms: None }
    }
}

/// "This attempt is alive."
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Beat {
    /// The run.
    pub run: RunKey,
    /// The attempt's token.
    pub token: Token,
    /// How long from now the lease shall last at least.
    pub lease: Duration,
}

impl Beat {
    /// A heartbeat of the attempt that holds `token`.
    #[must_use]
    pub fn new(run: RunKey, token: Token, lease: Duration) -> Self {
        Self { run, token, lease }
    }
}

/// The answer to a [`Beat`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum BeatOutcome {
    /// The lease lasts for at least the time that was asked for.
    Alive,
    /// The lease is over, or the run is somebody else's: nothing was revived.
    Lost,
    /// The row is locked by a transaction that finishes the run: neither renewed nor lost.
    Locked,
}

/// How a handler ended.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Ending {
    /// It returned `()` or `Ok`.
    Done,
    /// It returned an error or panicked; the text is at most 4 KiB, without control characters.
    Failed(String),
    /// It ran out of time.
    TimedOut(String),
}

impl Ending {
    /// The attempt's status that this ending leaves.
    #[must_use]
    pub fn status(&self) -> AttemptStatus {
        match self {
            Self::Done => AttemptStatus::Done,
            Self::Failed(_) => AttemptStatus::Failed,
            Self::TimedOut(_) => AttemptStatus::TimedOut,
        }
    }

    /// The error text, if there is one.
    #[must_use]
    pub fn error(&self) -> Option<&str> {
        match self {
            Self::Done => None,
            Self::Failed(text) | Self::TimedOut(text) => Some(text),
        }
    }
}

/// "This attempt has ended."
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Finish {
    /// The run.
    pub run: RunKey,
    /// The attempt's token.
    pub token: Token,
    /// How it ended.
    pub ending: Ending,
    /// Whether the run ends with it even though attempts are left: a stopped run that must not start twice.
    pub last: bool,
    /// Whether a transaction of the user's own may have marked the attempt done before. If so, nothing is written, and
    /// the answer is that the run is recorded as done. Only sent to stores with a
    /// [`transactional_finish`](crate::Backend::transactional_finish).
    pub unless_done: bool,
    /// Who ran it.
    pub instance: InstanceId,
    /// How much history to keep.
    pub retention: Retention,
    /// The runner's estimate of the store time, for stores without a clock, in ms since the epoch.
    pub now: i64,
}

impl Finish {
    /// The end of the attempt that holds `token`.
    #[must_use]
    pub fn new(run: RunKey, token: Token, ending: Ending, instance: InstanceId, now: i64) -> Self {
        Self { run, token, ending, last: false, unless_done: false, instance, retention: Retention::default(), now }
    }
}

/// The answer to a [`Finish`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum FinishOutcome {
    /// Written, now or by an earlier copy of the same packet.
    Recorded {
        /// The run's status afterwards: `done`, `failed`, `timed_out`, or `waiting` for its next attempt.
        run: Status,
        /// How long a waiting run still waits.
        retry_in: Option<Duration>,
    },
    /// The attempt is not the run's current one any more: nothing was written.
    Lost,
}

/// "I give this attempt up."
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Release {
    /// The run.
    pub run: RunKey,
    /// The attempt's token.
    pub token: Token,
    /// Whether the handler never started, so that the attempt is given back (`returned`), or was handed over.
    pub returned: bool,
}

impl Release {
    /// Gives the attempt up after its handler has ended.
    #[must_use]
    pub fn hand_over(run: RunKey, token: Token) -> Self {
        Self { run, token, returned: false }
    }

    /// Gives back an attempt whose handler never started.
    #[must_use]
    pub fn unstarted(run: RunKey, token: Token) -> Self {
        Self { run, token, returned: true }
    }
}

/// The answer to a [`Release`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ReleaseOutcome {
    /// Given up, now or by an earlier copy of the same packet.
    Released,
    /// The store knows no such attempt: it was never won, or is over.
    Lost,
}

/// An unfinished run, as backups see it.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct ActiveRun {
    /// The run.
    pub run: RunKey,
    /// `running` or `waiting`.
    pub status: Status,
    /// The number of its latest attempt.
    pub attempt: u32,
    /// Who has, or had, the latest attempt.
    pub instance: Option<InstanceId>,
    /// How long its lease (running) or its wait (waiting) still lasts; zero when that is over.
    pub left: Duration,
}

impl ActiveRun {
    /// An unfinished run.
    #[must_use]
    pub fn new(run: RunKey, status: Status, attempt: u32, instance: Option<InstanceId>, left: Duration) -> Self {
        Self { run, status, attempt, instance, left }
    }
}

/// What an instance tells the store about a job when it starts, and once a day.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Registration {
    /// The job.
    pub job: JobName,
    /// Its schedule identity.
    pub identity: Arc<str>,
    /// Schedule identity and tzdata version; instances that disagree are warned.
    pub fingerprint: Arc<str>,
    /// Who registers.
    pub instance: InstanceId,
    /// How much history to keep.
    pub retention: Retention,
}

impl Registration {
    /// Registers `job` with one schedule identity.
    pub fn new(
        job: JobName,
        identity: impl Into<Arc<str>>,
        fingerprint: impl Into<Arc<str>>,
        instance: InstanceId,
    ) -> Self {
        let fingerprint = fingerprint.into();
        let identity = identity.into();
        Self { job, identity, fingerprint, instance, retention: Retention::default() }
    }
}

/// The store's answer to a [`Registration`].
#[derive(Clone, Debug, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct Registered {
    /// The store time at which this schedule identity was first registered, in ms since the epoch.
    pub floor: i64,
    /// What other instances registered for this job within the last day and that differs: (instance, fingerprint).
    pub others: Vec<(String, String)>,
}

impl Registered {
    /// An answer with this floor and nobody who disagrees.
    #[must_use]
    pub fn new(floor: i64) -> Self {
        Self { floor, others: Vec::new() }
    }
}

/// What a trim of one job keeps.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Trim {
    /// The job.
    pub job: JobName,
    /// How much history to keep.
    pub retention: Retention,
    /// A slot decided less than this ago is kept whatever `retention` says.
    pub keep: Duration,
}

impl Trim {
    /// Trims `job` to `retention`, keeping what is younger than `keep`.
    #[must_use]
    pub fn new(job: JobName, retention: Retention, keep: Duration) -> Self {
        Self { job, retention, keep }
    }
}

/// Who paused a job, when and why.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Pause {
    /// Who: the instance, or what the caller said.
    pub by: String,
    /// When, in store ms since the epoch; 0 in a request, since the store fills it in.
    pub at: i64,
    /// A note for those who wonder.
    pub note: String,
}

impl Pause {
    /// A pause by `by`, with a note.
    pub fn new(by: impl Into<String>, note: impl Into<String>) -> Self {
        Self { by: by.into(), at: 0, note: note.into() }
    }
}

/// One started (or returned) attempt, as history shows it.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct AttemptRecord {
    /// The run.
    pub run: RunKey,
    /// The attempt's number, from 1.
    pub attempt: u32,
    /// Its token.
    pub token: Token,
    /// Its fence; `None` on claim-only stores.
    pub fence: Option<u64>,
    /// Why it was started.
    pub reason: Reason,
    /// Who ran it.
    pub instance: String,
    /// Where it stands. `None` on a claim-only store that has no result: the run may still be going, or be lost.
    pub status: Option<AttemptStatus>,
    /// The run's own status; `None` where the store keeps none.
    pub run_status: Option<Status>,
    /// When it was claimed, in store ms since the epoch.
    pub claimed_at: i64,
    /// When it ended, in store ms since the epoch.
    pub ended_at: Option<i64>,
    /// The error text of a failed or timed-out attempt.
    pub error: Option<String>,
    /// A remark, such as `superseded` or `stopped`.
    pub note: Option<String>,
}

impl AttemptRecord {
    /// A record of a claimed attempt; set the fields that are known beyond that.
    #[must_use]
    pub fn new(run: RunKey, attempt: u32, token: Token, instance: impl Into<String>, claimed_at: i64) -> Self {
        Self {
            run,
            attempt,
            token,
            fence: None,
            reason: Reason::Scheduled,
            instance: instance.into(),
            status: None,
            run_status: None,
            claimed_at,
            ended_at: None,
            error: None,
            note: None,
        }
    }
}

/// Slots that were decided without a run, one after the other and for one reason.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct SkipRecord {
    /// The job.
    pub job: JobName,
    /// The first slot.
    pub first: Slot,
    /// The last slot.
    pub last: Slot,
    /// How many slots.
    pub count: u64,
    /// Why.
    pub reason: SkipReason,
}

impl SkipRecord {
    /// A record of skipped slots.
    #[must_use]
    pub fn new(job: JobName, first: Slot, last: Slot, count: u64, reason: SkipReason) -> Self {
        Self { job, first, last, count, reason }
    }
}

/// One line of history.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Record {
    /// An attempt.
    Attempt(AttemptRecord),
    /// Skipped slots.
    Skipped(SkipRecord),
}

impl Record {
    /// The slot it is about; of skipped ones the last.
    #[must_use]
    pub fn slot(&self) -> Slot {
        match self {
            Self::Attempt(a) => a.run.slot,
            Self::Skipped(s) => s.last,
        }
    }

    /// The attempt, if it is one.
    #[must_use]
    pub fn attempt(&self) -> Option<&AttemptRecord> {
        match self {
            Self::Attempt(a) => Some(a),
            Self::Skipped(_) => None,
        }
    }
}
