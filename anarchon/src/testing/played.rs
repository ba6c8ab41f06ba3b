//! A transaction that finishes a run, without a database.

use crate::backend::Backend;
use crate::context::Context;
use crate::error::BackendError;
use crate::run::{Ending, Finish, FinishOutcome};

/// What a handler does that finishes its run inside a transaction of its own, as the scheduler and the store see it: for
/// tests on stores that are no SQL database.
#[derive(Clone, Debug)]
pub struct PlayedFinish(Context);

impl PlayedFinish {
    /// Begins to mark the run done: from now on its row may be locked.
    #[must_use]
    pub fn begin(context: &Context) -> Self {
        context.0.signals.finish_begins();
        Self(context.clone())
    }

    /// The run could not be marked.
    pub fn fail(self) {
        self.0.0.signals.finish_failed();
    }

    /// The transaction is committed in `store`.
    ///
    /// # Errors
    /// Those of the store.
    pub async fn commit(self, store: &impl Backend) -> Result<FinishOutcome, BackendError> {
        let parts = &self.0.0;
        let (run, slot) = (parts.run.clone(), parts.run.slot.ms());
        let finish = Finish::new(run, parts.token, Ending::Done, parts.instance.clone(), slot);
        store.finish(&finish).await.map(|timed| timed.value)
    }
}
