//! The functions that decide inside the database, one per verb.
//!
//! Each statement of a function sees what was committed before it began, so what is read after the job's row was locked
//! is what the one who had the lock before left; one large statement would decide by what it saw before it waited. They
//! are in the schema of the tables, and their names say what is in them: two releases of a program that run side by side
//! each have their own.
//!
//! Their plans are made once per connection, often while the tables are empty. So they are kept from depending on how
//! large the tables seem: everything is found by an index.

use crate::backend::sql::Tables;
use crate::backend::sql::common::{
    FORGET_AT_ONCE, NEW_RUN, NEWEST, OPEN_ATTEMPT, SKIP_ID, SWEEP_EVERY_MS, TOUCH_MS, TRIM_AT_ONCE,
};
use crate::lease::{MAX_RELEASES, MAX_RETRY_WAIT};

/// The lock under which tables and functions are made.
const MAKING: i64 = 0x616e_6172_6368_6f6e;

/// What each function that is called from outside runs under: each row is looked up by itself, by its key. Whatever goes
/// through a whole table seems cheaper while that is empty.
///
/// A row that somebody holds is waited for on the server no longer than this, so that a caller that has gone leaves no
/// blocked process behind.
const PLPGSQL: &str = "LANGUAGE plpgsql SET enable_seqscan = off SET lock_timeout = '2s'";

/// What is added for those that join tables, as each setting costs some µs in each call: nothing is gone through once to be
/// joined or kept. Where a table is joined, each column of its key is compared with one of the other side, since a constant
/// for a part of the key would do to go through all of its index; `OFFSET 0` keeps constants from getting there. The first
/// is compared by `= ANY`, where the order of the join is free: for `=`, the whole index is as good where there are few rows.
const JOINING: &str = "SET enable_hashjoin = off SET enable_mergejoin = off SET enable_material = off";

/// The answer that `claim` gives, without the job, as the elements of an array.
const ANSWER: &str = "x.o_did, x.o_now::text, x.o_status, x.o_until::text, x.o_max::text, x.o_attempt::text, \
    x.o_fence::text, x.o_reason, x.o_slot::text, x.o_ended, x.o_other_slot::text, x.o_other_id, x.o_other_until::text";

/// The answer to one of many claims that is lost, as a row of a text.
const LOST_ANSWER: &str = r"format(E'%s\x1f%s\x1f%s\x1f%s\x1f%s\x1f\x1f\x1f\x1f\x1f\x1f%s',
        u.n - 1, u.did, now_ms, u.status, u.until_ms, u.ended)";

/// How those of many claims are found that are lost.
const LOST: &str = include_str!("functions/lost.sql");

/// How the `n`th of many claims is made by itself: the row of its answer.
const NTH: &str = include_str!("functions/nth.sql");

/// A function: its short name, its text, and how it is called by statements.
#[derive(Debug)]
struct Function {
    name: String,
    text: String,
    planned_once: bool,
}

/// The functions on one set of tables, by their full names.
#[derive(Debug)]
pub(super) struct Functions {
    tables: Tables,
    all: Vec<Function>,
    pub(super) one: String,
    pub(super) claims: String,
    pub(super) manual: String,
    pub(super) beat: String,
    pub(super) finish: String,
    pub(super) release: String,
    pub(super) enrol: String,
    pub(super) trim: String,
    pub(super) active: String,
}

impl Functions {
    /// The functions on these tables, with this clock.
    pub(super) fn new(tables: &Tables, clock: &str) -> Self {
        let mut maker = Maker { tables, clock, all: Vec::new(), called: Vec::new() };
        let close = maker.make("close", include_str!("functions/close.sql"), false);
        maker.called.push(("@close@", close));
        let claim = maker.make("claim", include_str!("functions/claim.sql"), true);
        maker.called.push(("@claim@", claim));
        let one = maker.make("one", include_str!("functions/one.sql"), true);
        let claims = maker.make("claims", include_str!("functions/claims.sql"), true);
        let manual = maker.make("manual", include_str!("functions/manual.sql"), true);
        let beat = maker.make("beat", include_str!("functions/beat.sql"), true);
        let finish = maker.make("finish", include_str!("functions/finish.sql"), true);
        let release = maker.make("release", include_str!("functions/release.sql"), true);
        let enrol = maker.make("enrol", include_str!("functions/enrol.sql"), true);
        let trim = maker.make("trim", include_str!("functions/trim.sql"), true);
        let active = maker.make("active", include_str!("functions/active.sql"), true);
        let all = maker.all;
        Self { tables: tables.clone(), all, one, claims, manual, beat, finish, release, enrol, trim, active }
    }

    /// Whether they are those on these tables.
    pub(super) fn are_on(&self, tables: &Tables) -> bool {
        self.tables == *tables
    }

    /// A condition: all of them are there.
    pub(super) fn are_there(&self) -> String {
        let each: Vec<String> = self.all.iter().map(|f| format!("to_regproc('{}') IS NOT NULL", f.name)).collect();
        each.join(" AND ")
    }

    /// A statement that makes what is missing: the tables, by these statements, and the functions. One instance at a time
    /// does it, and nothing that is there is touched, so that whoever may only use it can run this as well.
    pub(super) fn create(&self, tables: &[String]) -> String {
        let mut sql = format!(
            "DO $make$ BEGIN PERFORM pg_advisory_xact_lock({MAKING}); IF to_regclass('{}') IS NULL THEN {}; END IF;",
            self.tables.meta,
            tables.join("; ")
        );
        for Function { name, text, planned_once } in &self.all {
            sql.push_str(&format!(" IF to_regproc('{name}') IS NULL THEN EXECUTE $text${text}$text$;"));
            if *planned_once {
                // There is one function of this name, but only PostgreSQL 10 and later find it by that.
                sql.push_str(&format!(
                    " IF current_setting('server_version_num')::integer >= 120000 \
                     THEN EXECUTE 'ALTER FUNCTION {name} SET plan_cache_mode = force_generic_plan'; END IF;"
                ));
            }
            sql.push_str(" END IF;");
        }
        sql.push_str(" END $make$");
        sql
    }
}

struct Maker<'a> {
    tables: &'a Tables,
    clock: &'a str,
    all: Vec<Function>,
    /// What stands for the functions that are there already, which others may call.
    called: Vec<(&'static str, String)>,
}

impl Maker<'_> {
    /// Adds a function and returns its name.
    fn make(&mut self, verb: &str, text: &str, outside: bool) -> String {
        let parts = text.replace("@lost@", LOST.trim()).replace("@claim n@", NTH.trim());
        // The one that has parameters comes first.
        let mut text = expand(&parts, "@closes ", |words| {
            let (r, now) = words.split_once(' ').unwrap_or((words, "0"));
            format!(
                "({r}.until_ms <= {now} AND ({r}.id <> '' OR {r}.until_ms < {now} - {r}.within_ms \
                 OR {r}.releases >= {MAX_RELEASES} \
                 OR {r}.failures + CASE WHEN {r}.token IS NULL THEN 0 ELSE 1 END >= {r}.max_attempts))"
            )
        });
        text = expand(&text, "@of ", |words| {
            let (name, n) = words.split_once(' ').unwrap_or((words, "1"));
            format!("coalesce(s_{name}, p_{name}[{n}])")
        });
        text = expand(&text, "@is ", |words| {
            let (key, other) = words.split_once(' ').unwrap_or((words, "NULL"));
            format!("{key} = ANY (ARRAY[{other}])")
        });
        text = expand(&text, "@one ", |name| format!("CASE array_length(p_{name}, 1) WHEN 1 THEN p_{name}[1] END"));
        let open_attempt: Vec<String> = OPEN_ATTEMPT.split(", ").map(|column| format!("r.{column}")).collect();
        let t = self.tables;
        let marks = [
            ("@runs@", t.runs.clone()),
            ("@attempts@", t.attempts.clone()),
            ("@jobs@", t.jobs.clone()),
            ("@meta@", t.meta.clone()),
            ("@clock@", self.clock.to_owned()),
            ("@plpgsql@", PLPGSQL.to_owned()),
            ("@joining@", JOINING.to_owned()),
            ("@open_attempt@", OPEN_ATTEMPT.to_owned()),
            ("@new_run@", NEW_RUN.to_owned()),
            ("@r.open_attempt@", open_attempt.join(", ")),
            ("@newest@", NEWEST.to_string()),
            ("@skip@", SKIP_ID.to_owned()),
            ("@touch@", TOUCH_MS.to_string()),
            ("@max_wait@", MAX_RETRY_WAIT.as_millis().to_string()),
            ("@sweep@", SWEEP_EVERY_MS.to_string()),
            ("@forget@", FORGET_AT_ONCE.to_string()),
            ("@trim@", TRIM_AT_ONCE.to_string()),
            ("@max@", i64::MAX.to_string()),
            ("@answer x@", ANSWER.to_owned()),
            ("@lost_answer@", LOST_ANSWER.to_owned()),
        ];
        for (mark, with) in marks.iter().chain(&self.called) {
            text = text.replace(mark, with);
        }
        let prefix = t.schema.as_ref().map(|schema| format!("\"{schema}\".")).unwrap_or_default();
        let name = format!("{prefix}\"{}_{verb}_{}\"", t.base, digest(&text));
        let text = text.replace("@name@", &name);
        self.all.push(Function { name: name.clone(), text, planned_once: outside });
        name
    }
}

/// Replaces each `<begin>words@`.
fn expand(text: &str, begin: &str, with: impl Fn(&str) -> String) -> String {
    let mut parts = text.split(begin);
    let mut expanded = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        let (words, rest) = part.split_once('@').unwrap_or((part, ""));
        expanded.push_str(&with(words));
        expanded.push_str(rest);
    }
    expanded
}

/// Six characters that a text has and another, in all likelihood, has not: more would not fit into the 63 bytes of a
/// name. FNV-1a, of which 30 bits are left.
fn digest(text: &str) -> String {
    const DIGITS: &[u8; 32] = b"abcdefghijklmnopqrstuvwxyz234567";
    let hash = text
        .bytes()
        .fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3));
    let folded = hash ^ (hash >> 30);
    (0..6).map(|n| char::from(DIGITS[usize::try_from((folded >> (5 * n)) & 31).unwrap_or(0)])).collect()
}
