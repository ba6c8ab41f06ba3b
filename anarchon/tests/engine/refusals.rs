use anarchon::{ClaimOnlyMemoryBackend, Data, Error, MemoryBackend, Scheduler, State, interval};

use crate::world::{Log, World, ms, secs, work};

#[derive(Clone)]
struct Database;

async fn with_state(_: State<Database>) {}
async fn with_data(_: Data<u32>) {}
async fn plain() {}

#[tokio::test]
async fn what_a_handler_takes_and_was_not_given_is_refused_when_the_job_is_added() {
    let world = World::new();
    let a = world.instance("a").await;
    let error = a.scheduler.every("job", "1s", with_state).add().await.unwrap_err();
    assert!(matches!(&error, Error::MissingState { job, .. } if job.as_str() == "job"));
    assert!(error.to_string().contains("Database") && error.to_string().contains("refusals.rs:"), "{error}");
    let error = a.scheduler.every("job", "1s", with_data).add().await.unwrap_err();
    assert!(error.to_string().contains("no data"), "{error}");
    let error = a.scheduler.every("job", "1s", with_data).data("text").add().await.unwrap_err();
    assert!(error.to_string().contains("data of another type"), "{error}");
    a.scheduler.every("job", "1s", with_data).data(7_u32).add().await.unwrap();
}

#[tokio::test]
async fn two_jobs_of_one_name_are_refused_naming_both_places() {
    let world = World::new();
    let a = world.instance("a").await;
    a.scheduler.every("job", "1s", plain).add().await.unwrap();
    let error = a.scheduler.every("job", "2s", plain).add().await.unwrap_err().to_string();
    assert_eq!(error.matches("refusals.rs:").count(), 2, "{error}");
    let (x, y) =
        tokio::join!(a.scheduler.every("twin", "1s", plain).add(), a.scheduler.every("twin", "1s", plain).add(),);
    assert!(x.is_ok() != y.is_ok());
}

#[tokio::test]
async fn bad_input_is_a_clear_error_and_nothing_is_added() {
    let world = World::new();
    let a = world.instance("a").await;
    let s = &a.scheduler;
    let errors = [
        s.every("", "1s", plain).add().await,
        s.every(" x", "1s", plain).add().await,
        s.every("x\0", "1s", plain).add().await,
        s.every("x".repeat(129), "1s", plain).add().await,
        s.every("x", "10x", plain).add().await,
        s.every("x", "0s", plain).add().await,
        s.every("x", "99ms", plain).add().await,
        s.every("x", "68888888888888s", plain).add().await,
        s.every("x", "10s", plain).offset("10s").add().await,
        s.every("x", "10s", plain).jitter("10s").add().await,
        s.cron("x", "* * * * *", plain).jitter("1m").add().await,
        s.cron("x", "0 0 30 2 *", plain).add().await,
        s.cron("x", "*/61 * * * *", plain).add().await,
        s.cron("x", "0 8 * * *", plain).timezone("Europe/Pari").add().await,
        s.at("x", "2027-13-01T00:00:00", plain).add().await,
        s.at("x", "2027-01-01T00:00:00Z", plain).timezone("Europe/Paris").add().await,
        s.every("x", "1s", plain).max_attempts(0).add().await,
        s.every("x", "1s", plain).history_size(0).add().await,
        s.every("x", "1s", plain).timeout("0s").add().await,
        s.every("x", "1s", plain).retry_failed("0s").add().await,
    ];
    for (n, result) in errors.into_iter().enumerate() {
        let error = result.expect_err(&format!("number {n}")).to_string();
        assert!(!error.is_empty() && !error.ends_with('.'), "{error}");
    }
    assert!(s.jobs().await.unwrap().is_empty());
}

#[tokio::test]
async fn schedulers_options_out_of_bounds_are_refused() {
    let builder = || Scheduler::builder(MemoryBackend::new());
    for (error, option) in [
        (builder().lease("999ms").start().await.unwrap_err(), "lease"),
        (builder().lease("9s").heartbeat("3001ms").start().await.unwrap_err(), "heartbeat"),
        (builder().watch("1ms").start().await.unwrap_err(), "watch"),
        (builder().timezone("Mars/Olympus").start().await.unwrap_err(), "timezone"),
        (builder().stop_grace("soon").start().await.unwrap_err(), "stop_grace"),
        (builder().forget_after("1h").start().await.unwrap_err(), "forget_after"),
    ] {
        assert!(error.to_string().contains(option), "{error}");
    }
    assert!(matches!(builder().instance_id(" ").start().await, Err(Error::InstanceId { .. })));
    assert!(matches!(builder().registered().start().await, Err(Error::NoJobs)));
}

#[test]
fn start_outside_a_runtime_is_an_error_and_no_panic() {
    let start = Scheduler::builder(MemoryBackend::new()).start();
    let mut start = std::pin::pin!(start);
    let mut context = std::task::Context::from_waker(std::task::Waker::noop());
    match start.as_mut().poll(&mut context) {
        std::task::Poll::Ready(result) => assert!(matches!(result, Err(Error::NoRuntime))),
        std::task::Poll::Pending => panic!("it waits"),
    }
}

#[tokio::test]
async fn a_claim_only_store_refuses_what_outlasts_its_memory() {
    let store = ClaimOnlyMemoryBackend::new().with_window(std::time::Duration::from_secs(60));
    let s = Scheduler::builder(store).start().await.unwrap();
    let error = s.every("job", "1h", plain).add().await.unwrap_err().to_string();
    assert!(error.contains("1m") && error.contains("memory:claim-only"), "{error}");
    s.every("job", "1h", plain).max_late("30s").add().await.unwrap();
    s.stop().await.unwrap();
    assert_eq!(interval::format(std::time::Duration::from_secs(60)), "1m");
}

#[tokio::test]
async fn a_duration_without_end_is_refused_and_stops_no_engine() {
    let (world, log) = (World::new(), Log::default());
    let a = world.instance("a").await;
    let forever = std::time::Duration::MAX;
    let refused = [
        a.scheduler.every("x", "1s", async || {}).timeout(forever).add().await,
        a.scheduler.every("x", "1s", async || {}).max_late(forever).add().await,
        a.scheduler.every("x", "1s", async || {}).takeover_within(forever).add().await,
        a.scheduler.every("x", forever, async || {}).add().await,
    ];
    for error in refused {
        assert!(error.unwrap_err().to_string().contains("too long"));
    }
    let century = "36525d";
    a.scheduler
        .every("job", "1s", work(&world, &log, ms(0)))
        .timeout(century)
        .max_late(century)
        .catch_up(century)
        .takeover_within(century)
        .retry_failed(century)
        .add()
        .await
        .unwrap();
    a.scheduler.at("once", "2026-01-15T10:00:01", work(&world, &log, ms(0))).jitter(century).add().await.unwrap();
    world.advance(secs(3)).await;
    assert_eq!(log.starts().len(), 2);
}
