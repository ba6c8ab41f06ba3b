//! Claims: the table of the guide's chapter on leases, in SQL, for a whole batch of jobs at once.
//!
//! The claims are staged first; one expression then decides ([`Sql::decision`] follows
//! [`lease::decide`](crate::lease::decide) row by row); the other statements do what was decided and nothing else; the
//! last one reads the answer back, by the token. Nothing depends on a row count.

use super::Sql;
use super::client::{Statement, Value};
use super::dialect::SqlDialect;
use super::schema::{NEW_RUN, NEWEST, OPEN_ATTEMPT, SKIP_ID};
use super::stage::{EXCLUSIVE, MANUAL, REQUEST};
use crate::lease::MAX_RELEASES;

/// How often a claim that writes nothing else notes that its job is in use.
pub(in crate::backend) const TOUCH_MS: i64 = 3_600_000;

/// What the values of a statement are, apart from its text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Binds {
    /// The names of the jobs.
    Names,
    /// The claims; only the first statement has them.
    Claims,
}

/// The statements of a claim batch of one size, without their values.
#[derive(Debug)]
pub(super) struct ClaimTexts(Vec<(String, Binds)>);

impl ClaimTexts {
    pub(super) fn new<D: SqlDialect>(sql: &Sql<'_, D>, size: usize) -> Self {
        let (stage, clock, staged) = (sql.stage(), sql.dialect.clock(), sql.staged(size));
        let mut texts = vec![(sql.stage_rows(size), Binds::Claims)];
        if sql.dialect.waits_for_locks() {
            texts.push((format!("UPDATE {stage} AS j SET c_now = {clock} WHERE {staged}"), Binds::Names));
        }
        texts.push((format!("UPDATE {stage} AS j SET c_do = {} WHERE {staged}", sql.decision()), Binds::Names));
        texts.extend(sql.work(size).into_iter().map(|text| (text, Binds::Names)));
        texts.push((sql.read_answers(size), Binds::Names));
        Self(texts)
    }

    /// The statements with the values of these claims, which are at most as many as the size.
    pub(super) fn fill(&self, claims: Vec<Vec<Value>>, size: usize) -> Vec<Statement> {
        let names = claims.iter().map(|claim| claim.first().cloned().unwrap_or(Value::Null));
        let mut names: Vec<Value> = names.collect();
        names.resize(size, Value::Null);
        let mut rows = Vec::with_capacity(size * REQUEST.len());
        rows.extend(claims.into_iter().flatten());
        rows.resize(size * REQUEST.len(), Value::Null);
        let statement = |(text, binds): &(String, Binds)| {
            let values = match binds {
                Binds::Names => names.clone(),
                Binds::Claims => std::mem::take(&mut rows),
            };
            Statement::new(text.clone(), values)
        };
        self.0.iter().map(statement).collect()
    }
}

/// Whether the next step of its job closes the run `r`, which is unfinished.
fn closes(r: &str) -> String {
    format!(
        "({r}.until_ms <= j.c_now AND ({r}.id <> '' OR {r}.until_ms < j.c_now - {r}.within_ms \
         OR {r}.releases >= {MAX_RELEASES} \
         OR {r}.failures + CASE WHEN {r}.token IS NULL THEN 0 ELSE 1 END >= {r}.max_attempts))"
    )
}

/// Whether the run `r` is closed by the step on the job `j`: all that close, but the one of a slot that the claim's own
/// token still holds.
pub(super) fn closed_now(r: &str) -> String {
    format!("({} AND ({r}.token IS NULL OR {r}.id <> '' OR {r}.token <> j.c_token))", closes(r))
}

/// Whether the run `r` waits for a retry and is replaced by the newer slot that starts.
fn superseded(r: &str) -> String {
    format!("(j.c_do = 'start' AND j.c_skip = 1 AND {r}.status = 'waiting' AND {r}.slot < j.c_slot)")
}

/// Whether the call does anything at all.
const ACTS: &str = "j.c_do NOT IN ('newer', 'stale')";

/// That the slot is not due.
const EARLY: &str = "WHEN j.c_slot > j.c_now THEN 'early'";

/// Whether `r` is the run of the slot.
pub(super) const OF_SLOT: &str = "r.job = j.job AND r.id = '' AND r.slot = j.c_slot";

/// Whether an attempt starts that takes a new fence.
const STARTS: &str = "j.c_do IN ('start', 'take', 'manual')";

impl<D: SqlDialect> Sql<'_, D> {
    /// What is done about the claim `j`: rows of the table, tried from the top.
    pub(super) fn decision(&self) -> String {
        let t = self.tables;
        format!(
            "CASE {refused} \
             WHEN j.c_kind IN ('{MANUAL}', '{EXCLUSIVE}') THEN CASE \
               WHEN EXISTS (SELECT 1 FROM {runs} r WHERE r.open_job = j.job AND r.id = j.c_token \
                 AND r.token = j.c_token AND r.until_ms > j.c_now) THEN 'again manual' \
               WHEN EXISTS (SELECT 1 FROM {runs} r WHERE r.open_job = j.job AND r.id = j.c_token) THEN 'ended manual' \
               WHEN EXISTS (SELECT 1 FROM {attempts} a WHERE a.job = j.job AND a.id = j.c_token) THEN 'ended manual' \
               WHEN j.c_kind = '{EXCLUSIVE}' AND {live_at_all} THEN 'manual overlap' \
               ELSE 'manual' END \
             {on_slot} END",
            refused = self.refused(),
            runs = t.runs,
            attempts = t.attempts,
            live_at_all = self.running("", "r.until_ms > j.c_now"),
            on_slot = format_args!(
                "{EARLY} ELSE (SELECT {} FROM (SELECT 1 AS one) o LEFT JOIN {} r ON {OF_SLOT})",
                self.on_run(""),
                t.runs
            ),
        )
    }

    /// The same for claims that are not manual, where `r` is the run [of the slot](OF_SLOT), or NULLs. `open` is what must
    /// be true before the job's unfinished runs are looked at: nothing, or a condition and `AND`.
    pub(super) fn decision_on_slot(&self, open: &str) -> String {
        format!("CASE {} {EARLY} ELSE {} END", self.refused(), self.on_run(open))
    }

    fn refused(&self) -> String {
        format!(
            "WHEN (SELECT m.v FROM {} m WHERE m.k = 'format') > {NEWEST} THEN 'newer' \
             WHEN j.c_now > j.c_valid THEN 'stale'",
            self.tables.meta
        )
    }

    /// What is done about the run `r` of the slot, which may be none.
    fn on_run(&self, open: &str) -> String {
        let t = self.tables;
        let other = "NOT (r.id = '' AND r.slot = j.c_slot)";
        let closed =
            if self.locks_rows() { format!("({} AND {})", closed_now("r"), self.free("r")) } else { closed_now("r") };
        format!(
            "CASE \
               {locked}\
               WHEN r.token = j.c_token THEN CASE \
                 WHEN j.c_skip = 1 AND r.until_ms <= j.c_now AND {live} THEN 'overlap' ELSE 'again' END \
               WHEN r.status IS NOT NULL AND EXISTS (SELECT 1 FROM {attempts} a WHERE a.job = j.job AND a.id = '' \
                 AND a.slot = j.c_slot AND a.token = j.c_token) THEN 'ended' \
               WHEN r.status NOT IN ('running', 'waiting') OR {closes} THEN 'done' \
               WHEN r.until_ms > j.c_now THEN 'running' \
               WHEN r.status IS NOT NULL THEN CASE \
                 WHEN j.paused_at IS NOT NULL THEN 'paused' \
                 WHEN j.c_skip = 1 AND {live} THEN 'overlap' \
                 ELSE 'take' END \
               WHEN (SELECT s.last_slot FROM {attempts} s WHERE s.job = j.job AND s.id = '{SKIP_ID}' \
                 AND s.slot <= j.c_slot ORDER BY s.slot DESC LIMIT 1) >= j.c_slot THEN 'skipped' \
               WHEN j.c_kind = 'takeover' THEN 'gone' \
               WHEN j.c_slot <= j.trim_mark THEN 'trimmed' \
               WHEN j.c_slot <= j.c_floor THEN 'floor' \
               WHEN j.c_slot < j.c_now - j.c_limit THEN 'old' \
               WHEN j.paused_at IS NOT NULL THEN CASE j.c_kind WHEN 'scheduled' THEN 'skip paused' ELSE 'paused' END \
               WHEN j.c_skip = 1 AND {live_or_orphaned} \
                 THEN CASE j.c_kind WHEN 'scheduled' THEN 'skip overlap' ELSE 'overlap' END \
               ELSE 'start' END",
            attempts = t.attempts,
            // What somebody works on right now counts as alive.
            locked = if self.locks_rows() {
                format!(
                    "WHEN r.status IN ('running', 'waiting') AND (r.token = j.c_token OR r.until_ms <= j.c_now) \
                     AND NOT {} THEN 'locked' ",
                    self.free("r")
                )
            } else {
                String::new()
            },
            closes = closes("r"),
            live = self.running(open, &format!("r.until_ms > j.c_now AND {other}")),
            live_or_orphaned =
                self.running(open, &format!("(r.until_ms > j.c_now OR (r.id = '' AND NOT {closed})) AND {other}")),
        )
    }

    /// Whether a run of the job is running for which a rule holds.
    fn running(&self, open: &str, rule: &str) -> String {
        format!(
            "({open}EXISTS (SELECT 1 FROM {} r WHERE r.open_job = j.job AND r.counts = 1 AND r.status = 'running' \
             AND {rule}))",
            self.tables.runs
        )
    }

    /// What is done once it is decided what.
    pub(super) fn work(&self, size: usize) -> [String; 7] {
        [
            self.floors(size),
            self.end_attempts(size),
            self.close_runs(size),
            self.continue_runs(size),
            self.start_runs(size),
            self.skip_slots(size),
            self.keep_jobs(size),
        ]
    }

    /// Keeps the floor of a schedule identity that has none. Who brought it has not registered it.
    fn floors(&self, size: usize) -> String {
        format!(
            "INSERT INTO {jobs} (job, ident, touched, floor) SELECT j.job, j.c_ident, j.c_now, j.c_floor \
             FROM {stage} j WHERE {staged} AND j.c_new = 1 AND j.c_ident IS NOT NULL AND {ACTS} {ignore}",
            jobs = self.tables.jobs,
            stage = self.stage(),
            staged = self.staged(size),
            ignore = self.dialect.on_conflict_ignore("job, ident"),
        )
    }

    /// Ends the attempts that are lost now: writes them into the history, while their runs still hold them.
    pub(super) fn end_attempts(&self, size: usize) -> String {
        let t = self.tables;
        format!(
            "INSERT INTO {attempts} ({OPEN_ATTEMPT}, status, ended_at) \
             SELECT r.job, r.id, r.slot, r.token, r.attempt, r.fence, r.reason, r.instance_id, r.claimed_at, \
             'lost', j.c_now FROM {stage} j {runs} \
             WHERE {staged} AND r.open_job = j.job AND r.token IS NOT NULL AND {ACTS} \
             AND ({closed} OR (j.c_do = 'take' AND r.id = '' AND r.slot = j.c_slot)){lock}",
            lock = self.lock_free("r"),
            attempts = t.attempts,
            stage = self.stage(),
            runs = self.dialect.look_up(&t.runs, "r", true),
            staged = self.staged(size),
            closed = closed_now("r"),
        )
    }

    /// Closes what is expired, used up or superseded.
    pub(super) fn close_runs(&self, size: usize) -> String {
        // Updates and upserts name their table without an alias: inside a trigger SQLite allows none.
        let r = &self.tables.runs;
        // A run that was locked while its attempt should have been recorded stays as it is until the next step.
        let recorded = if self.locks_rows() {
            format!(
                " AND ({r}.token IS NULL OR EXISTS (SELECT 1 FROM {} a WHERE a.job = {r}.job AND a.id = {r}.id \
                 AND a.slot = {r}.slot AND a.token = {r}.token))",
                self.tables.attempts
            )
        } else {
            String::new()
        };
        let set = format!(
            "note = CASE WHEN EXISTS (SELECT 1 FROM {stage} j WHERE {of} AND {superseded} AND NOT {closed}) \
               THEN 'superseded' ELSE {r}.note END, \
             status = CASE WHEN {r}.status = 'running' THEN 'dead' WHEN {r}.last_ended = 'timed_out' THEN 'timed_out' \
               ELSE 'failed' END, \
             last_ended = CASE WHEN {r}.token IS NULL THEN {r}.last_ended ELSE 'lost' END, \
             token = NULL, open_job = NULL",
            stage = self.stage(),
            of = self.stage_of(r),
            closed = closed_now(r),
            superseded = superseded(r),
        );
        let step = self.there_is(&format!(
            "{stage} j WHERE {of} AND {ACTS} AND ({closed} OR {superseded})",
            stage = self.stage(),
            of = self.stage_of(r),
            closed = closed_now(r),
            superseded = superseded(r),
        ));
        let also = format!("{step}{recorded}");
        self.update_open(set, size, also)
    }

    /// The text of an update of unfinished runs of the staged jobs.
    fn update_open(&self, set: String, size: usize, also: String) -> String {
        let among = |r: &str| self.among_staged(&format!("{r}.open_job"), size);
        let set = Statement::new(set, Vec::new());
        self.update_runs(&self.tables.runs, set, among, Vec::new(), also).sql.into_owned()
    }

    /// Renews the lease of what is ours already, and starts the next attempt of what is taken over.
    fn continue_runs(&self, size: usize) -> String {
        let r = &self.tables.runs;
        let (stage, of_run) = (self.stage(), self.stage_of(r));
        let of = |column: &str| format!("(SELECT {column} FROM {stage} j WHERE {of_run})");
        let (token, lease) = (of("j.c_token"), of("j.c_now + j.c_lease"));
        // What holds our token already is only renewed.
        let unless_ours = |column: &str, value: &str| {
            format!("{column} = CASE WHEN {r}.token = {token} THEN {r}.{column} ELSE {value} END")
        };
        let lost = |column: &str, value: &str| {
            format!("{column} = CASE WHEN {r}.token IS NULL OR {r}.token = {token} THEN {r}.{column} ELSE {value} END")
        };
        let reason = format!(
            "CASE WHEN {r}.status = 'waiting' THEN 'retry' WHEN {r}.token IS NULL THEN 'hand-over' ELSE 'takeover' END"
        );
        let fence = of(&self.dialect.greatest("j.fence + 1", "j.c_now"));
        let set = [
            format!(
                "until_ms = CASE WHEN {r}.token = {token} THEN {} ELSE {lease} END",
                self.dialect.greatest(&format!("{r}.until_ms"), &lease)
            ),
            unless_ours("attempt", &format!("{r}.attempt + 1")),
            unless_ours("reason", &reason),
            unless_ours("fence", &fence),
            unless_ours("instance_id", &of("j.c_instance")),
            unless_ours("claimed_at", &of("j.c_now")),
            lost("failures", &format!("{r}.failures + 1")),
            lost("last_ended", "'lost'"),
            "status = 'running'".to_owned(),
            format!("token = {token}"),
        ];
        let also = self.there_is(&format!(
            "{stage} j WHERE {of_run} AND (({r}.id = '' AND {r}.slot = j.c_slot AND j.c_do IN ('again', 'take')) \
               OR ({r}.id = j.c_token AND j.c_do = 'again manual'))"
        ));
        self.update_open(set.join(", "), size, also)
    }

    /// Makes the runs that start.
    fn start_runs(&self, size: usize) -> String {
        format!(
            "INSERT INTO {runs} ({NEW_RUN}) \
             SELECT CASE j.c_do WHEN 'manual' THEN j.c_now ELSE j.c_slot END, j.job, \
             CASE j.c_do WHEN 'manual' THEN j.c_token ELSE '' END, 'running', j.job, 1, j.c_token, {fence}, \
             CASE WHEN j.c_do = 'manual' THEN 'manual' WHEN j.c_kind = 'catch-up' THEN 'catch-up' ELSE 'scheduled' END, \
             j.c_instance, j.c_now, j.c_now + j.c_lease, j.c_max, j.c_retry, j.c_within, \
             CASE j.c_kind WHEN '{MANUAL}' THEN 0 ELSE 1 END \
             FROM {stage} j WHERE {staged} AND j.c_do IN ('start', 'manual')",
            runs = self.tables.runs,
            fence = self.dialect.greatest("j.fence + 1", "j.c_now"),
            stage = self.stage(),
            staged = self.staged(size),
        )
    }

    /// Records the slots that are skipped: a record that ends at the slot before ours by our own schedule, for the same
    /// reason, and with no run and no other record since, is extended.
    fn skip_slots(&self, size: usize) -> String {
        let (t, d) = (self.tables, self.dialect);
        let reason = "CASE j.c_do WHEN 'skip paused' THEN 'paused' ELSE 'overlap' END";
        format!(
            "INSERT INTO {attempts} ({OPEN_ATTEMPT}, status, last_slot, skip_count) \
             SELECT j.job, '{SKIP_ID}', coalesce((\
               SELECT s.slot FROM {attempts} s WHERE s.job = j.job AND s.id = '{SKIP_ID}' AND s.slot <= j.c_previous \
               AND s.last_slot = j.c_previous AND s.last_slot < j.c_slot AND s.reason = {reason} \
               AND NOT EXISTS (SELECT 1 FROM {attempts} n WHERE n.job = j.job AND n.id = '{SKIP_ID}' \
                 AND n.slot > s.slot AND n.last_slot < j.c_slot) \
               AND NOT EXISTS (SELECT 1 FROM {attempts} n WHERE n.job = j.job AND n.id = '' \
                 AND n.slot > s.last_slot AND n.slot < j.c_slot) \
               AND NOT EXISTS (SELECT 1 FROM {runs} n WHERE n.open_job = j.job AND n.id = '' \
                 AND n.slot > s.last_slot AND n.slot < j.c_slot)), j.c_slot), \
             '', 0, 0, {reason}, j.c_instance, j.c_now, 'skipped', j.c_slot, 1 \
             FROM {stage} j WHERE {staged} AND j.c_do IN ('skip paused', 'skip overlap') \
             {conflict} last_slot = {last}, skip_count = {count} + 1",
            attempts = t.attempts,
            runs = t.runs,
            stage = self.stage(),
            staged = self.staged(size),
            conflict = d.on_conflict_update("job, id, slot, token"),
            last = d.incoming("last_slot"),
            count = d.existing(&t.attempts, "skip_count"),
        )
    }

    /// Raises the fences of what starts, and notes now and then that a job is in use.
    fn keep_jobs(&self, size: usize) -> String {
        let d = self.dialect;
        format!(
            "INSERT INTO {jobs} (job, ident, touched, fence) \
             SELECT j.job, '', j.c_now, CASE WHEN {STARTS} THEN {fence} ELSE j.fence END FROM {stage} j \
             WHERE {staged} AND {ACTS} AND ({STARTS} OR j.touched IS NULL OR j.touched < j.c_now - {TOUCH_MS}) \
             {conflict} touched = {touched}, fence = {new}",
            jobs = self.tables.jobs,
            stage = self.stage(),
            staged = self.staged(size),
            fence = d.greatest("j.fence + 1", "j.c_now"),
            conflict = d.on_conflict_update("job, ident"),
            touched = d.greatest(&d.existing(&self.tables.jobs, "touched"), &d.incoming("touched")),
            new = d.incoming("fence"),
        )
    }

    /// Reads the answers back, by job; columns as in [`answer`](super::answer).
    pub(super) fn read_answers(&self, size: usize) -> String {
        let t = self.tables;
        let manual = format!("j.c_kind IN ('{MANUAL}', '{EXCLUSIVE}')");
        // Where nothing is in the way, an empty name, which no job has, finds nothing. NULL would too, but MariaDB looks it up
        // in the index, and goes through all runs that have ended.
        format!(
            "SELECT j.job, j.c_do, j.c_now, r.status, r.until_ms, r.max_attempts, \
             r.attempt, r.fence, r.reason, r.slot, a.status, b.slot, b.id, b.until_ms \
             FROM {stage} j \
             LEFT JOIN {runs} r ON r.job = j.job AND r.id = CASE WHEN {manual} THEN j.c_token ELSE '' END \
               AND r.slot = CASE WHEN {manual} THEN (SELECT max(z.slot) FROM {runs} z \
                 WHERE z.open_job = j.job AND z.id = j.c_token) ELSE j.c_slot END \
             LEFT JOIN {attempts} a ON a.job = j.job AND a.id = '' AND a.slot = j.c_slot AND a.token = j.c_token \
             LEFT JOIN {runs} b ON b.open_job = CASE WHEN j.c_do IN ('overlap', 'skip overlap') THEN j.job ELSE '' END \
               AND b.status = 'running' AND b.counts = 1 AND (b.until_ms > j.c_now OR b.id = '') \
               AND NOT (b.id = '' AND b.slot = j.c_slot) \
             WHERE {staged}",
            stage = self.stage(),
            runs = t.runs,
            attempts = t.attempts,
            staged = self.staged(size),
        )
    }
}
