//! The store does not answer for a while: another program holds the write lock of the file.

use sqlx::{Connection as _, Executor as _, SqliteConnection};
use tests::check::{each_once, grid, never_two_at_once, no_attempt_twice};
use tests::{Lab, NodeOptions, wall_ms};

use super::every_second;

/// Locks the file for writing, as a careless transaction of the application would.
struct Locked {
    runtime: tokio::runtime::Runtime,
    connection: SqliteConnection,
}

impl Locked {
    fn lock(url: &str) -> Self {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
        let connection = runtime.block_on(async {
            let mut connection = SqliteConnection::connect(url).await.expect("the file is there");
            // The processes write all the time: try until it is free.
            connection.execute("PRAGMA busy_timeout = 10000").await.expect("a pragma");
            connection.execute("BEGIN IMMEDIATE").await.expect("the lock");
            connection
        });
        Self { runtime, connection }
    }

    fn unlock(mut self) {
        self.runtime.block_on(async {
            self.connection.execute("ROLLBACK").await.expect("the end of the transaction");
            self.connection.close().await.expect("a close");
        });
    }
}

#[test]
fn slots_that_fall_due_while_the_file_is_locked_are_run_once_when_it_is_free() {
    let lab = Lab::sqlite();
    let jobs = every_second("tick", "none", "overlap = \"allow\"");
    // A call may take as long as heartbeats are apart: 2 s. What runs when the lock comes keeps its lease beyond it.
    let mut nodes = lab.start_all(["a", "b", "c"], &jobs, &NodeOptions::default().set("--lease", "6s"));
    let from = wall_ms();
    lab.wait_start("tick", 1);
    let locked = Locked::lock(&lab.url());
    lab.wait_line("trouble", |line| line.event == "store-trouble");
    lab.wait_until_ms(wall_ms() + 1000);
    locked.unlock();
    lab.wait_line("its end", |line| line.event == "store-recovered");

    let owed = grid(1000, from, wall_ms() + 2000);
    lab.wait_each("start", "tick", &owed);
    nodes.iter_mut().for_each(tests::Node::stop);
    let attempts = lab.attempts();
    no_attempt_twice(&attempts);
    each_once(&attempts, "tick", &owed);
}

#[test]
fn a_runner_that_cannot_renew_its_lease_is_cancelled_before_another_can_start() {
    let lab = Lab::sqlite();
    let jobs = every_second("long", "sleep 60s", "");
    let mut nodes = lab.start_all(["a", "b", "c"], &jobs, &NodeOptions::default());
    let first = lab.wait_start("long", 1);
    let locked = Locked::lock(&lab.url());
    let cancelled = lab.wait_line("its cancellation", |line| line.is_of("cancelled", &first));
    assert_eq!(cancelled.how.as_deref(), Some("lease lost"));
    // Its lease is over by now, or will soon be.
    lab.wait_until_ms(wall_ms() + 1000);
    locked.unlock();
    let second = lab.wait_start("long", 2);
    assert_eq!(second.slot, first.slot);
    nodes.iter_mut().for_each(|node| {
        node.kill();
    });
    let attempts = lab.attempts();
    never_two_at_once(&attempts);
    assert_eq!(attempts.iter().filter(|attempt| attempt.start.slot == first.slot).count(), 2, "{attempts:?}");
}
