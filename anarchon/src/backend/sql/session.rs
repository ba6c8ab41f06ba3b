//! Claims on a connection that has temporary tables, views and triggers of its own: SQLite's.
//!
//! The claims of a call are put into a temporary table; what is inserted into a view then starts the triggers that decide
//! and act. Nearly every claim is won with nothing in the way, or lost to a run that lives or has ended. Those go a quick
//! way: one statement decides all of them, two start what starts, each once for the whole batch, so that what SQLite does
//! for a trigger or to open a table is not done for each claim. All others are put together on the [stage](super::stage),
//! where the statements of [`claim`](super::claim) work on them at once. The one expression decides on both ways.
//!
//! An answer is one text, and the answers of a call are one row: each value of a row costs its client two allocations.
//! And a call is one short text of two or three statements: a client that caches statements looks at every byte of their
//! text in each call, and the end of each wakes the thread that waits, which costs more than most of these statements do.

use super::Sql;
use super::claim::{OF_SLOT, TOUCH_MS, closed_now};
use super::client::{Row, SqlError, Statement, Value};
use super::dialect::{Column, SqlDialect};
use super::stage::{COPIED, FOUND, REQUEST, names};
use crate::error::BackendErrorKind;

/// What lies between the columns of an answer, its rows, and the answers. No name has a control character.
const COLUMN: char = '\x1f';
const ROW: char = '\x1e';
const ANSWER: char = '\x1d';

/// What is found and decided about a claim: the columns of its answer that the quick way has.
const DECIDED: &[(&str, Column)] = &[
    ("c_do", Column::Key),
    ("c_now", Column::Int),
    ("status", Column::Key),
    ("until_ms", Column::Int),
    ("c_max", Column::Int),
    ("fence", Column::Int),
    ("reason", Column::Key),
];

/// How many columns an answer has.
const COLUMNS: usize = 14;

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
        let (ask, decided, stage) = (self.ask(), self.decided(), self.stage());
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
            format!("CREATE TEMP TABLE {ask} (n INTEGER PRIMARY KEY, {})", typed(REQUEST)),
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
                    format!("INSERT INTO {ask} VALUES (0, {})", names(REQUEST, "NEW.")),
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

    /// Starts the runs of the claims with which nothing else is to be done.
    fn quick_start(&self) -> [String; 2] {
        let (t, d) = (self.tables, self.dialect);
        let starting =
            format!("FROM {} d CROSS JOIN {} j ON j.n = d.n WHERE d.c_do = 'start'", self.decided(), self.ask());
        [
            format!(
                "INSERT INTO {} (job, id, slot, status, open_job, attempt, token, last_token, fence, reason, instance_id, \
                 claimed_at, until_ms, max_attempts, retry_ms, within_ms, counts) \
                 SELECT j.job, '', j.c_slot, 'running', j.job, 1, j.c_token, j.c_token, d.fence, d.reason, j.c_instance, \
                 d.c_now, d.c_now + j.c_lease, j.c_max, j.c_retry, j.c_within, 1 {starting}",
                t.runs
            ),
            format!(
                "INSERT INTO {jobs} (job, ident, touched, fence) SELECT j.job, '', d.c_now, d.fence {starting} \
                 {conflict} touched = {touched}, fence = {fence}",
                jobs = t.jobs,
                conflict = d.on_conflict_update("job, ident"),
                touched = d.greatest(&d.existing(&t.jobs, "touched"), &d.incoming("touched")),
                fence = d.incoming("fence"),
            ),
        ]
    }

    /// Decides all claims; or that they go the other way, as they are manual ones, or more is written than what follows
    /// from the claim alone: runs that are closed, a floor, or a sign of life of the job. `t` has the clock, and `r` is
    /// the run of the claim's slot.
    fn decide(&self) -> String {
        let t = self.tables;
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
            "INSERT INTO {decided} ({columns}) SELECT j.n, {decision}, t.now_ms, r.status, r.until_ms, j.c_max, {fence}, \
             CASE j.c_kind WHEN 'catch-up' THEN 'catch-up' ELSE 'scheduled' END \
             FROM (SELECT {clock} AS now_ms) t CROSS JOIN {ask} j \
             LEFT JOIN {jobs} l ON l.job = j.job AND l.ident = '' \
             LEFT JOIN {jobs} f ON f.job = j.job AND f.ident = j.c_ident \
             LEFT JOIN {runs} r ON {of_slot} WHERE j.job IS NOT NULL",
            decided = self.decided(),
            columns = names(&[&[("n", Column::Int)], DECIDED].concat(), ""),
            fence = self.dialect.greatest("l.fence + 1", "t.now_ms"),
            clock = self.dialect.clock(),
            ask = self.ask(),
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
        let left = format!("(SELECT k.* FROM {ask} k WHERE k.n IN ({}))", self.left("d.n"));
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

    /// The statements of a claim batch on such a connection. All that touches the database is the last but one. An error
    /// takes the whole transaction back, so SQLite need not keep what would take back that statement alone.
    pub(super) fn in_session(&self, size: usize) -> Vec<String> {
        let marks = vec!["?"; REQUEST.len()].join(", ");
        let answers = format!(
            "SELECT coalesce(a, {}) AS a FROM {}",
            packed(&["c_do", "c_now", "status", "until_ms", "c_max", "1", "fence", "reason"]),
            self.decided()
        );
        if size == 1 {
            return vec![format!("INSERT OR ROLLBACK INTO {} VALUES ({marks})", self.one()), answers];
        }
        let rows: Vec<String> = (0..size).map(|n| format!("({n}, {marks})")).collect();
        vec![
            format!("INSERT OR ROLLBACK INTO {} VALUES {}", self.ask(), rows.join(", ")),
            format!("INSERT OR ROLLBACK INTO {} VALUES (1)", self.go()),
            format!("SELECT group_concat(a, '{ANSWER}') FROM ({answers} ORDER BY n)"),
        ]
    }

    /// What is asked, in order.
    fn ask(&self) -> String {
        self.own("_ask")
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

/// One text of some columns; NULL is an empty one.
fn packed(columns: &[&str]) -> String {
    let format = vec!["%s"; columns.len()].join(&COLUMN.to_string());
    format!("printf('{format}', {})", columns.join(", "))
}

/// The rows of the answers to `claims` claims, each with the number of its claim in the place of the job.
pub(super) fn unpacked(row: Option<&Row>, claims: usize) -> Result<Vec<Row>, SqlError> {
    let text = row.map(|row| row.text(0)).transpose()?.unwrap_or_default();
    let mut rows = Vec::with_capacity(claims);
    let mut answers = 0;
    for (number, answer) in (0_i64..).zip(text.split(ANSWER)) {
        answers += 1;
        for row in answer.split(ROW) {
            let mut columns = Vec::with_capacity(COLUMNS);
            columns.push(Value::Int(number));
            columns.extend(row.split(COLUMN).map(value));
            rows.push(Row::new(columns));
        }
    }
    if answers != claims {
        let message = format!("{answers} answers came back to {claims} claims");
        return Err(SqlError::new(BackendErrorKind::Unknown, message));
    }
    Ok(rows)
}

/// These columns of all rows as one text.
pub(super) fn one_text(columns: &[&str]) -> String {
    format!("group_concat({}, '{ROW}')", packed(columns))
}

/// The rows of such a text.
pub(super) fn rows(row: Option<&Row>) -> Result<Vec<Row>, SqlError> {
    let text = row.map(|row| row.opt_text(0)).transpose()?.flatten();
    let row = |row: &str| Row::new(row.split(COLUMN).map(value).collect());
    Ok(text.map(|text| text.split(ROW).map(row).collect()).unwrap_or_default())
}

/// A column of an answer. Every text in one is a word or a token, so what reads as a number is one.
fn value(text: &str) -> Value {
    if text.is_empty() {
        return Value::Null;
    }
    text.parse().map_or_else(|_| Value::from(text), Value::Int)
}
