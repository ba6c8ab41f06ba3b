//! Jobs that are made while the program runs: one for each tenant, added when a tenant comes and removed when it leaves.
//!
//! ```text
//! cargo run -p examples --example tenants
//! ```
//!
//! You will see `acme` and `globex` synchronised every second, then `acme` leave and `initech` come. It takes some 6
//! seconds and ends by itself. The store is the memory of the process; on a shared one every instance does the same, and
//! each slot of each tenant is run by one of them.

use std::collections::BTreeSet;

use anarchon::{BoxError, Context, Data, MemoryBackend, Overlap, Scheduler, State};
use tokio::sync::mpsc;

#[derive(Clone)]
struct Tenant(String);

async fn sync(ctx: Context, Data(tenant): Data<Tenant>, State(synced): State<mpsc::UnboundedSender<Tenant>>) {
    println!("{}  synchronised {}", ctx.slot().format("%H:%M:%S"), tenant.0);
    // Nobody listens any more when the program ends.
    let _ = synced.send(tenant);
}

/// Makes the jobs of this instance those of `tenants`. Call it at start, and whenever the tenants have changed.
async fn follow(scheduler: &Scheduler<MemoryBackend>, tenants: &BTreeSet<String>) -> Result<(), BoxError> {
    let jobs: BTreeSet<String> = scheduler.jobs().await?.into_iter().map(|job| job.name.to_string()).collect();
    let wanted: BTreeSet<String> = tenants.iter().map(|tenant| format!("sync-{tenant}")).collect();
    for gone in jobs.difference(&wanted) {
        // A run that goes on is let end, and its history is kept.
        scheduler.remove(gone).await?;
        println!("{gone} is removed");
    }
    for tenant in tenants {
        let name = format!("sync-{tenant}");
        if !jobs.contains(&name) {
            let job = scheduler.every(&name, "1s", sync).data(Tenant(tenant.clone()));
            job.jitter("200ms").overlap(Overlap::Skip).add().await?;
            println!("{name} is added");
        }
    }
    Ok(())
}

#[tokio::main]
async fn main() -> Result<(), BoxError> {
    let (sender, mut synced) = mpsc::unbounded_channel();
    let scheduler = Scheduler::builder(MemoryBackend::new()).state(sender).start().await?;

    for tenants in [["acme", "globex"], ["globex", "initech"]] {
        let tenants: BTreeSet<String> = tenants.map(str::to_owned).into();
        follow(&scheduler, &tenants).await?;
        for _ in 0..2 {
            let mut waited_for = tenants.clone();
            while !waited_for.is_empty() {
                let Tenant(name) = synced.recv().await.ok_or("the scheduler is gone")?;
                waited_for.remove(&name);
            }
        }
    }
    for job in scheduler.jobs().await? {
        println!("{} is left, {}", job.name, job.schedule);
    }
    scheduler.stop().await?;
    Ok(())
}
