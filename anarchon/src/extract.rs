//! Handlers and their arguments: any `async fn` of 0 to 8 extractors is a handler.

use std::any::{Any, TypeId, type_name};
use std::collections::HashMap;
use std::fmt;
use std::future::Future;
use std::sync::Arc;

use crate::backend::DynStore;
use crate::context::{Context, HandlerFuture};
use crate::error::BoxError;

/// What a handler's run came to.
pub type HandlerResult = Result<(), BoxError>;

/// A value shared by all jobs of a scheduler, given by `.state(value)`; each run gets a clone.
///
/// A job that takes a `State<T>` which the scheduler was not given is refused at start, naming job and type.
#[derive(Clone, Copy, Debug, Default)]
pub struct State<T>(pub T);

/// A value that belongs to one job, given by `data = …` or `.data(value)`; each run gets a clone.
#[derive(Clone, Copy, Debug, Default)]
pub struct Data<T>(pub T);

/// The values given to a scheduler, by type.
#[derive(Clone, Default)]
pub(crate) struct StateMap(HashMap<TypeId, Arc<dyn Any + Send + Sync>>);

impl StateMap {
    pub(crate) fn insert<T: Clone + Send + Sync + 'static>(&mut self, value: T) {
        self.0.insert(TypeId::of::<T>(), Arc::new(value));
    }

    fn get<T: Clone + 'static>(&self) -> Option<T> {
        self.0.get(&TypeId::of::<T>())?.downcast_ref::<T>().cloned()
    }

    pub(crate) fn has(&self, id: TypeId) -> bool {
        self.0.contains_key(&id)
    }
}

impl fmt::Debug for StateMap {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "StateMap({} values)", self.0.len())
    }
}

/// A job's own value, of any type.
#[derive(Clone)]
pub struct DataValue {
    value: Arc<dyn Any + Send + Sync>,
    type_name: &'static str,
}

impl DataValue {
    /// Wraps a value.
    pub fn new<T: Send + Sync + 'static>(value: T) -> Self {
        Self { value: Arc::new(value), type_name: type_name::<T>() }
    }

    pub(crate) fn is(&self, id: TypeId) -> bool {
        (*self.value).type_id() == id
    }
}

impl fmt::Debug for DataValue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "DataValue({})", self.type_name)
    }
}

/// What a handler needs to have been given before it can run.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Need {
    State(TypeId, &'static str),
    Data(TypeId, &'static str),
    /// A store that finishes runs inside transactions of this database.
    #[cfg_attr(not(feature = "_sqlx"), allow(dead_code, reason = "no store that is compiled in has a use for it"))]
    Database(TypeId, &'static str),
}

/// Everything an extractor may take from.
#[derive(Clone, Copy, Debug)]
pub struct RunParts<'a> {
    pub(crate) context: &'a Context,
    pub(crate) state: &'a StateMap,
    pub(crate) data: Option<&'a DataValue>,
    #[cfg_attr(not(feature = "_sqlx"), allow(dead_code, reason = "no store that is compiled in has a use for it"))]
    pub(crate) store: &'a Arc<dyn DynStore>,
}

pub(crate) mod sealed {
    pub trait Sealed {}
}

/// A type that can be an argument of a handler: [`Context`], [`State<T>`](State), [`Data<T>`](Data), or
/// `Finish<Db>` with a store that is a SQL database.
#[diagnostic::on_unimplemented(
    message = "`{Self}` cannot be an argument of a job",
    label = "not an extractor",
    note = "a job takes up to 8 of `Context`, `State<T>`, `Data<T>` and `Finish<Db>`, where `T: Clone + Send + Sync + 'static`"
)]
pub trait Extract: sealed::Sealed + Sized + Send + 'static {
    #[doc(hidden)]
    fn extract(parts: &RunParts<'_>) -> Result<Self, BoxError>;

    #[doc(hidden)]
    fn need() -> Option<NeedOf> {
        None
    }
}

/// What an extractor needs; opaque.
#[doc(hidden)]
#[derive(Debug)]
pub struct NeedOf(pub(crate) Need);

impl sealed::Sealed for Context {}
impl<T> sealed::Sealed for State<T> {}
impl<T> sealed::Sealed for Data<T> {}

impl Extract for Context {
    fn extract(parts: &RunParts<'_>) -> Result<Self, BoxError> {
        Ok(parts.context.clone())
    }
}

impl<T: Clone + Send + Sync + 'static> Extract for State<T> {
    fn extract(parts: &RunParts<'_>) -> Result<Self, BoxError> {
        let missing = || format!("no state of type {} was given to the scheduler", type_name::<T>());
        parts.state.get::<T>().map(State).ok_or_else(|| missing().into())
    }

    fn need() -> Option<NeedOf> {
        Some(NeedOf(Need::State(TypeId::of::<T>(), type_name::<T>())))
    }
}

impl<T: Clone + Send + Sync + 'static> Extract for Data<T> {
    fn extract(parts: &RunParts<'_>) -> Result<Self, BoxError> {
        let found = parts.data.and_then(|data| data.value.downcast_ref::<T>().cloned());
        found.map(Data).ok_or_else(|| format!("the job has no data of type {}", type_name::<T>()).into())
    }

    fn need() -> Option<NeedOf> {
        Some(NeedOf(Need::Data(TypeId::of::<T>(), type_name::<T>())))
    }
}

/// `Self`, one argument of a handler or the list of all of them, can be taken on backend `B`.
///
/// Never implemented by hand: all but [`Finish`](crate::backend::sql::TransactionalFinish) can be taken on any.
#[diagnostic::on_unimplemented(
    message = "`{Self}` cannot be taken by a job on `{B}`",
    label = "not available on `{B}`"
)]
pub trait TakenOn<B> {}

#[diagnostic::do_not_recommend]
impl<B> TakenOn<B> for Context {}
#[diagnostic::do_not_recommend]
impl<B, T> TakenOn<B> for State<T> {}
#[diagnostic::do_not_recommend]
impl<B, T> TakenOn<B> for Data<T> {}

/// What a handler may return: `()`, or `Result<(), E>` with any error that boxes.
#[diagnostic::on_unimplemented(
    message = "a job cannot return `{Self}`",
    label = "return `()` or `Result<(), E>` where `E: Into<Box<dyn Error + Send + Sync>>`"
)]
pub trait Outcome: Send {
    #[doc(hidden)]
    fn into_result(self) -> HandlerResult;
}

impl Outcome for () {
    fn into_result(self) -> HandlerResult {
        Ok(())
    }
}

/// An error that a handler may return.
#[doc(hidden)]
#[diagnostic::on_unimplemented(
    message = "`{Self}` cannot be the error of a job",
    label = "implement `std::error::Error` for `{Self}`",
    note = "the error of a job is any `E: Into<Box<dyn Error + Send + Sync>>`"
)]
pub trait JobError: Into<BoxError> + Send {}

#[diagnostic::do_not_recommend]
impl<E: Into<BoxError> + Send> JobError for E {}

impl<E: JobError> Outcome for Result<(), E> {
    fn into_result(self) -> HandlerResult {
        self.map_err(Into::into)
    }
}

/// An `async fn` (or a closure returning a future) of 0 to 8 extractors.
#[diagnostic::on_unimplemented(
    message = "this cannot be a job's handler",
    label = "not an async function of extractors",
    note = "a handler is an `async fn` of up to 8 of `Context`, `State<T>`, `Data<T>` and `Finish<Db>` that returns `()` or `Result<(), E>`; its future must be `Send`"
)]
pub trait Handler<Args>: Send + Sync + 'static {
    #[doc(hidden)]
    fn call(&self, parts: &RunParts<'_>) -> HandlerFuture;
    #[doc(hidden)]
    fn needs() -> Vec<NeedOf>;
}

macro_rules! handler {
    ($($arg:ident)*) => {
        impl<Backend, $($arg: TakenOn<Backend>,)*> TakenOn<Backend> for ($($arg,)*) {}

        impl<Func, Fut, Out, $($arg,)*> Handler<($($arg,)*)> for Func
        where
            Func: Fn($($arg),*) -> Fut + Send + Sync + 'static,
            Fut: Future<Output = Out> + Send + 'static,
            Out: Outcome,
            $($arg: Extract,)*
        {
            #[allow(non_snake_case, unused_variables)]
            fn call(&self, parts: &RunParts<'_>) -> HandlerFuture {
                $(
                    let $arg = match $arg::extract(parts) {
                        Ok(value) => value,
                        Err(missing) => return Box::pin(async move { Err(missing) }),
                    };
                )*
                let future = self($($arg),*);
                Box::pin(async move { future.await.into_result() })
            }

            fn needs() -> Vec<NeedOf> {
                let needs: [Option<NeedOf>; _] = [$($arg::need()),*];
                needs.into_iter().flatten().collect()
            }
        }
    };
}

handler!();
handler!(A);
handler!(A B);
handler!(A B C);
handler!(A B C D);
handler!(A B C D E);
handler!(A B C D E G);
handler!(A B C D E G H);
handler!(A B C D E G H I);

/// A handler of any argument list behind a pointer.
#[derive(Clone)]
pub struct BoxHandler {
    call: Arc<dyn Fn(&RunParts<'_>) -> HandlerFuture + Send + Sync>,
    needs: Arc<[Need]>,
}

impl BoxHandler {
    /// Wraps a handler.
    pub fn new<Args, H: Handler<Args>>(handler: H) -> Self {
        Self::from_parts(H::needs(), move |parts| handler.call(parts))
    }

    pub(crate) fn from_parts(
        needs: impl IntoIterator<Item = NeedOf>,
        call: impl Fn(&RunParts<'_>) -> HandlerFuture + Send + Sync + 'static,
    ) -> Self {
        let needs: Vec<Need> = needs.into_iter().map(|need| need.0).collect();
        // Most handlers need nothing, and share that.
        let needs = if needs.is_empty() { Arc::default() } else { needs.into() };
        Self { call: Arc::new(call), needs }
    }

    pub(crate) fn call(&self, parts: &RunParts<'_>) -> HandlerFuture {
        (self.call)(parts)
    }

    pub(crate) fn needs(&self) -> &[Need] {
        &self.needs
    }
}

impl fmt::Debug for BoxHandler {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("BoxHandler").field("needs", &self.needs).finish_non_exhaustive()
    }
}
