use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use anarchon::testing::{Fault, Verb};
use anarchon::{MemoryBackend, Overlap, Scheduler};
use futures_util::StreamExt as _;

use crate::world::{World, ms, secs};

#[tokio::test]
async fn a_hundred_thousand_jobs_are_fine() {
    let world = World::new();
    let a = world.instance("a").await;
    let ran = Arc::new(AtomicU64::new(0));
    futures_util::stream::iter(0..100_000)
        .for_each_concurrent(1000, |job| {
            let ran = ran.clone();
            let scheduler = a.scheduler.clone();
            async move {
                let handler = move || {
                    ran.fetch_add(1, Ordering::Relaxed);
                    async {}
                };
                scheduler.cron(format!("job {job}"), "0 * * * *", handler).jitter("0s").add().await.unwrap();
            }
        })
        .await;
    assert!(a.client.calls(Verb::Register) < 5000, "{}", a.client.calls(Verb::Register));
    world.advance(secs(3590)).await;
    assert_eq!(ran.load(Ordering::Relaxed), 0);
    world.advance(secs(10)).await;
    // A step of the manual clock gives other tasks a number of turns, not as many as they like.
    for _ in 0..10_000 {
        if ran.load(Ordering::Relaxed) == 100_000 {
            break;
        }
        world.advance(ms(1)).await;
    }
    assert_eq!(ran.load(Ordering::Relaxed), 100_000);
    assert_eq!(a.client.calls(Verb::Claim), 100_000_u64.div_ceil(512));
}

#[tokio::test(flavor = "current_thread")]
async fn a_handler_that_blocks_its_thread_for_several_leases_keeps_them() {
    let store = MemoryBackend::new();
    let backup = Scheduler::builder(store.clone()).lease("1s").instance_id("backup").start().await.unwrap();
    let runner = Scheduler::builder(store).lease("1s").instance_id("runner").start().await.unwrap();
    let starts = Arc::new(AtomicU64::new(0));
    let blocking = |starts: Arc<AtomicU64>| {
        move || {
            let starts = starts.clone();
            async move {
                starts.fetch_add(1, Ordering::SeqCst);
                std::thread::sleep(secs(4));
            }
        }
    };
    runner.every("job", "1h", blocking(starts.clone())).overlap(Overlap::Skip).add().await.unwrap();
    backup.every("job", "1h", blocking(starts.clone())).add().await.unwrap();
    // Both schedulers share this one thread for their handlers; it is blocked for four leases.
    let run = runner.run_now_exclusive("job").await.unwrap();
    assert_eq!(run.finished().await.unwrap().as_str(), "done");
    assert_eq!(starts.load(Ordering::SeqCst), 1);
    runner.stop().await.unwrap();
    backup.stop().await.unwrap();
}

#[tokio::test]
async fn a_large_instance_trims_in_small_batches() {
    let world = World::new();
    let a = world.instance("a").await;
    for job in 0..1000 {
        a.scheduler.every(format!("job {job}"), "1h", async || {}).jitter("0s").add().await.unwrap();
    }
    world.advance(secs(3700)).await;
    let sizes = a.client.sizes(Verb::Trim);
    assert_eq!(sizes.iter().sum::<usize>(), 1000, "{sizes:?}");
    assert!(sizes.iter().all(|size| *size <= 200), "{sizes:?}");
}

#[tokio::test]
async fn runs_that_end_together_are_recorded_in_one_call() {
    let world = World::new();
    let a = world.instance("a").await;
    for job in 0..1000 {
        a.scheduler.every(format!("job {job}"), "1h", async || {}).jitter("0s").add().await.unwrap();
    }
    world.advance(secs(3600)).await;
    for _ in 0..1000 {
        if a.client.sizes(Verb::Finish).iter().sum::<usize>() == 1000 {
            break;
        }
        world.advance(ms(1)).await;
    }
    let sizes = a.client.sizes(Verb::Finish);
    assert_eq!(sizes.iter().sum::<usize>(), 1000, "{sizes:?}");
    assert!(sizes.len() <= 3, "{sizes:?}");
}

#[tokio::test]
async fn ends_wait_for_slots_that_are_to_be_claimed_but_not_for_long() {
    let world = World::new();
    let a = world.instance("a").await;
    for job in 0..1200 {
        a.scheduler.every(format!("job {job}"), "1h", async || {}).jitter("0s").add().await.unwrap();
    }
    a.client.fail_each(Verb::Claim, Some(Fault::HoldReply));
    world.advance(secs(3600)).await;
    assert_eq!(a.client.sizes(Verb::Claim), [512, 512], "the others wait for a free call");
    let run = a.scheduler.run_now("job 0").await.unwrap();
    world.advance(ms(20)).await;
    assert_eq!(a.client.calls(Verb::Finish), 0, "slots come first");
    world.advance(ms(50)).await;
    assert_eq!(a.client.calls(Verb::Finish), 1, "but a store that is slow does not hold ends back");
    run.finished().await.unwrap();
}
