//! Claims on a connection that has temporary tables, views and triggers of its own: SQLite's.
//!
//! A claim is a row that is inserted into a view; triggers decide it and do what was decided. Nearly every claim is won
//! with nothing in the way, or lost to a run that lives or has ended. Those go a quick way, on which nothing is staged:
//! the first view's trigger passes the row on to the second with what it decided, by `VALUES` alone, since a `SELECT` would
//! take a table in between. All others are put together on the [stage](super::stage), where the statements of
//! [`claim`](super::claim) work on them at once. The one expression decides on both ways.
//!
//! An answer is one text, and the answers of a call are one row: each value of a row costs its client two allocations.
//! And a call is one short text of two statements: a client that caches statements looks at every byte of their text in
//! each call, and the end of each wakes the thread that waits, which costs more than most of these statements do.

use super::Sql;
use super::claim::{TOUCH_MS, closed_now};
use super::client::{Row, SqlError, Statement, Value};
use super::dialect::{Column, SqlDialect};
use super::stage::{COPIED, FOUND, REQUEST, names};
use crate::backend::AT_ONCE;
use crate::error::BackendErrorKind;

/// What lies between the columns of an answer, its rows, and the answers. No name has a control character.
const COLUMN: char = '\x1f';
const ROW: char = '\x1e';
const ANSWER: char = '\x1d';

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
        let (ask, stage, answers) = (self.ask(), self.stage(), self.answers());
        let (go, decided, last, rest) = (self.go(), self.own("_decided"), self.own("_last"), self.own("_rest"));
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
            format!(
                "CREATE TEMP TABLE {stage} ({}, PRIMARY KEY (job)) {}",
                typed(&[REQUEST, FOUND, COPIED].concat()),
                self.dialect.table_options()
            ),
            // Its rows are there from the beginning: an update in place is cheaper than a row that comes and goes.
            format!("CREATE TEMP TABLE {answers} (n INTEGER PRIMARY KEY, a TEXT)"),
            format!(
                "INSERT INTO {answers} (n) WITH RECURSIVE r (n) AS (SELECT 0 UNION ALL SELECT n + 1 FROM r \
                 WHERE n < {}) SELECT n FROM r",
                AT_ONCE - 1
            ),
            format!("CREATE TEMP VIEW {} ({}) AS {}", self.reading(), answer_columns.join(", "), self.read_answers(1)),
            view(&go, &[&["n", "is_last"], &request[..]].concat()),
            view(&decided, &[&["n"], &request[..], &["c_now", "fence", "c_do"]].concat()),
            view(&last, &["is_last"]),
            view(&rest, &["one"]),
            trigger(
                "_decide",
                &go,
                "NEW.job IS NOT NULL",
                &[self.decide(&decided), format!("INSERT INTO {last} VALUES (NEW.is_last)")],
            ),
            trigger("_start", &decided, "NEW.c_do IS 'start'", &self.quick_start()),
            trigger("_other", &decided, "NEW.c_do IS NOT 'start'", &self.other_than_start()),
            // A trigger takes memory for all that it may do before it looks whether it does anything.
            trigger(
                "_any",
                &last,
                &format!("NEW.is_last AND EXISTS (SELECT 1 FROM {ask})"),
                &[format!("INSERT INTO {rest} VALUES (1)")],
            ),
            trigger("_work", &rest, "1", &self.staged_work()),
        ]
        .into_iter()
        .map(|sql| Statement::new(sql, Vec::new()))
        .collect()
    }

    /// Passes the claim that a trigger is about on, with the clock, its job's fence and the decision.
    fn decide(&self, decided: &str) -> String {
        format!(
            "INSERT INTO {decided} VALUES (NEW.n, {request}, {clock}, \
             (SELECT l.fence FROM {jobs} l WHERE l.job = NEW.job AND l.ident = ''), {decision})",
            request = names(REQUEST, "NEW."),
            clock = self.dialect.clock(),
            jobs = self.tables.jobs,
            decision = self.quick_decision(),
        )
    }

    /// The decision on the claim that a trigger is about; or that it goes the other way, as it is a manual one, or more
    /// is written than what follows from it alone: runs that are closed, a floor, or a sign of life of the job. The clock
    /// stands still while a statement runs, so `t` has the one that is passed on.
    fn quick_decision(&self) -> String {
        let t = self.tables;
        let closes = format!(
            "EXISTS (SELECT 1 FROM {} r WHERE r.open_job = j.job AND (r.status = 'waiting' OR {}))",
            t.runs,
            closed_now("r")
        );
        // A manual claim has no schedule identity.
        let expression = format!(
            "CASE WHEN l.touched IS NULL OR f.job IS NULL OR l.touched < j.c_now - {TOUCH_MS} OR (t.any_open AND {closes}) \
             THEN 'staged' ELSE {} END",
            self.decision_on_slot("t.any_open AND ")
        );
        let expression = expression
            .replace("j.c_now", "t.now_ms")
            .replace("j.c_floor", "coalesce(f.floor, j.c_floor)")
            .replace("j.trim_mark", "l.trim_mark")
            .replace("j.paused_at", "l.paused_at")
            .replace("j.", "NEW.");
        format!(
            "(SELECT {expression} \
             FROM (SELECT {clock} AS now_ms, EXISTS (SELECT 1 FROM {runs} r WHERE r.open_job = NEW.job) AS any_open) t \
             LEFT JOIN {jobs} l ON l.job = NEW.job AND l.ident = '' \
             LEFT JOIN {jobs} f ON f.job = NEW.job AND f.ident = NEW.c_ident)",
            clock = self.dialect.clock(),
            runs = t.runs,
            jobs = t.jobs,
        )
    }

    /// Starts a run where nothing else is to be done.
    fn quick_start(&self) -> [String; 3] {
        let t = self.tables;
        let fence = self.dialect.greatest("NEW.fence + 1", "NEW.c_now");
        let reason = "CASE NEW.c_kind WHEN 'catch-up' THEN 'catch-up' ELSE 'scheduled' END";
        [
            format!(
                "INSERT INTO {} (job, id, slot, status, open_job, attempt, token, last_token, fence, reason, instance_id, \
                 claimed_at, until_ms, max_attempts, retry_ms, within_ms, counts) \
                 VALUES (NEW.job, '', NEW.c_slot, 'running', NEW.job, 1, NEW.c_token, NEW.c_token, {fence}, {reason}, \
                 NEW.c_instance, NEW.c_now, NEW.c_now + NEW.c_lease, NEW.c_max, NEW.c_retry, NEW.c_within, 1)",
                t.runs
            ),
            format!(
                "UPDATE {jobs} SET touched = {touched}, fence = {fence} WHERE job = NEW.job AND ident = ''",
                jobs = t.jobs,
                touched = self.dialect.greatest("touched", "NEW.c_now"),
            ),
            self.put_answer(
                &packed(&["NEW.job", "NEW.c_do", "NEW.c_now", "''", "''", "NEW.c_max", "1", &fence, reason]),
                "1",
            ),
        ]
    }

    /// Answers a claim that changes nothing; puts any other to those that are staged.
    fn other_than_start(&self) -> [String; 2] {
        let cases: Vec<String> = QUIET.iter().map(|decision| format!("WHEN '{decision}' THEN 1")).collect();
        let quiet = format!("(CASE NEW.c_do {} ELSE 0 END)", cases.join(" "));
        let run = packed(&["NEW.job", "NEW.c_do", "NEW.c_now", "r.status", "r.until_ms"]);
        let none = packed(&["NEW.job", "NEW.c_do", "NEW.c_now"]);
        let answer = format!(
            "coalesce((SELECT {run} FROM {} r WHERE r.slot = NEW.c_slot AND r.job = NEW.job AND r.id = ''), {none})",
            self.tables.runs
        );
        let (ask, request) = (self.ask(), names(REQUEST, "NEW."));
        [self.put_answer(&answer, &quiet), format!("INSERT INTO {ask} SELECT NEW.n, {request} WHERE NOT {quiet}")]
    }

    fn put_answer(&self, answer: &str, when: &str) -> String {
        format!("UPDATE {} SET a = {answer} WHERE n = NEW.n AND {when}", self.answers())
    }

    /// What is done with all claims of a call that did not go the quick way.
    fn staged_work(&self) -> Vec<String> {
        let (stage, ask, answers) = (self.stage(), self.ask(), self.answers());
        let mut work = vec![
            self.empty_stage(),
            self.stage_asked(&ask),
            // The decision reads the staged row by its alias, which an update inside a trigger cannot give.
            format!("UPDATE {stage} SET c_do = (SELECT {} FROM {stage} j WHERE j.job = {stage}.job)", self.decision()),
        ];
        work.extend(self.work(1));
        let columns: Vec<String> = (0..COLUMNS).map(|n| format!("q.a{n}")).collect();
        let columns: Vec<&str> = columns.iter().map(String::as_str).collect();
        work.push(format!(
            "UPDATE {answers} SET a = (SELECT group_concat({}, '{ROW}') FROM {} q \
             WHERE q.a0 = (SELECT k.job FROM {ask} k WHERE k.n = {answers}.n)) WHERE n IN (SELECT k.n FROM {ask} k)",
            packed(&columns),
            self.reading(),
        ));
        work.push(format!("DELETE FROM {ask}"));
        work
    }

    /// The statements of a claim batch on such a connection. All that touches the database is the first. An error takes
    /// the whole transaction back, so SQLite need not keep what would take back that statement alone.
    pub(super) fn in_session(&self, size: usize) -> [String; 2] {
        let marks = vec!["?"; REQUEST.len()].join(", ");
        let rows: Vec<String> = (0..size).map(|n| format!("({n}, {}, {marks})", u8::from(n + 1 == size))).collect();
        let read = if size == 1 {
            format!("SELECT a FROM {} WHERE n = ?", self.answers())
        } else {
            let answers = format!("(SELECT a FROM {} WHERE n >= ? AND n < {size} ORDER BY n)", self.answers());
            format!("SELECT group_concat(a, '{ANSWER}') FROM {answers}")
        };
        [format!("INSERT OR ROLLBACK INTO {} VALUES {}", self.go(), rows.join(", ")), read]
    }

    /// The claims that are to be staged.
    fn ask(&self) -> String {
        self.own("_ask")
    }

    /// A claim is inserted here.
    fn go(&self) -> String {
        self.own("_go")
    }

    /// Where the answers are put, as part of the work: they are those of its transaction.
    fn answers(&self) -> String {
        self.own("_answers")
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

/// The rows of the answers to `claims` claims.
pub(super) fn unpacked(row: Option<&Row>, claims: usize) -> Result<Vec<Row>, SqlError> {
    let text = row.map(|row| row.text(0)).transpose()?.unwrap_or_default();
    let answers: Vec<&str> = text.split(ANSWER).collect();
    if answers.len() != claims {
        let message = format!("{} answers came back to {claims} claims", answers.len());
        return Err(SqlError::new(BackendErrorKind::Unknown, message));
    }
    let value = |text: &str| if text.is_empty() { Value::Null } else { Value::from(text) };
    let row = |text: &str| Row::new(text.split(COLUMN).map(value).collect());
    Ok(answers.into_iter().flat_map(|answer| answer.split(ROW)).map(row).collect())
}
