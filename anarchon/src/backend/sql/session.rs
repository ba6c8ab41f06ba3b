//! Claims on a connection that has temporary tables, views and triggers of its own: SQLite's.
//!
//! The claims of a call are put into a temporary table; what is inserted into a view then starts the triggers that decide
//! and act. Nearly every claim is won with nothing in the way, or lost to a run that lives or has ended. Those go a quick
//! way: one statement decides all of them, two start what starts, each once for the whole batch, so that what SQLite does
//! for a trigger or to open a table is not done for each claim. All others are put together on the [stage](super::stage),
//! where the statements of [`claim`](super::claim) work on them at once. The one expression decides on both ways.
//!
//! What the claims of a call have in common goes in once: each value costs its client more than its column costs the
//! database. An answer is one text, and the answers of a call are one row, for the same reason; of a claim that was won the
//! quick way there is but the fence. And a call is one short text of a few statements: a client that caches statements looks
//! at every byte of their text in each call, and the end of each wakes the thread that waits, which costs more than most of
//! these statements do.

use super::claim::{OF_SLOT, TOUCH_MS, closed_now};
use super::client::{Statement, Value};
use super::dialect::{Column, SqlDialect};
use super::schema::NEW_RUN;
use super::stage::{Asked, COPIED, FENCE, FOUND, REQUEST, claim_values, names};
use super::text::{ANSWER, COLUMN, COLUMNS, ROW, packed};
use super::{Sql, padded, padded_closely};
use crate::run::RunClaim;

/// What is found and decided about a claim: the columns of its answer that the quick way has.
const DECIDED: &[(&str, Column)] = &[
    ("c_do", Column::Key),
    ("c_now", Column::Int),
    ("status", Column::Key),
    ("until_ms", Column::Int),
    ("fence", Column::Int),
    ("reason", Column::Key),
];

/// What claims rarely have in common: the columns of a request that each has for itself.
const OWN: [&str; 2] = ["job", "c_token"];

/// How many others there are.
const TERMS: usize = REQUEST.len() - OWN.len();

/// The others: the terms on which something is claimed.
fn terms() -> Vec<(&'static str, Column)> {
    REQUEST.iter().filter(|(name, _)| !OWN.contains(name)).copied().collect()
}

/// Decisions after which nothing is written, and whose answer needs no other row than the run's.
const QUIET: [&str; 11] =
    ["running", "done", "gone", "skipped", "old", "floor", "trimmed", "early", "paused", "stale", "newer"];

impl<D: SqlDialect> Sql<'_, D> {
    /// What each new connection makes for itself.
    pub(super) fn session(&self) -> Vec<Statement> {
        let typed = |columns: &[(&str, Column)]| {
            let columns: Vec<String> =
                columns.iter().map(|(name, kind)| format!("{name} {}", self.dialect.column(*kind))).collect();
            columns.join(", ")
        };
        let (ask, terms_of, decided, stage) = (self.ask(), self.terms(), self.decided(), self.stage());
        let (one, go, start, any, rest) =
            (self.one(), self.go(), self.own("_start"), self.own("_any"), self.own("_rest"));
        let view = |name: &str, columns: &[&str]| {
            let nulls = vec!["NULL"; columns.len()].join(", ");
            format!("CREATE TEMP VIEW {name} ({}) AS SELECT {nulls}", columns.join(", "))
        };
        let trigger = |name: &str, on: &str, when: &str, work: &[String]| {
            let name = self.own(name);
            format!("CREATE TEMP TRIGGER {name} INSTEAD OF INSERT ON {on} WHEN {when} BEGIN {}; END", work.join("; "))
        };
        let request: Vec<&str> = REQUEST.iter().map(|(name, _)| *name).collect();
        let answer_columns: Vec<String> = (0..COLUMNS).map(|n| format!("a{n}")).collect();
        [
            format!("CREATE TEMP TABLE {ask} (n INTEGER PRIMARY KEY, job TEXT, c_token TEXT, k INTEGER)"),
            format!("CREATE TEMP TABLE {terms_of} (k INTEGER PRIMARY KEY, {})", typed(&terms())),
            format!(
                "CREATE TEMP VIEW {} AS SELECT a.n, a.job, a.c_token, {} FROM {ask} a CROSS JOIN {terms_of} t ON t.k = a.k",
                self.asked(),
                names(&terms(), "t.")
            ),
            format!("CREATE TEMP TABLE {decided} (n INTEGER PRIMARY KEY, {}, a TEXT)", typed(DECIDED)),
            format!(
                "CREATE TEMP TABLE {stage} ({}, PRIMARY KEY (job)) {}",
                typed(&[REQUEST, FOUND, COPIED].concat()),
                self.dialect.table_options()
            ),
            format!("CREATE TEMP VIEW {} ({}) AS {}", self.reading(), answer_columns.join(", "), self.read_answers(1)),
            view(&one, &request),
            view(&go, &["one"]),
            view(&start, &["one"]),
            view(&any, &["one"]),
            view(&rest, &["one"]),
            trigger(
                "_only",
                &one,
                "1",
                &[
                    format!("INSERT INTO {terms_of} VALUES (0, {})", names(&terms(), "NEW.")),
                    format!("INSERT INTO {ask} VALUES (0, NEW.job, NEW.c_token, 0)"),
                    format!("INSERT INTO {go} VALUES (1)"),
                ],
            ),
            // What is inserted into a table that the same trigger has read goes through a table in between.
            trigger(
                "_decide",
                &go,
                "1",
                &[
                    format!("DELETE FROM {decided}"),
                    self.decide(),
                    format!("INSERT INTO {start} VALUES (1)"),
                    format!("INSERT INTO {any} VALUES (1)"),
                    format!("DELETE FROM {ask}"),
                    format!("DELETE FROM {terms_of}"),
                ],
            ),
            trigger("_quick", &start, "1", &self.quick_start()),
            // A trigger takes memory for all that it may do before it looks whether it does anything.
            trigger(
                "_left",
                &any,
                &format!("EXISTS ({})", self.left("1")),
                &[format!("INSERT INTO {rest} VALUES (1)")],
            ),
            trigger("_work", &rest, "1", &self.staged_work()),
        ]
        .into_iter()
        .map(|sql| Statement::new(sql, Vec::new()))
        .collect()
    }

    /// Starts the runs of the claims with which nothing else is to be done. All of them get fences that are higher than the
    /// last of any, and the highest is noted in one row for all jobs.
    fn quick_start(&self) -> [String; 2] {
        let (t, d, decided) = (self.tables, self.dialect, self.decided());
        [
            format!(
                "INSERT INTO {} ({NEW_RUN}) \
                 SELECT j.c_slot, j.job, '', 'running', j.job, 1, j.c_token, d.fence, d.reason, j.c_instance, \
                 d.c_now, d.c_now + j.c_lease, j.c_max, j.c_retry, j.c_within, 1 \
                 FROM {decided} d CROSS JOIN {} j ON j.n = d.n WHERE d.c_do = 'start'",
                t.runs,
                self.asked()
            ),
            format!(
                "INSERT INTO {meta} (k, v) SELECT '{FENCE}', f.highest FROM (SELECT max(d.fence) AS highest FROM {decided} d \
                 WHERE d.c_do = 'start') f WHERE f.highest IS NOT NULL {conflict} v = {fence}",
                meta = t.meta,
                conflict = d.on_conflict_update("k"),
                fence = d.greatest(&d.existing(&t.meta, "v"), &d.incoming("v")),
            ),
        ]
    }

    /// Decides all claims; or that they go the other way, as they are manual ones, or more is written than what follows
    /// from the claim alone: runs that are closed, a floor, or a sign of life of the job. `t` has the clock, and `r` is
    /// the run of the claim's slot.
    fn decide(&self) -> String {
        let (t, d) = (self.tables, self.dialect);
        let any_open = format!("EXISTS (SELECT 1 FROM {} o WHERE o.open_job = j.job)", t.runs);
        let closes = format!(
            "EXISTS (SELECT 1 FROM {} r WHERE r.open_job = j.job AND (r.status = 'waiting' OR {}))",
            t.runs,
            closed_now("r")
        );
        // A manual claim has no schedule identity.
        let decision = format!(
            "CASE WHEN l.touched IS NULL OR f.job IS NULL OR l.touched < j.c_now - {TOUCH_MS} OR ({any_open} AND {closes}) \
             THEN 'staged' ELSE {} END",
            self.decision_on_slot(&format!("{any_open} AND "))
        );
        let decision = decision
            .replace("j.c_now", "t.now_ms")
            .replace("j.c_floor", "coalesce(f.floor, j.c_floor)")
            .replace("j.trim_mark", "l.trim_mark")
            .replace("j.paused_at", "l.paused_at");
        format!(
            "INSERT INTO {decided} ({columns}) SELECT j.n, {decision}, t.now_ms, r.status, r.until_ms, {fence}, \
             CASE j.c_kind WHEN 'catch-up' THEN 'catch-up' ELSE 'scheduled' END \
             FROM (SELECT {clock} AS now_ms, {common} AS fence) t CROSS JOIN {asked} j \
             LEFT JOIN {jobs} l ON l.job = j.job AND l.ident = '' \
             LEFT JOIN {jobs} f ON f.job = j.job AND f.ident = j.c_ident \
             LEFT JOIN {runs} r ON {of_slot} WHERE j.job IS NOT NULL",
            decided = self.decided(),
            columns = names(&[&[("n", Column::Int)], DECIDED].concat(), ""),
            fence = d.greatest(&format!("{} + 1", d.greatest("l.fence", "t.fence")), "t.now_ms"),
            clock = d.clock(),
            common = self.common_fence(),
            asked = self.asked(),
            jobs = t.jobs,
            runs = t.runs,
            of_slot = OF_SLOT,
        )
    }

    /// `what` of the claims that are to be staged.
    fn left(&self, what: &str) -> String {
        let quiet: Vec<String> = QUIET.iter().map(|decision| format!("'{decision}'")).collect();
        format!(
            "SELECT {what} FROM {} d WHERE d.c_do <> 'start' AND d.c_do NOT IN ({})",
            self.decided(),
            quiet.join(", ")
        )
    }

    /// What is done with all claims of a call that did not go the quick way.
    fn staged_work(&self) -> Vec<String> {
        let (stage, ask, decided) = (self.stage(), self.ask(), self.decided());
        let left = format!("(SELECT k.* FROM {} k WHERE k.n IN ({}))", self.asked(), self.left("d.n"));
        let mut work = vec![
            self.empty_stage(),
            self.stage_asked(&left),
            // The decision reads the staged row by its alias, which an update inside a trigger cannot give.
            format!("UPDATE {stage} SET c_do = (SELECT {} FROM {stage} j WHERE j.job = {stage}.job)", self.decision()),
        ];
        work.extend(self.work(1));
        let columns: Vec<String> = (1..COLUMNS).map(|n| format!("q.a{n}")).collect();
        let columns: Vec<&str> = columns.iter().map(String::as_str).collect();
        work.push(format!(
            "UPDATE {decided} SET a = (SELECT group_concat({}, '{ROW}') FROM {} q \
             WHERE q.a0 = (SELECT k.job FROM {ask} k WHERE k.n = {decided}.n)) WHERE n IN ({})",
            packed(&columns),
            self.reading(),
            self.left("d.n"),
        ));
        work
    }

    /// What claims on such a connection. All that touches the database is the last statement but one. An error takes the
    /// whole transaction back, so SQLite need not keep what would take back that statement alone.
    pub(super) fn in_session(&self, shape: Shape) -> String {
        let marks = |columns: usize| vec!["?"; columns].join(", ");
        let answers = self.answers();
        let Shape::Many { terms, rows } = shape else {
            return format!("INSERT OR ROLLBACK INTO {} VALUES ({}); {answers}", self.one(), marks(REQUEST.len()));
        };
        let each_terms: Vec<String> = (0..terms).map(|k| format!("({k}, {})", marks(TERMS))).collect();
        let each_row: Vec<String> = (0..rows).map(|n| format!("({n}, {})", marks(OWN.len() + 1))).collect();
        format!(
            "INSERT OR ROLLBACK INTO {} VALUES {}; INSERT OR ROLLBACK INTO {} VALUES {}; \
             INSERT OR ROLLBACK INTO {} VALUES (1); {answers}",
            self.terms(),
            each_terms.join(", "),
            self.ask(),
            each_row.join(", "),
            self.go(),
        )
    }

    /// The answers of a call, in one text: the fences of what was started the quick way, with nothing for the others, then
    /// the clock, and then, with their numbers, the answers to the others.
    fn answers(&self) -> String {
        let packed = packed(&["c_do", "c_now", "status", "until_ms"]);
        format!(
            "SELECT group_concat(f, ',') || '{ANSWER}' || max(c_now) || coalesce('{ANSWER}' || group_concat(a, '{ANSWER}'), '') \
             FROM (SELECT c_now, CASE c_do WHEN 'start' THEN fence ELSE '' END AS f, \
             CASE c_do WHEN 'start' THEN NULL ELSE n || '{COLUMN}' || coalesce(a, {packed}) END AS a \
             FROM {} ORDER BY n)",
            self.decided()
        )
    }

    /// What is asked, in order; and on which terms: those are elsewhere.
    fn ask(&self) -> String {
        self.own("_ask")
    }

    fn terms(&self) -> String {
        self.own("_terms")
    }

    /// The requests, put together from both.
    fn asked(&self) -> String {
        self.own("_asked")
    }

    /// What was decided about it, and the answers: they are those of the transaction. Of the call before, until the next.
    fn decided(&self) -> String {
        self.own("_decided")
    }

    /// A single claim is inserted here.
    fn one(&self) -> String {
        self.own("_one")
    }

    /// What is inserted here starts the work.
    fn go(&self) -> String {
        self.own("_go")
    }

    /// The answers to what is staged.
    fn reading(&self) -> String {
        self.own("_reading")
    }
}

/// What the text of a call depends on: how many rows there is room for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Shape {
    /// A single claim.
    One,
    /// Several, in so many rows and on so many terms. Rows without a claim name no job, and terms without one are nobody's.
    Many {
        /// The terms there is room for.
        terms: usize,
        /// The claims there is room for.
        rows: usize,
    },
}

/// What is asked, as it is sent: the shape of the text, and its values.
pub(super) fn sent(asked: Asked<'_>) -> (Shape, Vec<Value>) {
    let claims = match asked {
        Asked::Claims(claims) if claims.len() != 1 => claims,
        one => return (Shape::One, one.values().into_iter().flatten().collect()),
    };
    // The terms there are, and for each claim which of them are its own.
    let mut terms = Vec::<&RunClaim>::new();
    let mut own = Vec::with_capacity(claims.len());
    for claim in claims {
        // The last ones are the likeliest.
        let known = terms.iter().rposition(|other| on_like_terms(other, claim));
        own.push(known.unwrap_or(terms.len()));
        if known.is_none() {
            terms.push(claim);
        }
    }
    let (room, rows) = (padded(terms.len()), padded_closely(claims.len()));
    let all_terms = room * TERMS;
    let all = all_terms + rows * (OWN.len() + 1);
    let mut values = Vec::with_capacity(all);
    values.extend(terms.into_iter().flat_map(of_terms));
    values.resize(all_terms, Value::Null);
    for (claim, k) in claims.iter().zip(own) {
        let k = i64::try_from(k).unwrap_or(i64::MAX);
        values.extend([claim.job.as_str().into(), claim.token.to_string().into(), Value::Int(k)]);
    }
    values.resize(all, Value::Null);
    (Shape::Many { terms: room, rows }, values)
}

/// Whether two claims differ by nothing but their job and their token.
fn on_like_terms(a: &RunClaim, b: &RunClaim) -> bool {
    a.slot == b.slot
        && a.previous == b.previous
        && a.floor == b.floor
        && a.identity == b.identity
        && a.has_options_of(b)
}

/// The values of a claim's terms.
fn of_terms(claim: &RunClaim) -> impl Iterator<Item = Value> {
    let values = claim_values(claim).into_iter().zip(REQUEST);
    values.filter(|(_, (name, _))| !OWN.contains(name)).map(|(value, _)| value)
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::option::Overlap;
    use crate::run::ClaimKind;
    use crate::slot::{InstanceId, JobName, Slot, Token};

    #[test]
    fn terms_are_alike_where_their_values_are() {
        let (job, one) = (JobName::new("a").unwrap(), InstanceId::new("one").unwrap());
        let claim = RunClaim::new(job, Slot::from_ms(1000), Token::random(), one);
        let second = Duration::from_secs(1);
        let others = [
            RunClaim { job: JobName::new("b").unwrap(), token: Token::random(), ..claim.clone() },
            RunClaim { slot: Slot::from_ms(2000), ..claim.clone() },
            RunClaim { kind: ClaimKind::CatchUp, ..claim.clone() },
            RunClaim { instance: InstanceId::new("two").unwrap(), ..claim.clone() },
            RunClaim { identity: "other".into(), ..claim.clone() },
            RunClaim { floor: 7, ..claim.clone() },
            RunClaim { previous: Some(Slot::from_ms(500)), ..claim.clone() },
            RunClaim { limit: second, ..claim.clone() },
            RunClaim { lease: second, ..claim.clone() },
            RunClaim { overlap: Overlap::Allow, ..claim.clone() },
            RunClaim { max_attempts: 9, ..claim.clone() },
            RunClaim { retry_failed: Some(second), ..claim.clone() },
            RunClaim { takeover_within: second, ..claim.clone() },
            RunClaim { valid_until: 9, ..claim.clone() },
        ];
        // All columns but the two that each has for itself have had their turn.
        assert_eq!(others.len() - 1, TERMS);
        for (n, other) in others.iter().enumerate() {
            let alike = of_terms(&claim).eq(of_terms(other));
            assert_eq!(on_like_terms(&claim, other), alike, "{other:?}");
            assert_eq!(alike, n == 0, "{other:?}");
        }
    }
}
