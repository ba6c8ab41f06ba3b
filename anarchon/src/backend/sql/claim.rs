//! Claims: the table of the guide's chapter on leases, in SQL, for a whole batch of jobs at once.
//!
//! The job's row is written first: that is the lock, and it holds the claim and the clock, so that every statement
//! after it sees one claim and one "now". One statement then decides ([`Sql::decide`] follows
//! [`lease::decide`](crate::lease::decide) row by row); the others do what was decided and nothing else; the last
//! one reads the answer back, by the token. Nothing depends on a row count.

use super::Sql;
use super::client::{Statement, Value};
use super::dialect::{Column, SqlDialect};
use super::schema::{NEWEST, OPEN, SKIP_ID};
use crate::clock::to_ms;
use crate::lease::{MAX_RELEASES, MAX_RETRY_WAIT};
use crate::option::Overlap;
use crate::run::{ManualClaim, RunClaim};

/// The longest duration that is sent, some 30,000 years: sums with a time stay within 64 bits.
pub(super) const LONGEST_MS: i64 = 1_000_000_000_000_000;

/// What a claim brings along, in the order of its values.
const COLUMNS: &[(&str, Column)] = &[
    ("job", Column::Key),
    ("slot", Column::Int),
    ("kind", Column::Key),
    ("token", Column::Key),
    ("instance", Column::Key),
    ("ident", Column::Key),
    ("floor", Column::Int),
    ("previous", Column::Int),
    ("limit_ms", Column::Int),
    ("lease", Column::Int),
    ("skip", Column::Int),
    ("max_attempts", Column::Int),
    ("retry", Column::Int),
    ("within", Column::Int),
    ("valid", Column::Int),
];

/// The columns of the job's row that take it, in the same order; the job's name is the key.
const STAGED: &[&str] = &[
    "c_slot",
    "c_kind",
    "c_token",
    "c_instance",
    "c_ident",
    "c_floor",
    "c_previous",
    "c_limit",
    "c_lease",
    "c_skip",
    "c_max",
    "c_retry",
    "c_within",
    "c_valid",
];

/// The `kind` of a manual run.
const MANUAL: &str = "manual";
const EXCLUSIVE: &str = "exclusive";

/// What the values of a statement are, apart from its text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Binds {
    /// The names of the jobs.
    Names,
    /// The claims.
    Claims,
}

/// The statements of a claim batch of one size, without their values.
#[derive(Debug)]
pub(super) struct ClaimTexts(Vec<(String, Binds)>);

impl ClaimTexts {
    pub(super) fn new<D: SqlDialect>(sql: &Sql<'_, D>, size: usize) -> Self {
        let mut texts = vec![(sql.stage(size), Binds::Claims)];
        if sql.dialect.waits_for_locks() {
            let t = sql.tables;
            let clock = sql.dialect.clock();
            let mine = mine("j", size);
            texts.push((format!("UPDATE {} AS j SET c_now = {clock} WHERE {mine}", t.jobs), Binds::Names));
        }
        texts.extend([
            (sql.decide(size), Binds::Names),
            (sql.floors(size), Binds::Names),
            (sql.end_attempts(size), Binds::Names),
            (sql.start_attempts(size), Binds::Names),
            (sql.close_runs(size), Binds::Names),
            (sql.continue_runs(size), Binds::Names),
            (sql.start_runs(size), Binds::Names),
            (sql.raise_fences(size), Binds::Names),
            (sql.read_answers(size), Binds::Names),
        ]);
        Self(texts)
    }

    /// The statements with the values of these claims, which are at most as many as the size.
    pub(super) fn fill(&self, claims: &[Vec<Value>], size: usize) -> Vec<Statement> {
        let missing = size.saturating_sub(claims.len());
        let names = || {
            let names = claims.iter().map(|c| c.first().cloned().unwrap_or(Value::Null));
            names.chain(std::iter::repeat_n(Value::Null, missing))
        };
        let rows = || {
            let rows = claims.iter().flatten().cloned();
            rows.chain(std::iter::repeat_n(Value::Null, missing * COLUMNS.len()))
        };
        let statement = |(text, binds): &(String, Binds)| {
            let values = match binds {
                Binds::Claims => rows().collect(),
                Binds::Names => names().collect(),
            };
            Statement::new(text.clone(), values)
        };
        self.0.iter().map(statement).collect()
    }
}

/// The values of one claim.
pub(super) fn claim_values(claim: &RunClaim) -> Vec<Value> {
    vec![
        claim.job.as_str().into(),
        claim.slot.ms().into(),
        claim.kind.as_str().into(),
        claim.token.to_string().into(),
        claim.instance.as_str().into(),
        super::ident(&claim.identity).into(),
        claim.floor.into(),
        claim.previous.map(crate::slot::Slot::ms).into(),
        millis(claim.limit).into(),
        millis(claim.lease).into(),
        (claim.overlap == Overlap::Skip).into(),
        claim.max_attempts.into(),
        claim.retry_failed.map(|first| to_ms(first.min(MAX_RETRY_WAIT))).into(),
        millis(claim.takeover_within).into(),
        claim.valid_until.into(),
    ]
}

/// The values of a manual run; its slot is the store's "now".
pub(super) fn manual_values(claim: &ManualClaim) -> Vec<Value> {
    vec![
        claim.job.as_str().into(),
        Value::Null,
        if claim.exclusive { EXCLUSIVE } else { MANUAL }.into(),
        claim.token.to_string().into(),
        claim.instance.as_str().into(),
        Value::Null,
        Value::Null,
        Value::Null,
        Value::Null,
        millis(claim.lease).into(),
        false.into(),
        1_u32.into(),
        Value::Null,
        0_u32.into(),
        claim.valid_until.into(),
    ]
}

/// A duration as it is sent.
pub(super) fn millis(duration: std::time::Duration) -> i64 {
    to_ms(duration).min(LONGEST_MS)
}

/// The lock rows of this batch.
pub(super) fn mine(alias: &str, size: usize) -> String {
    format!("{alias}.ident = '' AND {}", named(alias, size))
}

/// Rows of the batch's jobs.
pub(super) fn named(alias: &str, size: usize) -> String {
    format!("{alias}.{}", names_in(size))
}

/// The same, where the table has no alias.
pub(super) fn names_in(size: usize) -> String {
    format!("job IN ({})", vec!["?"; size].join(", "))
}

/// Whether the next step of its job closes the run `r`, which is unfinished.
fn closes(now: &str) -> String {
    format!(
        "(r.until_ms <= {now} AND (r.id <> '' OR r.until_ms < {now} - r.within_ms OR r.releases >= {MAX_RELEASES} \
         OR r.failures + CASE WHEN r.token IS NULL THEN 0 ELSE 1 END >= r.max_attempts))"
    )
}

/// Whether the run `r` is closed by the step that has the lock `j`: all that close, but the one that the claim's own
/// token still holds.
fn closed_now() -> String {
    format!("{} AND (r.token IS NULL OR r.token <> j.c_token)", closes("j.c_now"))
}

/// Whether the run `r` waits for a retry and is replaced by the newer slot that starts.
const SUPERSEDED: &str = "j.c_do = 'start' AND j.c_skip = 1 AND r.status = 'waiting' AND r.slot < j.c_slot";

/// Whether the call does anything at all.
const ACTS: &str = "j.c_do NOT IN ('newer', 'stale', 'again manual', 'ended manual')";

impl<D: SqlDialect> Sql<'_, D> {
    /// Takes the locks and keeps the claims and the clock in them. A claim's floor holds only where its schedule
    /// identity has none yet.
    fn stage(&self, size: usize) -> String {
        let (t, d) = (self.tables, self.dialect);
        let updates: Vec<String> =
            STAGED.iter().chain(&["c_now"]).map(|c| format!("{c} = {}", d.incoming(c))).collect();
        format!(
            "INSERT INTO {jobs} (job, ident, touched, c_now, {staged}) \
             SELECT c.job, '', t.now_ms, t.now_ms, c.slot, c.kind, c.token, c.instance, c.ident, \
             coalesce((SELECT f.floor FROM {table} f WHERE f.job = c.job AND f.ident = c.ident), c.floor), \
             c.previous, c.limit_ms, c.lease, c.skip, c.max_attempts, c.retry, c.within, c.valid \
             FROM {rows} c CROSS JOIN (SELECT {clock} AS now_ms) t WHERE c.job IS NOT NULL \
             {conflict} {updates}",
            jobs = d.upsert_target(&t.jobs),
            table = t.jobs,
            staged = STAGED.join(", "),
            rows = d.rows(COLUMNS, size),
            clock = d.clock(),
            conflict = d.on_conflict_update("job, ident"),
            updates = updates.join(", "),
        )
    }

    /// Decides. Each answer but the last of a branch is a row of the table, tried from the top.
    fn decide(&self, size: usize) -> String {
        let (t, d) = (self.tables, self.dialect);
        let newer = format!("(SELECT m.v FROM {} m WHERE m.k = 'format') > {NEWEST}", t.meta);
        let other = "r.counts = 1 AND r.status = 'running'";
        let blocked = |rule: &str| {
            format!(
                "EXISTS (SELECT 1 FROM {runs} r WHERE r.job = j.job AND r.{OPEN} AND {other} \
                 AND NOT (r.id = '' AND r.slot = j.c_slot) AND {rule})",
                runs = t.runs
            )
        };
        let live = blocked("r.until_ms > j.c_now");
        let live_or_orphaned = blocked(&format!("(r.until_ms > j.c_now OR (r.id = '' AND NOT ({})))", closed_now()));
        let live_at_all = format!(
            "EXISTS (SELECT 1 FROM {} r WHERE r.job = j.job AND r.{OPEN} AND {other} AND r.until_ms > j.c_now)",
            t.runs
        );
        format!(
            "UPDATE {jobs} AS j SET \
             touched = CASE WHEN {newer} OR j.c_kind IN ('{MANUAL}', '{EXCLUSIVE}') OR j.c_now > j.c_valid \
               THEN j.touched ELSE {touched} END, \
             c_do = CASE WHEN {newer} THEN 'newer' \
             WHEN j.c_kind IN ('{MANUAL}', '{EXCLUSIVE}') THEN CASE \
               coalesce((SELECT max(a.status) FROM {attempts} a WHERE a.job = j.job AND a.token = j.c_token), '') \
               WHEN 'running' THEN 'again manual' WHEN '' THEN CASE \
                 WHEN j.c_now > j.c_valid THEN 'stale' \
                 WHEN j.c_kind = '{EXCLUSIVE}' AND {live_at_all} THEN 'manual overlap' \
                 ELSE 'manual' END \
               ELSE 'ended manual' END \
             WHEN j.c_now > j.c_valid THEN 'stale' \
             WHEN j.c_slot > j.c_now THEN 'early' \
             ELSE (SELECT CASE \
               WHEN r.token = j.c_token THEN 'again' \
               WHEN r.status IS NOT NULL AND a.status IS NOT NULL THEN 'ended' \
               WHEN r.status NOT IN ('running', 'waiting') OR {closes} THEN 'done' \
               WHEN r.until_ms > j.c_now THEN 'running' \
               WHEN r.status IS NOT NULL THEN CASE \
                 WHEN j.paused_at IS NOT NULL THEN 'paused' \
                 WHEN j.c_skip = 1 AND {live} THEN 'overlap' \
                 ELSE 'take' END \
               WHEN (SELECT s.last_slot FROM {runs} s WHERE s.job = j.job AND s.id = '{SKIP_ID}' AND s.slot <= j.c_slot \
                 ORDER BY s.slot DESC LIMIT 1) >= j.c_slot THEN 'skipped' \
               WHEN j.c_kind = 'takeover' THEN 'gone' \
               WHEN j.c_slot <= j.trim_mark THEN 'trimmed' \
               WHEN j.c_slot <= j.c_floor THEN 'floor' \
               WHEN j.c_slot < j.c_now - j.c_limit THEN 'old' \
               WHEN j.paused_at IS NOT NULL THEN CASE j.c_kind WHEN 'scheduled' THEN 'skip paused' ELSE 'paused' END \
               WHEN j.c_skip = 1 AND {live_or_orphaned} \
                 THEN CASE j.c_kind WHEN 'scheduled' THEN 'skip overlap' ELSE 'overlap' END \
               ELSE 'start' END \
               FROM (SELECT 1 AS one) o \
               LEFT JOIN {runs} r ON r.job = j.job AND r.id = '' AND r.slot = j.c_slot \
               LEFT JOIN {attempts} a ON a.job = j.job AND a.slot = j.c_slot AND a.id = '' AND a.token = j.c_token) \
             END WHERE {mine}",
            jobs = t.jobs,
            runs = t.runs,
            attempts = t.attempts,
            touched = d.greatest("j.touched", "j.c_now"),
            closes = closes("j.c_now"),
            mine = mine("j", size),
        )
    }

    /// Keeps the floor of a schedule identity that has none.
    fn floors(&self, size: usize) -> String {
        let (t, d) = (self.tables, self.dialect);
        format!(
            "INSERT INTO {jobs} (job, ident, touched, floor, fingerprint, instance_id) \
             SELECT j.job, j.c_ident, j.c_now, j.c_floor, substr(j.c_ident, 2), j.c_instance \
             FROM {jobs} j WHERE {mine} AND j.c_ident IS NOT NULL AND {ACTS} {ignore}",
            jobs = t.jobs,
            mine = mine("j", size),
            ignore = d.on_conflict_ignore("job, ident"),
        )
    }

    /// Ends the attempts that are lost now, and notes what is superseded.
    pub(super) fn end_attempts(&self, size: usize) -> String {
        let t = self.tables;
        format!(
            "UPDATE {attempts} AS a SET \
             note = CASE WHEN a.status = 'running' THEN a.note ELSE 'superseded' END, \
             ended_at = CASE WHEN a.status = 'running' \
               THEN (SELECT j.c_now FROM {jobs} j WHERE j.job = a.job AND j.ident = '') ELSE a.ended_at END, \
             status = CASE WHEN a.status = 'running' THEN 'lost' ELSE a.status END \
             WHERE (a.job, a.slot, a.id, a.token) IN (\
               SELECT r.job, r.slot, r.id, r.last_token FROM {jobs} j JOIN {runs} r ON r.job = j.job AND r.{OPEN} \
               WHERE {mine} AND {ACTS} AND ((r.token IS NOT NULL AND (({closed}) \
                 OR (j.c_do = 'take' AND r.id = '' AND r.slot = j.c_slot))) OR ({SUPERSEDED} AND NOT ({closed}))))",
            attempts = t.attempts,
            jobs = t.jobs,
            runs = t.runs,
            mine = mine("j", size),
            closed = closed_now(),
        )
    }

    /// Records the attempts that start. Before the runs change, whose state is the reason.
    fn start_attempts(&self, size: usize) -> String {
        let (t, d) = (self.tables, self.dialect);
        format!(
            "INSERT INTO {attempts} (job, slot, id, token, attempt, fence, reason, instance_id, status, claimed_at) \
             SELECT j.job, CASE j.c_do WHEN 'manual' THEN j.c_now ELSE j.c_slot END, \
             CASE j.c_do WHEN 'manual' THEN j.c_token ELSE '' END, j.c_token, \
             CASE j.c_do WHEN 'take' THEN r.attempt + 1 ELSE 1 END, {fence}, \
             CASE j.c_do WHEN 'manual' THEN 'manual' \
               WHEN 'start' THEN CASE j.c_kind WHEN 'catch-up' THEN 'catch-up' ELSE 'scheduled' END \
               ELSE CASE WHEN r.status = 'waiting' THEN 'retry' WHEN r.token IS NOT NULL THEN 'takeover' \
                 ELSE 'hand-over' END END, \
             j.c_instance, 'running', j.c_now \
             FROM {jobs} j LEFT JOIN {runs} r ON r.job = j.job AND r.id = '' AND r.slot = j.c_slot \
             WHERE {mine} AND j.c_do IN ('start', 'take', 'manual')",
            attempts = t.attempts,
            jobs = t.jobs,
            runs = t.runs,
            fence = d.greatest("j.fence + 1", "j.c_now"),
            mine = mine("j", size),
        )
    }

    /// Closes what is expired, used up or superseded.
    pub(super) fn close_runs(&self, size: usize) -> String {
        let t = self.tables;
        format!(
            "UPDATE {runs} AS r SET \
             status = CASE WHEN r.status = 'running' THEN 'dead' WHEN r.last_ended = 'timed_out' THEN 'timed_out' \
               ELSE 'failed' END, \
             last_ended = CASE WHEN r.token IS NULL THEN r.last_ended ELSE 'lost' END, \
             token = NULL \
             WHERE r.{OPEN} AND {named} AND EXISTS (SELECT 1 FROM {jobs} j WHERE j.job = r.job AND j.ident = '' \
               AND {ACTS} AND (({closed}) OR ({SUPERSEDED})))",
            runs = t.runs,
            jobs = t.jobs,
            named = named("r", size),
            closed = closed_now(),
        )
    }

    /// Renews the lease of what is ours already, and starts the next attempt of what is taken over.
    fn continue_runs(&self, size: usize) -> String {
        let (t, d) = (self.tables, self.dialect);
        let mine = mine("j", size);
        let of = |column: &str| format!("(SELECT {column} FROM {} j WHERE j.job = r.job AND j.ident = '')", t.jobs);
        let (token, lease) = (of("j.c_token"), of("j.c_now + j.c_lease"));
        // What holds our token already is only renewed.
        let ours = format!("r.token = {token}");
        format!(
            "UPDATE {runs} AS r SET \
             until_ms = CASE WHEN {ours} THEN {renewed} ELSE {lease} END, \
             status = 'running', \
             attempt = CASE WHEN {ours} THEN r.attempt ELSE r.attempt + 1 END, \
             failures = CASE WHEN {ours} OR r.token IS NULL THEN r.failures ELSE r.failures + 1 END, \
             last_ended = CASE WHEN {ours} OR r.token IS NULL THEN r.last_ended ELSE 'lost' END, \
             last_token = {token}, \
             token = {token} \
             WHERE (r.job, r.id, r.slot) IN (SELECT j.job, '', j.c_slot FROM {jobs} j \
               WHERE {mine} AND j.c_do IN ('again', 'take'))",
            runs = t.runs,
            jobs = t.jobs,
            renewed = d.greatest("r.until_ms", &lease),
        )
    }

    /// Makes the runs that start, and the records of slots that are skipped: one that ends at the slot before ours by
    /// our own schedule, for the same reason, and with no run and no other record since, is extended.
    fn start_runs(&self, size: usize) -> String {
        let (t, d) = (self.tables, self.dialect);
        format!(
            "INSERT INTO {target} (job, id, slot, status, attempt, token, last_token, until_ms, max_attempts, retry_ms, \
             within_ms, counts, last_slot, skip_count, skip_reason) \
             SELECT j.job, \
             CASE j.c_do WHEN 'start' THEN '' WHEN 'manual' THEN j.c_token ELSE '{SKIP_ID}' END, \
             CASE j.c_do WHEN 'start' THEN j.c_slot WHEN 'manual' THEN j.c_now ELSE coalesce((\
               SELECT s.slot FROM {runs} s WHERE s.job = j.job AND s.id = '{SKIP_ID}' AND s.slot <= j.c_previous \
               AND s.last_slot = j.c_previous AND s.last_slot < j.c_slot AND j.c_do = {says} \
               AND NOT EXISTS (SELECT 1 FROM {runs} n WHERE n.job = j.job AND n.id = '{SKIP_ID}' AND n.slot > s.slot \
                 AND n.last_slot < j.c_slot) \
               AND NOT EXISTS (SELECT 1 FROM {runs} n WHERE n.job = j.job AND n.id = '' AND n.slot > s.last_slot \
                 AND n.slot < j.c_slot)), j.c_slot) END, \
             CASE WHEN {starts} THEN 'running' ELSE 'skipped' END, \
             CASE WHEN {starts} THEN 1 ELSE 0 END, \
             CASE WHEN {starts} THEN j.c_token END, \
             CASE WHEN {starts} THEN j.c_token END, \
             CASE WHEN {starts} THEN j.c_now + j.c_lease ELSE j.c_now END, \
             j.c_max, j.c_retry, j.c_within, \
             CASE WHEN j.c_do = 'start' OR j.c_kind = '{EXCLUSIVE}' THEN 1 ELSE 0 END, \
             CASE WHEN {starts} THEN NULL ELSE j.c_slot END, \
             CASE WHEN {starts} THEN NULL ELSE 1 END, \
             CASE j.c_do WHEN 'skip paused' THEN 'paused' WHEN 'skip overlap' THEN 'overlap' END \
             FROM {jobs} j WHERE {mine} AND j.c_do IN ('start', 'manual', 'skip paused', 'skip overlap') \
             {conflict} last_slot = {last}, skip_count = {count} + 1",
            target = d.upsert_target(&t.runs),
            runs = t.runs,
            jobs = t.jobs,
            says = "CASE s.skip_reason WHEN 'paused' THEN 'skip paused' ELSE 'skip overlap' END",
            starts = "j.c_do IN ('start', 'manual')",
            mine = mine("j", size),
            conflict = d.on_conflict_update("job, id, slot"),
            last = d.incoming("last_slot"),
            count = d.existing("skip_count"),
        )
    }

    fn raise_fences(&self, size: usize) -> String {
        let (t, d) = (self.tables, self.dialect);
        format!(
            "UPDATE {jobs} AS j SET fence = {fence} WHERE {mine} AND j.c_do IN ('start', 'take', 'manual')",
            jobs = t.jobs,
            fence = d.greatest("j.fence + 1", "j.c_now"),
            mine = mine("j", size),
        )
    }

    /// Reads the answers back, by job; columns as in [`answer`](super::answer).
    fn read_answers(&self, size: usize) -> String {
        let t = self.tables;
        format!(
            "SELECT j.job, j.c_do, j.c_now, r.status, r.until_ms, r.max_attempts, \
             a.status, a.attempt, a.fence, a.reason, a.slot, b.slot, b.id, b.until_ms \
             FROM {jobs} j \
             LEFT JOIN {runs} r ON r.job = j.job AND r.id = '' AND r.slot = j.c_slot \
             LEFT JOIN {attempts} a ON a.job = j.job AND a.token = j.c_token \
               AND (a.slot = j.c_slot OR j.c_kind IN ('{MANUAL}', '{EXCLUSIVE}')) \
             LEFT JOIN {runs} b ON j.c_do IN ('overlap', 'skip overlap') AND b.job = j.job AND b.{OPEN} \
               AND b.status = 'running' AND b.counts = 1 AND (b.until_ms > j.c_now OR b.id = '') \
               AND NOT (b.id = '' AND b.slot = j.c_slot) \
             WHERE {mine}",
            jobs = t.jobs,
            runs = t.runs,
            attempts = t.attempts,
            mine = mine("j", size),
        )
    }
}
