//! The stage: where the jobs of one call lie while it works on them, with what is asked of each, the clock, and what was
//! decided. Every statement of a batch reads it, so all of them see one request and one "now".
//!
//! It is the jobs' own rows, whose writing takes their locks; or, where a transaction holds the only write lock anyway,
//! a temporary table of the connection (see [`session`](super::session)), so that a call that decides nothing writes
//! nothing to the database.

use super::Sql;
use super::client::Value;
use super::dialect::{Column, SqlDialect, Verb};
use crate::clock::to_ms;
use crate::lease::MAX_RETRY_WAIT;
use crate::option::Overlap;
use crate::run::{ManualClaim, RunClaim};

/// The longest duration that is sent, some 30,000 years: sums with a time stay within 64 bits.
const LONGEST_MS: i64 = 1_000_000_000_000_000;

/// What a claim brings along, in the order of its values.
pub(super) const REQUEST: &[(&str, Column)] = &[
    ("job", Column::Key),
    ("c_slot", Column::Int),
    ("c_kind", Column::Key),
    ("c_token", Column::Key),
    ("c_instance", Column::Key),
    ("c_ident", Column::Key),
    ("c_floor", Column::Int),
    ("c_previous", Column::Int),
    ("c_limit", Column::Int),
    ("c_lease", Column::Int),
    ("c_skip", Column::Int),
    ("c_max", Column::Int),
    ("c_retry", Column::Int),
    ("c_within", Column::Int),
    ("c_valid", Column::Int),
];

/// What a call adds to that: the clock, whether the schedule identity is new, and what was decided.
pub(super) const FOUND: &[(&str, Column)] = &[("c_now", Column::Int), ("c_new", Column::Int), ("c_do", Column::Key)];

/// What a temporary stage has beside those, copied from the job's row.
pub(super) const COPIED: &[(&str, Column)] =
    &[("touched", Column::Int), ("fence", Column::Int), ("trim_mark", Column::Int), ("paused_at", Column::Int)];

/// Under which key of the meta table the [common fence](Sql::common_fence) is.
pub(super) const FENCE: &str = "fence";

/// The kinds of a manual run; the other kinds are those of [`ClaimKind`](crate::run::ClaimKind).
pub(super) const MANUAL: &str = "manual";
pub(super) const EXCLUSIVE: &str = "exclusive";

/// What is asked in one call.
#[derive(Clone, Copy, Debug)]
pub(super) enum Asked<'a> {
    /// Claims, each of another job.
    Claims(&'a [RunClaim]),
    /// A manual run.
    Manual(&'a ManualClaim),
}

impl<'a> Asked<'a> {
    pub(super) fn verb(self) -> Verb<'a> {
        match self {
            Self::Claims(claims) => Verb::Claim(claims),
            Self::Manual(claim) => Verb::ClaimManual(claim),
        }
    }

    /// How many claims they are.
    pub(super) fn len(self) -> usize {
        match self {
            Self::Claims(claims) => claims.len(),
            Self::Manual(_) => 1,
        }
    }

    /// The values of each.
    pub(super) fn values(self) -> Vec<Vec<Value>> {
        match self {
            Self::Claims(claims) => claims.iter().map(claim_values).collect(),
            Self::Manual(claim) => vec![manual_values(claim)],
        }
    }
}

/// The values of one claim.
pub(in crate::backend) fn claim_values(claim: &RunClaim) -> Vec<Value> {
    let mut values = vec![
        claim.job.as_str().into(),
        claim.slot.ms().into(),
        claim.kind.as_str().into(),
        claim.token.to_string().into(),
        claim.instance.as_str().into(),
        super::ident(&claim.identity).into(),
    ];
    values.extend(claim_numbers(claim));
    values
}

/// Those of them that are numbers and come last.
pub(in crate::backend) fn claim_numbers(claim: &RunClaim) -> [Value; 9] {
    [
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
fn manual_values(claim: &ManualClaim) -> Vec<Value> {
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
pub(in crate::backend) fn millis(duration: std::time::Duration) -> i64 {
    to_ms(duration).min(LONGEST_MS)
}

/// A column list.
pub(super) fn names(columns: &[(&str, Column)], prefix: &str) -> String {
    let names: Vec<String> = columns.iter().map(|(name, _)| format!("{prefix}{name}")).collect();
    names.join(", ")
}

/// The condition that a job is one of `size` names.
pub(super) fn one_of(size: usize) -> String {
    format!("IN ({})", vec!["?"; size].join(", "))
}

impl<D: SqlDialect> Sql<'_, D> {
    /// The stage's table.
    pub(super) fn stage(&self) -> String {
        if self.apart { self.own("_stage") } else { self.tables.jobs.clone() }
    }

    /// The name of what belongs to one connection.
    pub(super) fn own(&self, suffix: &str) -> String {
        self.dialect.quote(&format!("{}{suffix}", self.tables.base))
    }

    /// The rows `j` of the stage that belong to this call.
    pub(super) fn staged(&self, size: usize) -> String {
        if self.apart { "1 = 1".to_owned() } else { format!("j.ident = '' AND j.job {}", one_of(size)) }
    }

    /// The jobs of this call, as a condition on `column`.
    pub(super) fn among_staged(&self, column: &str, size: usize) -> String {
        if self.apart {
            format!("{column} IN (SELECT s.job FROM {} s)", self.stage())
        } else {
            format!("{column} {}", one_of(size))
        }
    }

    /// The stage's row `j` that belongs to a row of another table.
    pub(super) fn stage_of(&self, alias: &str) -> String {
        let lock = if self.apart { "" } else { " AND j.ident = ''" };
        format!("j.job = {alias}.job{lock}")
    }

    pub(super) fn empty_stage(&self) -> String {
        format!("DELETE FROM {}", self.stage())
    }

    /// The highest fence there is for sure, where one lock is the only one: claims that go the quick way of
    /// [`session`](super::session) write theirs once for the whole batch, and not in each job's row.
    pub(super) fn common_fence(&self) -> String {
        format!("coalesce((SELECT m.v FROM {} m WHERE m.k = '{FENCE}'), 0)", self.tables.meta)
    }

    /// The last fence of the job whose row is `l`, if it has one.
    fn last_fence(&self) -> String {
        let own = "coalesce(l.fence, 0)";
        if self.dialect.waits_for_locks() { own.to_owned() } else { self.dialect.greatest(own, &self.common_fence()) }
    }

    /// What is staged of a claim: the request, with the floor that its schedule identity has, and the clock.
    fn requests(&self, rows: &str) -> String {
        let (t, d) = (self.tables, self.dialect);
        let request: Vec<String> = REQUEST
            .iter()
            .map(|(name, _)| match *name {
                "c_floor" => "coalesce(f.floor, c.c_floor) AS c_floor".to_owned(),
                name => format!("c.{name} AS {name}"),
            })
            .collect();
        format!(
            "SELECT {request}, t.now_ms AS c_now, CASE WHEN f.job IS NULL THEN 1 ELSE 0 END AS c_new, \
             l.touched AS touched, {fence} AS fence, l.trim_mark AS trim_mark, l.paused_at AS paused_at \
             FROM {rows} c CROSS JOIN (SELECT {clock} AS now_ms) t \
             LEFT JOIN {jobs} l ON l.job = c.job AND l.ident = '' \
             LEFT JOIN {jobs} f ON f.job = c.job AND f.ident = c.c_ident WHERE c.job IS NOT NULL",
            request = request.join(", "),
            fence = self.last_fence(),
            clock = d.clock(),
            jobs = t.jobs,
        )
    }

    /// Stages what is asked, in a temporary table.
    pub(super) fn stage_asked(&self, ask: &str) -> String {
        let columns = [REQUEST, &FOUND[..2], COPIED].concat();
        format!(
            "INSERT INTO {stage} ({into}) SELECT {from} FROM ({requests}) j",
            stage = self.stage(),
            into = names(&columns, ""),
            from = names(&columns, "j."),
            requests = self.requests(ask),
        )
    }

    /// Stages claims in the jobs' rows, which locks them.
    pub(super) fn stage_rows(&self, size: usize) -> String {
        let (t, d) = (self.tables, self.dialect);
        let mut columns = [REQUEST, &FOUND[..2]].concat();
        if !d.waits_for_locks() {
            columns.push(("fence", Column::Int));
        }
        let updates: Vec<String> =
            columns.iter().skip(1).map(|(name, _)| format!("{name} = {}", d.incoming(name))).collect();
        format!(
            "INSERT INTO {jobs} (ident, touched, {into}) SELECT '', j.c_now, {from} FROM ({requests}) j \
             WHERE 1 = 1 {conflict} {updates}",
            jobs = t.jobs,
            into = names(&columns, ""),
            from = names(&columns, "j."),
            requests = self.requests(&d.rows(REQUEST, size)),
            conflict = d.on_conflict_update("job, ident"),
            updates = updates.join(", "),
        )
    }
}
