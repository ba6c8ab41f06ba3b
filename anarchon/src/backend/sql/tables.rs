//! The names of the four tables.

use super::dialect::SqlDialect;

/// The longest table name, without its schema: the suffixes and the index names still fit into PostgreSQL's 63 bytes.
const MAX_NAME: usize = 48;

/// The quoted names of the tables, as statements use them.
///
/// | table | one row per |
/// |---|---|
/// | `<table>` | run, with its latest attempt |
/// | `<table>_attempts` | attempt that has ended, and record of skipped slots: the history |
/// | `<table>_jobs` | job (the row whose lock makes the claims of a job take turns), and one per schedule identity of it |
/// | `<table>_meta` | setting: the format |
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Tables {
    /// The schema, if one was given; unquoted.
    pub schema: Option<String>,
    /// The table's own name; unquoted.
    pub base: String,
    /// One row per run.
    pub runs: String,
    /// One row per attempt.
    pub attempts: String,
    /// One row per job, and one per schedule identity.
    pub jobs: String,
    /// One row per setting.
    pub meta: String,
}

impl Tables {
    /// The tables whose common name is `name`: `cron_runs`, or `jobs.cron_runs` with a schema.
    ///
    /// # Errors
    /// What is wrong with the name: each part begins with a letter or `_`, goes on with letters, digits and `_` (all
    /// ASCII), and the table's own has at most 48 bytes.
    pub fn new<D: SqlDialect>(name: &str, dialect: &D) -> Result<Self, String> {
        let (schema, base) = match name.split_once('.') {
            Some((schema, base)) => (Some(schema), base),
            None => (None, name),
        };
        for part in schema.into_iter().chain([base]) {
            if let Some(fault) = fault(part) {
                return Err(format!("{name:?} cannot be a table's name: {fault}"));
            }
        }
        if base.len() > MAX_NAME {
            return Err(format!("{name:?} cannot be a table's name: more than {MAX_NAME} bytes"));
        }
        dialect.check_schema(schema)?;
        let prefix = schema.map(|s| format!("{}.", dialect.quote(s))).unwrap_or_default();
        let quoted = |suffix: &str| format!("{prefix}{}", dialect.quote(&format!("{base}{suffix}")));
        Ok(Self {
            schema: schema.map(str::to_owned),
            base: base.to_owned(),
            runs: quoted(""),
            attempts: quoted("_attempts"),
            jobs: quoted("_jobs"),
            meta: quoted("_meta"),
        })
    }

    /// The names for people, without quotation marks.
    pub(super) fn names(&self) -> Vec<String> {
        let schema = self.schema.as_ref().map(|schema| format!("{schema}.")).unwrap_or_default();
        ["", "_attempts", "_jobs", "_meta"].map(|suffix| format!("{schema}{}{suffix}", self.base)).to_vec()
    }
}

fn fault(part: &str) -> Option<&'static str> {
    let mut chars = part.chars();
    match chars.next() {
        None => return Some("a part of it is empty"),
        Some(first) if !(first.is_ascii_alphabetic() || first == '_') => {
            return Some("each part begins with a letter or `_`");
        }
        Some(_) => {}
    }
    if !chars.all(|c| c.is_ascii_alphanumeric() || c == '_') {
        return Some("only ASCII letters, digits and `_` are allowed, and one dot after a schema");
    }
    (part.len() > 63).then_some("more than 63 bytes")
}
