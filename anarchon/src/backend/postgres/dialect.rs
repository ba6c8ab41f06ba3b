//! PostgreSQL's way of saying things.

use std::borrow::Cow;
use std::sync::{Arc, Mutex, PoisonError};

use super::arrays::{ints, ints_or_one, text, texts, texts_or_one, words};
use super::functions::Functions;
use crate::backend::sql::clients::postgres_literal;
use crate::backend::sql::common::{SKIP_ID, claim_numbers, claim_values, id_of, ident, millis};
use crate::backend::sql::{Column, SqlDialect, Statement, Tables, Value, Verb, create_tables};
use crate::run::{Beat, Finish, Registration, Release, RunClaim, RunKey, Trim};
use crate::slot::Token;

/// The wall clock in ms, rounded down. `now()` would be the time at which the message came, before any wait.
const CLOCK: &str = "floor(extract(epoch FROM clock_timestamp()) * 1000)::bigint";

/// What the row of a job says of its slots, so that a claim of a later one has nothing to look up but open runs: no slot
/// after `newest` has a run or a record, or had one, and the schedule `newest_ident` begins before it. `was_newest` is what
/// the latest batch of claims replaced, to be read back in the same call.
const AHEAD: &[(&str, Column)] = &[("newest", Column::Int), ("newest_ident", Column::Key), ("was_newest", Column::Int)];

/// The dialect of PostgreSQL 9.5 and later: each verb is one statement, which calls one function.
///
/// | since | what it uses |
/// |---|---|
/// | 9.4 | `unnest` of several arrays, `WITH ORDINALITY`, `to_regclass`, `to_regproc` |
/// | 9.5 | `ON CONFLICT`, `SKIP LOCKED`, an alias in `INSERT` |
/// | 12 | `plan_cache_mode`, where it is there |
#[derive(Debug)]
pub struct PostgresDialect {
    clock: Cow<'static, str>,
    functions: Mutex<Option<Arc<Functions>>>,
}

impl PostgresDialect {
    /// The dialect with the server's own clock.
    #[must_use]
    pub const fn new() -> Self {
        Self { clock: Cow::Borrowed(CLOCK), functions: Mutex::new(None) }
    }

    /// The dialect with another clock, for tests: an SQL expression that gives ms since the epoch.
    #[cfg(feature = "testing")]
    #[must_use]
    pub fn with_clock(self, clock: impl Into<Cow<'static, str>>) -> Self {
        Self { clock: clock.into(), functions: Mutex::new(None) }
    }

    fn functions(&self, tables: &Tables) -> Arc<Functions> {
        let mut made = self.functions.lock().unwrap_or_else(PoisonError::into_inner);
        match &*made {
            Some(functions) if functions.are_on(tables) => Arc::clone(functions),
            _ => {
                let functions = Arc::new(Functions::new(tables, &self.clock));
                *made = Some(Arc::clone(&functions));
                functions
            }
        }
    }
}

impl Default for PostgresDialect {
    fn default() -> Self {
        Self::new()
    }
}

impl Clone for PostgresDialect {
    fn clone(&self) -> Self {
        Self { clock: self.clock.clone(), functions: Mutex::new(None) }
    }
}

impl SqlDialect for PostgresDialect {
    fn column(&self, column: Column) -> &str {
        match column {
            Column::Int => "bigint",
            Column::Key => "text COLLATE \"C\"",
            Column::Text => "text",
        }
    }

    fn clock(&self) -> &str {
        &self.clock
    }

    fn literal(&self, value: &Value) -> String {
        postgres_literal(value)
    }

    /// Rows are written again where they lie: room for that in each page spares writes to indexes.
    fn table_options(&self) -> &str {
        "WITH (fillfactor = 70)"
    }

    fn replace(&self, verb: Verb<'_>, tables: &Tables) -> Option<Vec<Statement>> {
        let f = self.functions(tables);
        let text = match verb {
            Verb::Claim([claim]) => {
                let values = claim_values(claim);
                let argument = |value: &Value| match value {
                    Value::Text(word) => text(word),
                    other => postgres_literal(other),
                };
                format!("SELECT {}({})", f.one, values.iter().map(argument).collect::<Vec<_>>().join(", "))
            }
            Verb::Claim(claims) => format!("SELECT {}({})", f.claims, claims_arrays(claims).join(", ")),
            Verb::ClaimManual(claim) => {
                let values = [
                    claim.job.as_str().into(),
                    claim.exclusive.into(),
                    claim.token.to_string().into(),
                    claim.instance.as_str().into(),
                    millis(claim.lease).into(),
                    claim.valid_until.into(),
                ];
                let values: Vec<String> = values.iter().map(postgres_literal).collect();
                format!("SELECT * FROM {}({})", f.manual, values.join(", "))
            }
            Verb::Heartbeat(beats, _) => call(&f.beat, beat_arrays(beats)),
            Verb::Finish(finishes) => call(&f.finish, finish_arrays(finishes)),
            // As it is sent beside statements of the application's, it can do without the functions.
            Verb::FinishWithin(..) => return None,
            Verb::Release(releases) => call(&f.release, release_arrays(releases)),
            Verb::Register(registrations, forget_after) => {
                let mut arguments = registration_arrays(registrations);
                arguments.push(postgres_literal(&forget_after.into()));
                call(&f.enrol, arguments)
            }
            Verb::Trim(trims, _) => format!("SELECT 1 FROM {}({})", f.trim, trim_arguments(trims).join(", ")),
            Verb::Active(jobs) => {
                let names = texts(jobs.iter().map(|job| Some(job.as_str())));
                call(&f.active, vec![if jobs.is_empty() { "NULL".to_owned() } else { names }])
            }
            Verb::Create => {
                let mut statements: Vec<String> = create_tables(tables, self, Some(AHEAD))
                    .into_iter()
                    .map(|statement| statement.sql.into_owned())
                    .collect();
                statements.push(skip_index(tables));
                f.create(&statements)
            }
            Verb::Format => {
                format!("SELECT m.v FROM {} m WHERE m.k = 'format' AND {}", tables.meta, f.are_there())
            }
        };
        Some(vec![Statement::new(text, Vec::new())])
    }
}

/// What finds the records of skipped slots, of which most jobs have none, without a way through all of the history.
fn skip_index(tables: &Tables) -> String {
    format!(
        "CREATE INDEX IF NOT EXISTS \"{}_skips\" ON {} (job, slot) WHERE id = '{SKIP_ID}'",
        tables.base, tables.attempts
    )
}

fn call(function: &str, arguments: Vec<String>) -> String {
    format!("SELECT * FROM {function}({})", arguments.join(", "))
}

/// The arrays that name attempts.
fn attempts<'a>(attempts: impl Iterator<Item = (&'a RunKey, Token)> + Clone) -> Vec<String> {
    vec![
        texts(attempts.clone().map(|(run, _)| Some(run.job.as_str()))),
        words(attempts.clone().map(|(run, _)| id_of(run))),
        ints(attempts.clone().map(|(run, _)| run.slot.ms().into())),
        words(attempts.map(|(_, token)| token.to_string())),
    ]
}

/// In the order of the jobs, in which their rows are locked. All but the names and the tokens may be one value for all.
fn claims_arrays(claims: &[RunClaim]) -> Vec<String> {
    let mut claims: Vec<&RunClaim> = claims.iter().collect();
    claims.sort_by_key(|claim| claim.job.as_str());
    let numbers: Vec<[Value; 9]> = claims.iter().map(|claim| claim_numbers(claim)).collect();
    let idents: Vec<String> = claims.iter().map(|c| ident(&c.identity)).collect();
    let mut arrays = vec![
        texts(claims.iter().map(|c| Some(c.job.as_str()))),
        ints_or_one(claims.iter().map(|c| c.slot.ms().into())),
        texts_or_one(claims.iter().map(|c| c.kind.as_str())),
        words(claims.iter().map(|c| c.token.to_string())),
        texts_or_one(claims.iter().map(|c| c.instance.as_str())),
        texts_or_one(idents.iter().map(String::as_str)),
    ];
    arrays.extend((0..9).map(|n| ints_or_one(numbers.iter().map(|row| row.get(n).cloned().unwrap_or(Value::Null)))));
    arrays
}

fn beat_arrays(beats: &[Beat]) -> Vec<String> {
    let mut arrays = attempts(beats.iter().map(|beat| (&beat.run, beat.token)));
    arrays.push(ints(beats.iter().map(|beat| millis(beat.lease).into())));
    arrays
}

fn finish_arrays(finishes: &[Finish]) -> Vec<String> {
    let mut arrays = attempts(finishes.iter().map(|finish| (&finish.run, finish.token)));
    arrays.push(words(finishes.iter().map(|finish| finish.ending.status().as_str().to_owned())));
    arrays.push(texts(finishes.iter().map(|finish| finish.ending.error())));
    arrays.push(ints(finishes.iter().map(|finish| finish.last.into())));
    arrays
}

fn release_arrays(releases: &[Release]) -> Vec<String> {
    let mut arrays = attempts(releases.iter().map(|release| (&release.run, release.token)));
    arrays.push(ints(releases.iter().map(|release| release.returned.into())));
    arrays
}

fn registration_arrays(registrations: &[Registration]) -> Vec<String> {
    let idents: Vec<String> = registrations.iter().map(|r| ident(&r.identity)).collect();
    vec![
        texts(registrations.iter().map(|r| Some(r.job.as_str()))),
        texts(idents.iter().map(|ident| Some(ident.as_str()))),
        texts(registrations.iter().map(|r| Some(&*r.fingerprint))),
        texts(registrations.iter().map(|r| Some(r.instance.as_str()))),
    ]
}

/// These trims share their retention.
fn trim_arguments(trims: &[Trim]) -> Vec<String> {
    let mut arguments = vec![texts(trims.iter().map(|trim| Some(trim.job.as_str())))];
    if let Some(first) = trims.first() {
        let (size, ttl) = (first.retention.size, first.retention.ttl.map(millis));
        arguments.extend([size.into(), ttl.into(), millis(first.keep).into()].iter().map(postgres_literal));
    }
    arguments
}
