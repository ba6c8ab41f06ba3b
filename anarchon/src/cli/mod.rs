//! The command line of a program with jobs: `anarchon::main!` programs have it, and [`run`] gives it to an application
//! with a `main` of its own. [`guide::cli`](crate::guide::cli) shows each command with its output.
//!
//! | command | what it does |
//! |---|---|
//! | `run` | runs the jobs until Ctrl-C or SIGTERM; what a program without arguments does |
//! | `jobs` | lists the jobs: schedule, next slots, last run, where one is running |
//! | `next JOB` | the next slots |
//! | `history JOB` | the latest attempts and skipped slots, of all instances |
//! | `why JOB SLOT` | what became of one slot |
//! | `run-now JOB` | runs a job here and now, and waits for its end |
//! | `pause JOB`, `resume JOB` | pauses a job on all instances, and ends that |
//! | `check` | connects and looks for trouble: clocks, instances that disagree |
//!
//! With `--json` each prints one JSON document. The exit code is 0 when all is well, 1 when the command failed or the
//! store cannot be reached, 2 for arguments that cannot be understood, 3 when `check` found trouble, and 4 when there is no
//! job of that name.
//!
//! Commands that only read make nothing, register nothing and claim nothing: they connect to the store and to nothing
//! else. What the log says goes to standard error, by `RUST_LOG` (default: `info` for `run`, `warn` for the others), unless
//! the application has installed a subscriber of its own.

mod act;
mod args;
mod check;
mod history;
mod jobs;
mod json;
mod log;
mod next;
mod output;
mod reader;
mod table;
mod text;
mod why;

use std::ffi::OsString;
use std::process::ExitCode;

use self::args::{Asked, Command};
use self::output::{Failure, Output};
use crate::backend::AnyStrength;
use crate::scheduler::SchedulerBuilder;
use crate::scheduler::entry::{self, MainError, describe};

/// Does what the arguments of this process ask for, with the scheduler that `builder` describes; without arguments, runs
/// it until Ctrl-C or SIGTERM. Never ends the process: the exit code is for `main` to return.
///
/// Jobs are those that the builder knows, so `.registered()` belongs to it. Must be called inside a tokio runtime.
///
/// ```no_run
/// use std::process::ExitCode;
/// use anarchon::{Scheduler, SqliteBackend};
///
/// #[anarchon::job(every = "1h")]
/// async fn export() {}
///
/// #[tokio::main]
/// async fn main() -> ExitCode {
///     anarchon::cli::run(Scheduler::builder(SqliteBackend::new("./jobs.db")).registered()).await
/// }
/// ```
pub async fn run<B: AnyStrength>(builder: SchedulerBuilder<B>) -> ExitCode {
    run_from(builder, std::env::args_os()).await
}

/// Like [`run`], with these arguments; the first is the name of the program.
///
/// ```
/// # #[tokio::main(flavor = "current_thread")] async fn main() {
/// use std::process::ExitCode;
/// use anarchon::{MemoryBackend, Scheduler};
///
/// let builder = || Scheduler::builder(MemoryBackend::new());
/// assert_eq!(anarchon::cli::run_from(builder(), ["billing", "check"]).await, ExitCode::SUCCESS);
/// // Nobody has heard of this job.
/// assert_eq!(anarchon::cli::run_from(builder(), ["billing", "next", "export"]).await, ExitCode::from(4));
/// # }
/// ```
pub async fn run_from<B, I, T>(builder: SchedulerBuilder<B>, args: I) -> ExitCode
where
    B: AnyStrength,
    I: IntoIterator<Item = T>,
    T: Into<OsString> + Clone,
{
    match args::parse(args) {
        Ok(asked) => dispatch(builder, asked).await,
        Err(said) => said.print(),
    }
}

/// The program that `anarchon::main!` writes.
#[doc(hidden)]
pub fn run_main<B, F>(build: F) -> ExitCode
where
    B: AnyStrength,
    F: Future<Output = Result<SchedulerBuilder<B>, MainError>>,
{
    // Before anything is built: help needs no store.
    let asked = match args::parse(std::env::args_os()) {
        Ok(asked) => asked,
        Err(said) => return said.print(),
    };
    if !matches!(asked.command, Command::Run) {
        entry::only_asks();
    }
    entry::on_runtime(async {
        match build.await {
            Ok(builder) => dispatch(builder, asked).await,
            Err(error) => Failure::Failed(describe(&*error)).print(asked.json),
        }
    })
}

async fn dispatch<B: AnyStrength>(builder: SchedulerBuilder<B>, asked: Asked) -> ExitCode {
    let json = asked.json;
    // Not before the application had its turn to install a subscriber.
    log::install(if matches!(asked.command, Command::Run) { "info" } else { "warn" });
    match perform(builder, asked.command).await {
        Ok(output) => output.print(json),
        Err(failure) => failure.print(json),
    }
}

async fn perform<B: AnyStrength>(builder: SchedulerBuilder<B>, command: Command) -> Result<Output, Failure> {
    match command {
        Command::Run => act::run(builder).await,
        Command::RunNow { job } => act::run_now(builder, &job).await,
        Command::Pause { job, note } => act::pause(builder, &job, &note).await,
        Command::Resume { job } => act::resume(builder, &job).await,
        reading => {
            let look = builder.look().await?;
            let output = match reading {
                Command::Next { job, count } => next::next(&look, &job, count),
                Command::History { job, count } => history::history(&look, &job, count).await,
                Command::Why { job, slot } => why::why(&look, &job, slot).await,
                Command::Check => check::check(&look).await,
                _ => jobs::jobs(&look).await,
            };
            look.close().await;
            output
        }
    }
}
