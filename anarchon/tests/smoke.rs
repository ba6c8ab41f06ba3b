//! Smoke.
use anarchon::{Context, MemoryBackend, Scheduler};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

#[tokio::test]
async fn three_instances_run_each_slot_once() {
    let store = MemoryBackend::new();
    let count = Arc::new(AtomicUsize::new(0));
    let mut all = Vec::new();
    for name in ["a", "b", "c"] {
        let s = Scheduler::builder(store.clone()).instance_id(name).start().await.unwrap();
        let count = count.clone();
        s.every("tick", "200ms", move |ctx: Context| {
            let count = count.clone();
            async move {
                println!("{} {} {}", ctx.slot(), ctx.instance_id(), ctx.reason());
                count.fetch_add(1, Ordering::SeqCst);
            }
        })
        .add()
        .await
        .unwrap();
        all.push(s);
    }
    let run = all[0].run_now("tick").await.unwrap();
    println!("{:?}", run.finished().await);
    tokio::time::sleep(std::time::Duration::from_secs(2)).await;
    for s in &all {
        s.stop().await.unwrap();
    }
    println!("{}", count.load(Ordering::SeqCst));
    assert!(all[0].history("tick", 100).await.is_err());
}
