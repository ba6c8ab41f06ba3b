//! A cheap job that runs often, and is worth nothing when it comes late: `jitter` spreads it over the instances, and with a
//! short `max_late` and no `catch_up` a slot that was missed stays missed.
//!
//! ```text
//! cargo run -p examples --example cache_refresh
//! ```
//!
//! You will see three instances, in one process and on a store in its memory, refresh one cache every second, each slot by
//! one of them. Then the process hangs for a while. When it goes on, the slots of that time are missed, and the next one
//! is run. It takes some 8 seconds and ends by itself.

use std::time::Duration;

use anarchon::{BoxError, Context, Event, MemoryBackend, Scheduler, State};
use chrono::Utc;
use examples::clock;
use tokio::sync::watch;

anarchon::backend!(MemoryBackend);

/// The cache. Of what would be in it only the slots are kept at which it was refreshed; who waits for the next is woken.
type Cache = watch::Sender<Vec<i64>>;

#[anarchon::job(every = "1s", jitter = "300ms", max_late = "500ms", catch_up = "0s")]
async fn refresh(ctx: Context, State(cache): State<Cache>) {
    cache.send_modify(|slots| slots.push(ctx.slot_ms()));
    let late = (Utc::now() - ctx.slot()).num_milliseconds();
    println!("{}  refreshed by {}, {late} ms after its time", ctx.slot().format("%H:%M:%S"), ctx.instance_id());
}

// One thread for all handlers: whoever blocks it makes the whole process hang.
#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), BoxError> {
    let cache = Cache::default();
    let store = MemoryBackend::new();
    let mut instances = Vec::new();
    for name in ["a", "b", "c"] {
        let builder = Scheduler::builder(store.clone()).instance_id(name).state(cache.clone());
        instances.push(builder.registered().start().await?);
    }
    let Some(first) = instances.first() else { return Ok(()) };
    let mut events = first.events();

    let mut refreshed = cache.subscribe();
    let latest = refreshed.wait_for(|slots| slots.len() >= 3).await?.last().copied();
    println!("{}  the process hangs for 2.5 s", Utc::now().format("%H:%M:%S"));
    std::thread::sleep(Duration::from_millis(2500));

    // An instance claims nothing that it could not run at once, so nobody has won the slots of that time. (It may also
    // have missed a slot that another one was in time for.)
    loop {
        match events.recv().await? {
            Event::Missed { slot, .. } if Some(slot.ms()) > latest => {
                println!("{}  missed: this late it is not worth a run", clock(slot));
                break;
            }
            _ => {}
        }
    }
    let before = refreshed.borrow_and_update().len();
    refreshed.wait_for(|slots| slots.len() > before).await?;
    for instance in instances {
        instance.stop().await?;
    }
    Ok(())
}
