//! The whole program that `anarchon::main!` writes: a runtime, signals, and an exit code.

use std::future::Future;
use std::process::ExitCode;
use std::sync::atomic::{AtomicBool, Ordering};

use super::Scheduler;
#[cfg(not(feature = "cli"))]
use super::SchedulerBuilder;
use crate::backend::{AnyBackend, AnyStrength, ClaimOnlyMemoryBackend, MemoryBackend};
use crate::error::{BoxError, Error};

/// Signals within this time of the first are the first, delivered again.
const ONE_WISH: std::time::Duration = std::time::Duration::from_millis(300);

/// What the expressions inside `anarchon::main!` may fail with.
pub type MainError = BoxError;

/// A backend that finds its store by itself: by the environment, or a default.
#[diagnostic::on_unimplemented(
    message = "`{Self}` cannot find its store by itself",
    label = "implement `FromEnv` for it, or give a value: `backend: {Self} = …`"
)]
pub trait FromEnv: AnyStrength + Sized {
    /// The backend for this environment. Nothing connects yet.
    ///
    /// # Errors
    /// When the environment names something that is no such store.
    fn from_env() -> Result<Self, Error>;
}

#[diagnostic::do_not_recommend]
impl FromEnv for MemoryBackend {
    fn from_env() -> Result<Self, Error> {
        Ok(Self::new())
    }
}

#[diagnostic::do_not_recommend]
impl FromEnv for ClaimOnlyMemoryBackend {
    fn from_env() -> Result<Self, Error> {
        Ok(Self::new())
    }
}

#[cfg(feature = "postgres")]
#[diagnostic::do_not_recommend]
impl FromEnv for crate::backend::PostgresBackend {
    fn from_env() -> Result<Self, Error> {
        Ok(Self::from_env())
    }
}

/// The store that `ANARCHON_STORE` names, or `./anarchon.db`.
#[diagnostic::do_not_recommend]
impl FromEnv for AnyBackend {
    fn from_env() -> Result<Self, Error> {
        match set("ANARCHON_STORE") {
            Some(url) => Self::connect(&url).map_err(|error| Error::Url(format!("ANARCHON_STORE: {error}"))),
            None => {
                let file = Self::connect("sqlite:./anarchon.db");
                local_default(std::env::var_os("KUBERNETES_SERVICE_HOST").is_some(), "ANARCHON_STORE", file)
            }
        }
    }
}

/// The file that `DATABASE_URL` names, or `./anarchon.db`.
#[cfg(feature = "sqlite")]
#[diagnostic::do_not_recommend]
impl FromEnv for crate::backend::SqliteBackend {
    fn from_env() -> Result<Self, Error> {
        match set("DATABASE_URL") {
            Some(url) if url.starts_with("sqlite:") || url.starts_with("file:") => Ok(Self::new(url)),
            Some(_) => Err(Error::Url("DATABASE_URL names no SQLite file; write `sqlite:/path/to/file.db`".to_owned())),
            None => local_default(
                std::env::var_os("KUBERNETES_SERVICE_HOST").is_some(),
                "DATABASE_URL",
                Ok(Self::default()),
            ),
        }
    }
}

/// The database that `DATABASE_URL` names.
#[cfg(feature = "mysql")]
#[diagnostic::do_not_recommend]
impl FromEnv for crate::backend::MySqlBackend {
    fn from_env() -> Result<Self, Error> {
        match set("DATABASE_URL") {
            Some(url) => Ok(Self::new(url)),
            None => Err(Error::Url("DATABASE_URL is not set; write `mysql://user:password@host/database`".to_owned())),
        }
    }
}

/// The database that `LIBSQL_URL` names, with the token in `LIBSQL_AUTH_TOKEN`, if there is one.
#[cfg(feature = "libsql")]
#[diagnostic::do_not_recommend]
impl FromEnv for crate::backend::LibsqlBackend {
    fn from_env() -> Result<Self, Error> {
        match set("LIBSQL_URL") {
            Some(url) => Self::open(&url).map_err(Error::Url),
            None => Err(Error::Url("LIBSQL_URL is not set; write `libsql://host` or `http://host:port`".to_owned())),
        }
    }
}

/// What a variable of the environment is set to, if that is more than blanks.
pub(crate) fn set(variable: &str) -> Option<String> {
    std::env::var(variable).ok().map(|value| value.trim().to_owned()).filter(|value| !value.is_empty())
}

fn local_default<B>(in_kubernetes: bool, variable: &str, file: Result<B, Error>) -> Result<B, Error> {
    if in_kubernetes {
        return Err(Error::Url(format!(
            "{variable} is not set, and under Kubernetes a file is no shared store: each pod would run every job; set it \
             to a store that all pods reach"
        )));
    }
    let file = file?;
    if !ONLY_ASKS.load(Ordering::Relaxed) {
        notice(&format!(
            "the store is the file ./anarchon.db, local to this machine; {variable} names another one, which instances on \
             other machines need"
        ));
    }
    Ok(file)
}

/// Whether this program was started for a look at its store and not to run jobs: then the hint would be in the way, over
/// every answer.
static ONLY_ASKS: AtomicBool = AtomicBool::new(false);

/// Called before the store is named.
#[cfg(feature = "cli")]
pub(crate) fn only_asks() {
    ONLY_ASKS.store(true, Ordering::Relaxed);
}

/// A line for whoever started the program: to the log, or to standard error when nobody listens to the log.
fn notice(line: &str) {
    if tracing::dispatcher::has_been_set() {
        tracing::warn!("{line}");
    } else {
        eprintln!("anarchon: {line}");
    }
}

/// Runs the program: starts the scheduler that `build` gives, and stops it on Ctrl-C or SIGTERM; a second signal exits
/// at once.
#[cfg(not(feature = "cli"))]
pub fn run_main<B, F>(build: F) -> ExitCode
where
    F: Future<Output = Result<SchedulerBuilder<B>, MainError>>,
{
    on_runtime(async {
        let started = async { build.await.map_err(|error| describe(&*error))?.start().await.map_err(|e| describe(&e)) };
        let outcome = async { run_until_signal(&started.await?).await };
        outcome.await.map_or_else(|message: String| fail(&message), |()| ExitCode::SUCCESS)
    })
}

/// Runs the whole of a program on a runtime of its own.
pub(crate) fn on_runtime(program: impl Future<Output = ExitCode>) -> ExitCode {
    let runtime = match tokio::runtime::Builder::new_multi_thread().enable_all().build() {
        Ok(runtime) => runtime,
        Err(error) => return fail(&format!("the tokio runtime cannot start: {error}")),
    };
    let code = runtime.block_on(program);
    // Handlers that block a thread would hold the runtime's drop back for ever; stop() has named them.
    runtime.shutdown_background();
    code
}

/// Lets a scheduler run until the first signal, and stops it then; a second one ends the wait.
pub(crate) async fn run_until_signal<B>(scheduler: &Scheduler<B>) -> Result<(), String> {
    let mut signals = Signals::new().map_err(|error| format!("signals cannot be received: {error}"))?;
    signals.next().await;
    let first = std::time::Instant::now();
    let second = async {
        // Whoever signals a process and its group sends one wish twice.
        loop {
            signals.next().await;
            if first.elapsed() > ONE_WISH {
                return;
            }
        }
    };
    tokio::select! {
        stopped = scheduler.stop() => stopped.map_err(|error| describe(&error)),
        () = second => Err("stopped at once by a second signal".to_owned()),
    }
}

pub(crate) fn fail(message: &str) -> ExitCode {
    eprintln!("anarchon: {message}");
    ExitCode::FAILURE
}

/// An error with its causes, on one line.
pub(crate) fn describe(error: &(dyn std::error::Error + 'static)) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        let next = error.to_string();
        if !text.contains(&next) {
            text.push_str(": ");
            text.push_str(&next);
        }
        cause = error.source();
    }
    text
}

#[cfg(unix)]
pub(crate) struct Signals {
    interrupt: tokio::signal::unix::Signal,
    terminate: tokio::signal::unix::Signal,
}

#[cfg(unix)]
impl Signals {
    pub(crate) fn new() -> std::io::Result<Self> {
        use tokio::signal::unix::{SignalKind, signal};
        Ok(Self { interrupt: signal(SignalKind::interrupt())?, terminate: signal(SignalKind::terminate())? })
    }

    pub(crate) async fn next(&mut self) {
        tokio::select! {
            _ = self.interrupt.recv() => {}
            _ = self.terminate.recv() => {}
        }
    }
}

#[cfg(not(unix))]
pub(crate) struct Signals;

#[cfg(not(unix))]
impl Signals {
    pub(crate) fn new() -> std::io::Result<Self> {
        Ok(Self)
    }

    pub(crate) async fn next(&mut self) {
        if tokio::signal::ctrl_c().await.is_err() {
            std::future::pending::<()>().await;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_is_no_store_for_pods_and_its_variable_is_named() {
        let error = local_default(true, "DATABASE_URL", Ok(())).unwrap_err().to_string();
        assert!(error.contains("DATABASE_URL") && error.contains("Kubernetes"), "{error}");
        assert!(local_default(false, "DATABASE_URL", Ok(())).is_ok());
    }

    #[cfg(feature = "sqlite")]
    #[test]
    fn each_store_of_this_crate_finds_itself() {
        fn finds_itself<B: FromEnv>() {}
        finds_itself::<crate::backend::SqliteBackend>();
        finds_itself::<AnyBackend>();
    }
}
