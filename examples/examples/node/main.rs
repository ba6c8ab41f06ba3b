//! One instance of a service, with the jobs of a TOML file on any store: for trying things by hand, and for tests that
//! need real processes to kill, freeze and stop. See `node --help`.

mod args;
mod backend;
mod jobs;
mod log;
mod os;
mod work;

use std::io::Read as _;
use std::process::ExitCode;

use anarchon::{AnyBackend, AnyClaimBackend, ClaimOnlyMemoryBackend, Scheduler};

use crate::args::{Args, HELP};
use crate::backend::NodeBackend;
use crate::jobs::{JobTable, add_job, read_jobs};
use crate::log::{Log, log_events};

/// Errors of this program are texts for whoever started it.
type Fallible<T> = Result<T, String>;

fn main() -> ExitCode {
    let args = match Args::parse(std::env::args().skip(1)) {
        Ok(Some(args)) => args,
        Ok(None) => {
            print!("{HELP}");
            return ExitCode::SUCCESS;
        }
        Err(message) => return fail(&message),
    };
    let level = if args.verbose {
        tracing_subscriber::filter::LevelFilter::DEBUG
    } else {
        tracing_subscriber::filter::LevelFilter::WARN
    };
    tracing_subscriber::fmt().with_max_level(level).with_ansi(false).with_writer(std::io::stderr).init();
    match run(args) {
        Ok(()) => ExitCode::SUCCESS,
        Err(message) => fail(&message),
    }
}

fn fail(message: &str) -> ExitCode {
    eprintln!("node: {message}");
    ExitCode::FAILURE
}

fn run(args: Args) -> Fallible<()> {
    let jobs = read_jobs(&args.jobs)?;
    let log = Log::open(&args.log, &args.instance)?;
    if args.with_stdin {
        std::thread::spawn(|| {
            let _ = std::io::stdin().read_to_end(&mut Vec::new());
            std::process::exit(2);
        });
    }
    let mut runtime = match args.current_thread {
        true => tokio::runtime::Builder::new_current_thread(),
        false => tokio::runtime::Builder::new_multi_thread(),
    };
    if let Some(threads) = args.worker_threads.filter(|_| !args.current_thread) {
        runtime.worker_threads(threads);
    }
    let runtime = runtime.enable_all().build().map_err(|e| format!("no tokio runtime: {e}"))?;
    let outcome = runtime.block_on(async {
        if args.store.starts_with("memory-claims:") {
            serve(AnyClaimBackend::new(ClaimOnlyMemoryBackend::new()), &args, jobs, &log).await
        } else {
            match AnyBackend::connect(&args.store) {
                Ok(backend) => serve(backend, &args, jobs, &log).await,
                // A claim-only store; any other error is the same for both, or worse for this one.
                Err(error) => match AnyClaimBackend::connect(&args.store) {
                    Ok(backend) => serve(backend, &args, jobs, &log).await,
                    Err(_) => Err(describe(&error)),
                },
            }
        }
    });
    // A handler that blocks its thread would hold the runtime back for as long as it likes.
    runtime.shutdown_background();
    outcome
}

async fn serve<B: NodeBackend>(backend: B, args: &Args, jobs: Vec<JobTable>, log: &Log) -> Fallible<()> {
    let text = |error: anarchon::Error| describe(&error);
    let mut signals = os::Signals::new().map_err(|e| format!("no signals: {e}"))?;

    let builder = Scheduler::builder(backend).instance_id(&args.instance).state(log.clone());
    let builder = match &args.stop_grace {
        Some(grace) => builder.stop_grace(grace.as_str()),
        None => builder,
    };
    let scheduler = B::lease_settings(builder, args)?.start().await.map_err(text)?;
    let events = log_events(&scheduler, log.clone())?;
    let added = async {
        for job in jobs {
            add_job(&scheduler, job).await?;
        }
        Ok(())
    };
    if let Err(message) = added.await {
        let _ = scheduler.stop().await;
        return Err(message);
    }

    log.process("ready");
    println!("ready");
    signals.next().await;
    log.process("stopping");
    let stopped = scheduler.stop().await.map_err(text);
    drop(scheduler);
    // The engine is gone, so its events have an end.
    let _ = tokio::task::spawn_blocking(move || events.join()).await;
    log.process("stopped");
    stopped
}

/// An error with its causes, on one line.
fn describe(error: &(dyn std::error::Error + 'static)) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        let next = error.to_string();
        if !text.contains(&next) {
            text = format!("{text}: {next}");
        }
        cause = error.source();
    }
    text
}
