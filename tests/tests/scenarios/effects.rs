//! Effects that happen once: handlers that write and finish in one transaction are killed, frozen and held up in the
//! middle of it, and each slot that is done has been written exactly once.

use std::collections::BTreeMap;
use std::path::Path;
use std::time::Duration;

use anarchon::{AttemptRecord, AttemptStatus, Status};
use sqlx::{Connection as _, MySqlConnection, PgConnection, SqliteConnection};
use tests::{Lab, Line, Node, NodeOptions, Proxy};

/// The lease of these tests, and more than may pass until somebody else takes a run over.
const LEASE: Duration = Duration::from_secs(2);
const LONGER_THAN_A_LEASE: i64 = 3500;

fn start(lab: &Lab, name: &str, options: &NodeOptions) -> Node {
    start_every("1s", lab, name, options)
}

fn start_every(interval: &str, lab: &Lab, name: &str, options: &NodeOptions) -> Node {
    let program = Path::new(env!("CARGO_BIN_EXE_ledger"));
    let mut node = lab.spawn_program(program, name, interval, options);
    node.wait_ready();
    node
}

fn pausing(at: &str) -> NodeOptions {
    NodeOptions::default().set("--lease", &format!("{}s", LEASE.as_secs())).set("--pause-at", at)
}

/// Starts `b`, which runs some slots, and `a`, which halts at its first one; returns both and where `a` has halted.
fn halted(lab: &Lab, at: &str, options: &NodeOptions) -> (Node, Node, Line) {
    // In this order: while the one has the file locked, no other can come up.
    let b = start(lab, "b", &NodeOptions::default());
    let a = start(lab, "a", options);
    let line = lab.wait_line("the place where it halts", |line| line.event == at);
    (a, b, line)
}

fn wait_end(lab: &Lab, slot: Option<i64>, attempt: u32) -> Line {
    lab.wait_line("the end of an attempt", |line| {
        line.is("end", "bill") && line.slot == slot && line.attempt == Some(attempt)
    })
}

fn wait_later(lab: &Lab, slot: Option<i64>) {
    lab.wait_line("the end of a later slot", |line| line.is("end", "bill") && line.slot > slot);
}

/// What was written for each slot: by which attempts.
fn effects(lab: &Lab) -> BTreeMap<i64, Vec<i64>> {
    macro_rules! rows {
        ($connection:ident) => {
            async {
                let mut connection = $connection::connect(&lab.url()).await.expect("the database is there");
                let rows = sqlx::query_as("SELECT slot, attempt FROM effects").fetch_all(&mut connection).await;
                connection.close().await.expect("a close");
                rows.expect("a table of effects")
            }
        };
    }
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
    let rows: Vec<(i64, i64)> = match lab.url().split(':').next() {
        Some("sqlite") => runtime.block_on(rows!(SqliteConnection)),
        Some("postgres" | "postgresql") => runtime.block_on(rows!(PgConnection)),
        Some("mysql" | "mariadb") => runtime.block_on(rows!(MySqlConnection)),
        other => panic!("no store of these tests: {other:?}"),
    };
    let mut effects: BTreeMap<i64, Vec<i64>> = BTreeMap::new();
    for (slot, attempt) in rows {
        effects.entry(slot).or_default().push(attempt);
    }
    effects
}

/// Stops the processes, and asserts that what is done was written once, by the attempt that is done, and nothing else
/// was. Returns the attempts of one slot.
fn settled<const N: usize>(lab: &Lab, nodes: [Node; N], slot: Option<i64>) -> Vec<AttemptRecord> {
    for mut node in nodes {
        node.stop();
    }
    let client = lab.client();
    let history = client.history("bill");
    let done: BTreeMap<i64, Vec<i64>> = history
        .iter()
        .filter_map(|record| record.attempt().filter(|attempt| attempt.status == Some(AttemptStatus::Done)))
        .map(|attempt| (attempt.run.slot.ms(), vec![attempt.attempt.into()]))
        .collect();
    assert_eq!(effects(lab), done);
    assert!(!done.is_empty());
    client.attempts("bill", slot.expect("a slot"))
}

fn statuses(attempts: &[AttemptRecord]) -> Vec<AttemptStatus> {
    attempts.iter().map(|attempt| attempt.status.expect("a store with leases knows")).collect()
}

pub(crate) fn each_slot_has_one_effect_and_is_done_with_it(lab: &Lab) {
    let (a, b) = (start(lab, "a", &NodeOptions::default()), start(lab, "b", &NodeOptions::default()));
    let first = lab.wait_start("bill", 1);
    lab.wait_line("some more", |line| line.is("end", "bill") && line.slot > first.slot.map(|slot| slot + 3000));
    assert_eq!(statuses(&settled(lab, [a, b], first.slot)), [AttemptStatus::Done]);
}

/// Whatever it had written goes with it, and another writes it.
fn killed_before_the_commit(lab: &Lab, at: &str) {
    let (mut a, b, halted) = halted(lab, at, &pausing(at));
    a.kill();
    let end = wait_end(lab, halted.slot, 2);
    assert_eq!(end.instance, "b");
    assert_eq!(statuses(&settled(lab, [b], halted.slot)), [AttemptStatus::Lost, AttemptStatus::Done]);
}

pub(crate) fn a_process_killed_after_its_writes_has_written_nothing(lab: &Lab) {
    killed_before_the_commit(lab, "written");
}

pub(crate) fn a_process_killed_between_mark_and_commit_has_written_nothing(lab: &Lab) {
    killed_before_the_commit(lab, "marked");
}

pub(crate) fn a_process_killed_right_after_the_commit_is_done_and_nobody_repeats_it(lab: &Lab) {
    let (mut a, b, halted) = halted(lab, "committed", &pausing("committed"));
    a.kill();
    lab.wait_until_ms(tests::wall_ms() + LONGER_THAN_A_LEASE);
    wait_later(lab, halted.slot);
    let attempts = settled(lab, [b], halted.slot);
    assert_eq!(statuses(&attempts), [AttemptStatus::Done]);
    assert_eq!((attempts[0].instance.as_str(), attempts[0].run_status), ("a", Some(Status::Done)));
}

pub(crate) fn a_process_frozen_before_it_writes_can_write_nothing_when_it_wakes_after_a_takeover(lab: &Lab) {
    let (a, b, halted) = halted(lab, "before", &pausing("before").set("--pause-for", "5s"));
    lab.freeze(&a);
    let end = wait_end(lab, halted.slot, 2);
    a.thaw();
    let refused = lab.wait_line("it is refused", |line| line.is_of("refused", &halted));
    assert_eq!((refused.instance.as_str(), end.instance.as_str()), ("a", "b"));
    assert!(refused.how.as_deref().is_some_and(|how| how.contains("lease was lost")), "{refused:?}");
    wait_later(lab, halted.slot);
    assert_eq!(statuses(&settled(lab, [a, b], halted.slot)), [AttemptStatus::Lost, AttemptStatus::Done]);
}

pub(crate) fn a_process_frozen_with_its_transaction_open_commits_when_it_wakes_since_nobody_could_take_it_over(
    lab: &Lab,
) {
    let (a, b, halted) = halted(lab, "marked", &pausing("marked").set("--pause-for", "3s"));
    lab.freeze_with_its_locks(&a);
    lab.wait_until_ms(tests::wall_ms() + LONGER_THAN_A_LEASE);
    a.thaw();
    wait_end(lab, halted.slot, 1);
    wait_later(lab, halted.slot);
    assert_eq!(statuses(&settled(lab, [a, b], halted.slot)), [AttemptStatus::Done]);
}

pub(crate) fn a_commit_that_stalls_for_longer_than_the_lease_is_still_the_only_one(lab: &Lab) {
    let stalls = pausing("marked").set("--pause-for", &format!("{LONGER_THAN_A_LEASE}ms"));
    let (a, b, halted) = halted(lab, "marked", &stalls);
    wait_end(lab, halted.slot, 1);
    wait_later(lab, halted.slot);
    assert_eq!(statuses(&settled(lab, [a, b], halted.slot)), [AttemptStatus::Done]);
}

pub(crate) fn a_handler_that_forgets_to_commit_has_failed_and_its_retry_writes(lab: &Lab) {
    let a = start(lab, "a", &NodeOptions::default().flag("--forget"));
    let forgot = lab.wait_line("it forgets", |line| line.is("end", "bill") && line.how.as_deref() == Some("forgot"));
    wait_end(lab, forgot.slot, 2);
    let attempts = settled(lab, [a], forgot.slot);
    assert_eq!(statuses(&attempts), [AttemptStatus::Failed, AttemptStatus::Done]);
    assert_eq!(attempts[0].error.as_deref(), Some("the transaction was not committed"));
}

/// Cuts the connection of a commit, of which the handler then does not know whether it went through. Returns the ends of
/// the slot's attempts.
fn cut(lab: &Lab, cut: fn(&Proxy, u64), attempt: u32) -> Vec<AttemptStatus> {
    let (proxy, url) = lab.store().borrow().through_a_proxy().expect("a store with a server");
    // Nobody else may start the run before its handler knows of the error, and no later slot before its retry, which that
    // would replace.
    let options = pausing("marked").set("--pause-for", "4s").set("--lease", "40s").set("--database", &url);
    let a = start_every("12s", lab, "a", &options);
    let halted = lab.wait_line("the place where it halts", |line| line.event == "marked");
    // Nothing else goes that way: the scheduler has connections of its own.
    cut(&proxy, 1);
    if attempt > 1 {
        wait_end(lab, halted.slot, attempt);
    }
    wait_later(lab, halted.slot);
    assert!(!lab.lines().iter().any(|line| line.is_of("committed", &halted) || line.is_of("end", &halted)));
    statuses(&settled(lab, [a], halted.slot))
}

pub(crate) fn a_commit_that_does_not_get_through_has_written_nothing_and_its_retry_writes(lab: &Lab) {
    assert_eq!(cut(lab, Proxy::cut_before, 2), [AttemptStatus::Failed, AttemptStatus::Done]);
}

pub(crate) fn a_commit_whose_answer_is_lost_is_done_and_nobody_repeats_it(lab: &Lab) {
    assert_eq!(cut(lab, Proxy::cut_after, 1), [AttemptStatus::Done]);
}
