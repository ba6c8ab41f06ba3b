//! Runs that are marked done inside a transaction of the user's own, so that they appear done together with what the
//! handler wrote, or not at all.
//!
//! The store only words the statements; the user's connection carries them. What holds on the way is the same as for
//! every other end of an attempt: the token guards it, and it is told from the run's own row what was done.

#[cfg(feature = "_sqlx")]
mod database;
#[cfg(feature = "_sqlx")]
mod extractor;

use std::any::TypeId;
use std::fmt;

#[cfg(feature = "_sqlx")]
pub use self::database::FinishDatabase;
#[cfg(feature = "_sqlx")]
pub use self::extractor::{Finish, FinishError};
use super::{SqlBackend, SqlClient, SqlDialect, Verb};
use crate::error::BackendError;
use crate::run;

/// How a SQL store marks a run done inside a transaction that is not its own: what
/// [`Backend::transactional_finish`](crate::Backend::transactional_finish) of such a store returns.
#[derive(Clone, Copy)]
pub struct TransactionalFinish<'a> {
    database: TypeId,
    store: &'a dyn Wording,
}

impl fmt::Debug for TransactionalFinish<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TransactionalFinish").finish_non_exhaustive()
    }
}

impl<'a> TransactionalFinish<'a> {
    /// What `store` says inside transactions of `Db`, a database of sqlx. The store's tables must be such that any
    /// connection to the database finds them by their name.
    #[must_use]
    pub fn new<Db: 'static, C: SqlClient, D: SqlDialect>(store: &'a SqlBackend<C, D>) -> Self {
        Self { database: TypeId::of::<Db>(), store }
    }

    /// The same for a store that is made later than this is asked for.
    #[cfg_attr(not(feature = "postgres"), allow(dead_code, reason = "no other store is made later"))]
    pub(in crate::backend) fn worded<Db: 'static>(store: &'a dyn Wording) -> Self {
        Self { database: TypeId::of::<Db>(), store }
    }

    /// The database of sqlx, by its type.
    pub(crate) fn database(&self) -> TypeId {
        self.database
    }

    /// One text, without values to be bound: whose protocol the user's connection speaks, and through which pooler, is
    /// not known here. The last statement returns one row: the number of the request, the clock, 1 if this text has
    /// marked the run, and the status of the attempt if it has ended.
    #[cfg_attr(not(feature = "_sqlx"), allow(dead_code, reason = "no store that is compiled in has a use for it"))]
    pub(crate) fn text(&self, finish: &run::Finish, mark: i64) -> Result<String, BackendError> {
        self.store.text(finish, mark)
    }
}

#[cfg_attr(not(feature = "_sqlx"), allow(dead_code, reason = "no store that is compiled in has a use for it"))]
pub(in crate::backend) trait Wording: Send + Sync {
    fn text(&self, finish: &run::Finish, mark: i64) -> Result<String, BackendError>;
}

impl<C: SqlClient, D: SqlDialect> Wording for SqlBackend<C, D> {
    fn text(&self, finish: &run::Finish, mark: i64) -> Result<String, BackendError> {
        let sql = self.sql()?;
        let replaced = self.dialect.replace(Verb::FinishWithin(finish, mark), sql.tables);
        let statements = replaced.unwrap_or_else(|| sql.finish_within(finish, mark));
        let texts: Vec<String> = statements.iter().map(|statement| self.dialect.text_of(statement)).collect();
        Ok(texts.join("; "))
    }
}
