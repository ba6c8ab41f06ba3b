//! The argument of a handler that finishes its run inside a transaction of its own.

use std::any::TypeId;
use std::fmt;
use std::marker::PhantomData;
use std::sync::Arc;

use super::database::{FinishDatabase, Said};
use crate::backend::DynStore;
use crate::context::Context;
use crate::error::{BackendError, BoxError};
use crate::extract::{Extract, Need, NeedOf, RunParts, TakenOn, sealed};
use crate::option::SupportsFinish;
use crate::run::{self, AttemptStatus, Ending, RunKey};

/// Finishes the run inside a transaction of the handler's own: what the handler writes and "done" are committed together,
/// so they happen once. `Db` is the database of sqlx in which the jobs are kept, as in `Finish<sqlx::Sqlite>`.
///
/// ```
/// use anarchon::{Context, Finish, State};
/// use sqlx::{Sqlite, SqlitePool};
///
/// #[anarchon::job(cron = "0 3 * * *")]
/// async fn bill(ctx: Context, finish: Finish<Sqlite>, State(pool): State<SqlitePool>) -> Result<(), anarchon::BoxError> {
///     let mut tx = pool.begin_with("BEGIN IMMEDIATE").await?;
///     sqlx::query("INSERT INTO bills (day) VALUES (?)").bind(ctx.slot_ms()).execute(&mut *tx).await?;
///     finish.commit_with(&mut tx).await?; // last, and only then:
///     tx.commit().await?;
///     Ok(())
/// }
/// # fn main() {}
/// ```
///
/// A handler that never calls [`commit_with`](Self::commit_with) is finished as usual, when it has returned. Once it was
/// called, only the transaction can make the run done: a handler that returns without having committed it has `failed`
/// ("the transaction was not committed"), and one that fails after the commit is done all the same.
///
/// It works alike in runs started by hand. On a store that is not this database it does not compile; where only the
/// start of the program can tell, as with [`AnyBackend`](crate::AnyBackend), `start()` or `add()` refuses the job.
/// [`guide::effects`](crate::guide::effects) tells more, and what else there is.
pub struct Finish<Db> {
    context: Context,
    store: Arc<dyn DynStore>,
    database: PhantomData<fn() -> Db>,
}

impl<Db> Clone for Finish<Db> {
    fn clone(&self) -> Self {
        Self { context: self.context.clone(), store: Arc::clone(&self.store), database: PhantomData }
    }
}

impl<Db> fmt::Debug for Finish<Db> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Finish").field(&self.context.0.run).finish()
    }
}

/// Why a run could not be marked done. The transaction must be rolled back in any case: dropping it does.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum FinishError {
    /// The run is not this attempt's any more: its lease ran out and another instance has started it again, or closed
    /// it. What this handler wrote must not stay.
    #[error("run `{run}` is not this attempt's any more, since its lease was lost; roll the transaction back")]
    Lost {
        /// The run.
        run: RunKey,
    },
    /// This attempt was marked done before: by an earlier call in this transaction, or in one whose commit went through
    /// although its answer was lost. What was written since then would be written twice.
    #[error("run `{run}` was marked done by this attempt before; roll the transaction back")]
    AlreadyDone {
        /// The run.
        run: RunKey,
    },
    /// The transaction's isolation level is not READ COMMITTED. A stricter one can see a state of the run that is over,
    /// and locks more rows than its own.
    #[error(
        "the transaction's isolation level is {found}, and must be READ COMMITTED; on MySQL that of its session counts (`SET SESSION TRANSACTION ISOLATION LEVEL READ COMMITTED`)"
    )]
    Isolation {
        /// The level as the database names it.
        found: String,
    },
    /// The transaction cannot write.
    #[error("the transaction cannot write: {hint}: {source}")]
    CannotWrite {
        /// Why, and what to do.
        hint: &'static str,
        /// What the database said.
        source: BoxError,
    },
    /// The database failed: the connection was lost, or it is not the database in which the jobs are kept, whose tables
    /// are missing here.
    #[error("the run could not be marked done: {0}")]
    Database(#[source] BoxError),
    /// The store does not know how.
    #[error(transparent)]
    Backend(#[from] BackendError),
}

#[cfg(feature = "testing")]
impl<Db> Finish<Db> {
    /// What the handler of this attempt would be given.
    pub(crate) fn of_attempt(
        run: RunKey,
        token: crate::slot::Token,
        instance: crate::slot::InstanceId,
        store: Arc<dyn DynStore>,
    ) -> Self {
        let parts = crate::context::ContextParts {
            run,
            attempt: 1,
            token,
            fence: None,
            reason: run::Reason::Scheduled,
            instance,
            deadline: None,
            signals: crate::context::Signals::default(),
        };
        Self { context: Context(Arc::new(parts)), store, database: PhantomData }
    }
}

impl<Db: FinishDatabase> Finish<Db> {
    /// Marks the run done inside `transaction`, as part of it. It commits nothing: call it last, then commit, then return.
    ///
    /// From here on the run's row is locked until the transaction ends, and the lease is not renewed any more: with the
    /// default times there are 7 s left at least until the handler is cancelled
    /// (`lease` - `heartbeat` - two margins of a tenth of the lease). After the commit the run is over for all instances.
    ///
    /// After an error, and when this future is dropped, roll the transaction back. The whole transaction may be tried
    /// again then, with this call at its end: if an earlier one was committed after all, that is
    /// [`AlreadyDone`](FinishError::AlreadyDone). So is a second call in one transaction.
    ///
    /// # Errors
    /// When the run is not this attempt's any more, when it is done already, when the isolation level is not READ
    /// COMMITTED where there are others, when the transaction cannot write, and when the database fails.
    pub async fn commit_with(&self, transaction: &mut sqlx::Transaction<'_, Db>) -> Result<(), FinishError> {
        let signals = &self.context.0.signals;
        // Before anything is sent: while the row is locked, no heartbeat must wait for it.
        signals.finish_begins();
        let marked = self.mark(transaction).await;
        match &marked {
            // An earlier call's transaction may still be open.
            Ok(()) | Err(FinishError::AlreadyDone { .. }) => {}
            Err(_) => signals.finish_failed(),
        }
        marked
    }

    async fn mark(&self, connection: &mut Db::Connection) -> Result<(), FinishError> {
        let parts = &self.context.0;
        let run = || parts.run.clone();
        let finish = run::Finish::new(run(), parts.token, Ending::Done, parts.instance.clone(), parts.run.slot.ms());
        let Some(words) = self.store.transactional_finish().filter(|f| f.database() == TypeId::of::<Db>()) else {
            return Err(FinishError::Database(other_database::<Db>(&*self.store)));
        };
        let mut text = words.text(&finish, super::super::new_mark())?;
        if let Some(isolation) = Db::ISOLATION {
            text.insert_str(0, "; ");
            text.insert_str(0, isolation);
        }
        let mut marked = None;
        for said in Db::send(connection, text).await.map_err(Db::fault)? {
            match said {
                Said::Isolation(found) if is_read_committed(&found) => {}
                Said::Isolation(found) => return Err(FinishError::Isolation { found }),
                Said::Marked { now, status } => marked = Some((now, status)),
            }
        }
        let done = |status: Option<String>| status.as_deref() == Some(AttemptStatus::Done.as_str());
        match marked {
            Some((true, status)) if done(status.clone()) => Ok(()),
            Some((false, status)) if done(status.clone()) => Err(FinishError::AlreadyDone { run: run() }),
            Some(_) => Err(FinishError::Lost { run: run() }),
            None => Err(FinishError::Database("the database gave no answer".into())),
        }
    }
}

/// `read committed` or `READ-COMMITTED`.
fn is_read_committed(level: &str) -> bool {
    level.replace(['-', '_'], " ").eq_ignore_ascii_case("read committed")
}

fn other_database<Db: FinishDatabase>(store: &dyn DynStore) -> BoxError {
    format!(
        "the jobs are kept by backend `{}`, which finishes nothing inside a `{}` transaction",
        store.name(),
        Db::TYPE
    )
    .into()
}

impl<Db> sealed::Sealed for Finish<Db> {}

impl<B: SupportsFinish<Db>, Db> TakenOn<B> for Finish<Db> {}

impl<Db: FinishDatabase> Extract for Finish<Db> {
    fn extract(parts: &RunParts<'_>) -> Result<Self, BoxError> {
        Ok(Self { context: parts.context.clone(), store: Arc::clone(parts.store), database: PhantomData })
    }

    fn need() -> Option<NeedOf> {
        Some(NeedOf(Need::Database(TypeId::of::<Db>(), Db::TYPE)))
    }
}

#[cfg(test)]
mod tests {
    use super::is_read_committed;

    #[test]
    fn each_database_spells_read_committed_in_its_own_way() {
        assert!(is_read_committed("read committed") && is_read_committed("READ-COMMITTED"));
        assert!(!is_read_committed("repeatable read") && !is_read_committed("SERIALIZABLE"));
    }
}
