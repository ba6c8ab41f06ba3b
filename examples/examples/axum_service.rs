//! A scheduler inside a web service: jobs and requests share the program and its state, `/ready` tells how the scheduler is
//! doing, and SIGTERM or Ctrl-C ends all of it in order.
//!
//! ```text
//! cargo run -p examples --example axum_service [ADDRESS]
//! curl http://127.0.0.1:3000/ready
//! ```
//!
//! You will see a job run every 4 seconds while the service answers `/` (the latest count), `/ready` (200 as long as the
//! scheduler does its work, 503 when it does not, so that no requests come) and `/live` (503 only when starting anew would
//! help). ADDRESS is 127.0.0.1:3000 if it is not given. It runs until it is told to stop: first it takes no new runs, and
//! hands over those that go on, then it lets requests end, and it exits with 0.
//!
//! The store is what `ANARCHON_STORE` names, such as `sqlite:./jobs.db`, else the memory of the process.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use anarchon::{AnyBackend, BoxError, Context, EngineState, Scheduler, State};
use axum::extract::State as Shared;
use axum::http::StatusCode;
use axum::routing::{Router, get};

/// What jobs and requests share.
#[derive(Clone, Default)]
struct App(Arc<AtomicU64>);

#[anarchon::job(every = "4s")]
async fn count(ctx: Context, State(app): State<App>) -> Result<(), BoxError> {
    let time = ctx.slot().format("%H:%M:%S");
    println!("{time}  attempt {} counts", ctx.attempt());
    tokio::select! {
        () = tokio::time::sleep(Duration::from_secs(3)) => {}
        why = ctx.cancelled() => {
            println!("{time}  ends early: {why}");
            return Err("told to end".into()); // and another instance starts the same slot
        }
    }
    app.0.fetch_add(1, Ordering::Relaxed);
    println!("{time}  has counted");
    Ok(())
}

#[derive(Clone)]
struct Service {
    app: App,
    scheduler: Scheduler<AnyBackend>,
}

async fn latest(Shared(service): Shared<Service>) -> String {
    format!("counted {} times\n", service.app.0.load(Ordering::Relaxed))
}

/// Asks the store nothing, so it may be called as often as anybody likes.
async fn ready(Shared(service): Shared<Service>) -> (StatusCode, String) {
    let health = service.scheduler.health();
    let text = format!(
        "{:?}, {} jobs, {} runs, {} leases, {} slots missed\n",
        health.engine, health.jobs, health.runs, health.leases, health.slots_missed
    );
    (if health.is_healthy() { StatusCode::OK } else { StatusCode::SERVICE_UNAVAILABLE }, text)
}

/// A store that is down is no reason to start this process anew.
async fn live(Shared(service): Shared<Service>) -> StatusCode {
    match service.scheduler.health().engine {
        EngineState::Stalled | EngineState::Dead => StatusCode::SERVICE_UNAVAILABLE,
        _ => StatusCode::OK,
    }
}

#[tokio::main]
async fn main() -> Result<(), BoxError> {
    let address = std::env::args().nth(1).unwrap_or_else(|| "127.0.0.1:3000".to_owned());
    let listener = tokio::net::TcpListener::bind(&address).await?;
    let store = std::env::var("ANARCHON_STORE").unwrap_or_else(|_| "memory:".to_owned());
    let app = App::default();
    let scheduler =
        Scheduler::builder(AnyBackend::connect(&store)?).state(app.clone()).registered().watch("500ms").start().await?;
    println!("listens on http://{}", listener.local_addr()?);

    let routes = Router::new().route("/", get(latest)).route("/ready", get(ready)).route("/live", get(live));
    let routes = routes.with_state(Service { app, scheduler: scheduler.clone() });
    let stopping = async move {
        match examples::told_to_stop().await {
            Ok(()) => println!("told to stop"),
            Err(error) => eprintln!("axum_service: signals cannot be received: {error}"),
        }
        // Requests are still answered meanwhile, and `/ready` sends new ones elsewhere.
        match scheduler.stop().await {
            Ok(()) => println!("the scheduler has stopped"),
            Err(error) => eprintln!("axum_service: {error}"),
        }
    };
    axum::serve(listener, routes).with_graceful_shutdown(stopping).await?;
    println!("the service has stopped");
    Ok(())
}
