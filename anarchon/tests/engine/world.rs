//! One store, one clock, and any number of instances.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use anarchon::testing::{FaultyBackend, ManualClock};
use anarchon::{AttemptRecord, Context, Event, MemoryBackend, Record, Scheduler, SchedulerBuilder};
use tokio::sync::broadcast::Receiver;

/// 2026-01-15T10:00:00Z, a Thursday.
pub const START: i64 = 1_768_471_200_000;

pub type Store = FaultyBackend<MemoryBackend>;

pub fn secs(s: u64) -> Duration {
    Duration::from_secs(s)
}

pub fn ms(ms: u64) -> Duration {
    Duration::from_millis(ms)
}

/// The time of `s` seconds after the start.
pub fn at(s: i64) -> i64 {
    START + s * 1000
}

pub struct World {
    pub clock: ManualClock,
    pub store: Store,
}

impl World {
    pub fn new() -> Self {
        let clock = ManualClock::new(START);
        let store = FaultyBackend::new(MemoryBackend::with_clock(Arc::new(clock.clone())));
        Self { clock, store }
    }

    /// A builder of an instance with a client of its own, and that client.
    pub fn builder(&self, name: &str) -> (SchedulerBuilder<Store>, Store) {
        let client = self.store.client();
        let builder = Scheduler::builder(client.clone())
            .clock(Arc::new(self.clock.clone()))
            .seed(7)
            .on_callers_runtime()
            .instance_id(name);
        (builder, client)
    }

    pub async fn instance(&self, name: &str) -> Instance {
        let (builder, client) = self.builder(name);
        Instance::of(builder, client).await
    }

    pub async fn advance(&self, by: Duration) {
        self.clock.advance(by).await;
    }
}

pub struct Instance {
    pub scheduler: Scheduler<Store>,
    pub client: Store,
    events: Mutex<Receiver<Event>>,
}

impl Instance {
    pub async fn of(builder: SchedulerBuilder<Store>, client: Store) -> Self {
        let scheduler = builder.start().await.unwrap();
        let events = Mutex::new(scheduler.events());
        Self { scheduler, client, events }
    }

    /// The events since the last call.
    pub fn events(&self) -> Vec<Event> {
        let mut receiver = self.events.lock().unwrap();
        let mut events = Vec::new();
        loop {
            match receiver.try_recv() {
                Ok(event) => events.push(event),
                Err(tokio::sync::broadcast::error::TryRecvError::Lagged(_)) => {}
                Err(_) => return events,
            }
        }
    }

    pub async fn attempts(&self, job: &str) -> Vec<AttemptRecord> {
        let records = self.scheduler.history(job, 10_000).await.unwrap();
        let mut attempts: Vec<AttemptRecord> = records
            .into_iter()
            .filter_map(|record| match record {
                Record::Attempt(attempt) => Some(attempt),
                _ => None,
            })
            .collect();
        attempts.reverse();
        attempts
    }
}

/// What handlers did: (instance, what, slot in s after the start, attempt, time in ms after the start).
#[derive(Clone, Default)]
pub struct Log(Arc<Mutex<Vec<Entry>>>);

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    pub instance: String,
    pub what: String,
    pub slot: i64,
    pub attempt: u32,
    pub at_ms: i64,
}

impl Log {
    pub fn add(&self, ctx: &Context, what: impl Into<String>, clock: &ManualClock) {
        use anarchon::Clock as _;
        let entry = Entry {
            instance: ctx.instance_id().to_string(),
            what: what.into(),
            slot: (ctx.slot_ms() - START) / 1000,
            attempt: ctx.attempt(),
            at_ms: clock.wall_ms() - START,
        };
        self.0.lock().unwrap().push(entry);
    }

    pub fn all(&self) -> Vec<Entry> {
        self.0.lock().unwrap().clone()
    }

    /// Entries of one kind.
    pub fn of(&self, what: &str) -> Vec<Entry> {
        self.all().into_iter().filter(|entry| entry.what == what).collect()
    }

    /// "a 10 #1" for each start.
    pub fn starts(&self) -> Vec<String> {
        self.of("start").iter().map(|e| format!("{} {} #{}", e.instance, e.slot, e.attempt)).collect()
    }
}

/// A handler that takes `work` of the clock's time, and says when it is told to stop.
pub fn work(
    world: &World,
    log: &Log,
    work: Duration,
) -> impl Fn(Context) -> futures_util::future::BoxFuture<'static, Result<(), String>> + Send + Sync + 'static {
    let (clock, log) = (world.clock.clone(), log.clone());
    move |ctx: Context| {
        let (clock, log) = (clock.clone(), log.clone());
        Box::pin(async move {
            use anarchon::Clock as _;
            log.add(&ctx, "start", &clock);
            let done = clock.sleep_until(clock.boot() + work);
            tokio::select! {
                biased;
                reason = ctx.cancelled() => {
                    log.add(&ctx, format!("cancelled: {reason}"), &clock);
                    Err(format!("cancelled: {reason}"))
                }
                () = done => {
                    log.add(&ctx, "end", &clock);
                    Ok(())
                }
            }
        })
    }
}
