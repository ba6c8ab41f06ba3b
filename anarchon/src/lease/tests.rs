//! The rules as tables, each row named.

use std::time::Duration;

use super::*;
use crate::slot::{InstanceId, JobName, Slot};

const NOW: i64 = 1_000_000;
const S: Duration = Duration::from_secs(1);

fn token(n: u8) -> Token {
    Token::from_random_bytes([n; 16])
}

/// A claim with token 1 of a slot one second ago.
fn claim() -> RunClaim {
    let (job, instance) = (JobName::new("job").unwrap(), InstanceId::new("here").unwrap());
    RunClaim { floor: 0, ..RunClaim::new(job, Slot::from_ms(NOW - 1000), token(1), instance) }
}

fn at(slot: i64) -> RunClaim {
    RunClaim { slot: Slot::from_ms(slot), ..claim() }
}

fn kind(kind: ClaimKind) -> RunClaim {
    RunClaim { kind, ..claim() }
}

fn allow(claim: RunClaim) -> RunClaim {
    RunClaim { overlap: Overlap::Allow, ..claim }
}

/// The claimed slot's run, won by token 2, with its lease live for 5 s.
fn run() -> StoredRun {
    StoredRun { token: Some(token(2)), until: NOW + 5000, ..StoredRun::start(&claim(), NOW) }
}

fn over() -> StoredRun {
    StoredRun { until: NOW, ..run() }
}

fn ours(run: StoredRun) -> StoredRun {
    StoredRun { token: Some(token(1)), ..run }
}

fn status(status: Status) -> StoredRun {
    StoredRun { status, token: None, ..run() }
}

/// Another run of the job.
fn other() -> StoredRun {
    StoredRun { key: RunKey::scheduled(claim().job, Slot::from_ms(NOW - 9000)), ..run() }
}

fn other_over() -> StoredRun {
    StoredRun { until: NOW - 1, ..other() }
}

fn facts(run: Option<&StoredRun>) -> Facts<'_> {
    Facts { run, ..Facts::none() }
}

#[test]
fn a_claim_is_decided_by_the_first_row_that_fits() {
    use ClaimKind::{CatchUp, Scheduled, Takeover};
    use Decision::{Again, Answer, Skip, Start, TakeOver};
    let (live, over, other, other_over) = (run(), over(), other(), other_over());
    let (our_live, our_over) = (ours(run()), ours(over.clone()));
    let waiting = StoredRun { until: NOW + 1, ..status(Status::Waiting) };
    let ready = StoredRun { until: NOW, ..status(Status::Waiting) };
    let (done, dead) = (status(Status::Done), status(Status::Dead));
    let early = |ms| Answer(ClaimOutcome::Early { wait: Duration::from_millis(ms) });
    let done_as = |status| Answer(ClaimOutcome::Done { status });
    let running = |ms| Answer(ClaimOutcome::Running { left: Duration::from_millis(ms) });
    let paused = Answer(ClaimOutcome::Paused { recorded: false });
    let late = |lateness| Answer(ClaimOutcome::Late(lateness));
    let overlaps = |blocker: &StoredRun| Answer(overlap(blocker, NOW, false));
    let none = Facts::none;
    let is_paused = || Facts { paused: true, ..Facts::none() };
    let stale = RunClaim { valid_until: NOW - 1, ..claim() };
    let rows: Vec<(&str, RunClaim, Facts<'_>, Decision)> = vec![
        ("stale before all", RunClaim { slot: Slot::from_ms(NOW + 9), ..stale.clone() }, none(), late(Lateness::Stale)),
        ("stale before ours", stale, facts(Some(&our_live)), late(Lateness::Stale)),
        ("valid to its last ms", RunClaim { valid_until: NOW, ..claim() }, none(), Start),
        ("early", at(NOW + 1), none(), early(1)),
        ("early before ours", at(NOW + 1), facts(Some(&our_live)), early(1)),
        ("early before skipped", at(NOW + 7), Facts { skipped: true, ..none() }, early(7)),
        ("due now", at(NOW), none(), Start),
        ("ours, live", claim(), facts(Some(&our_live)), Again),
        ("ours, over", claim(), facts(Some(&our_over)), Again),
        ("ours, paused", claim(), Facts { paused: true, ..facts(Some(&our_live)) }, Again),
        ("ours, live beside another", claim(), Facts { live: Some(&other), ..facts(Some(&our_live)) }, Again),
        (
            "ours, over beside another",
            claim(),
            Facts { live: Some(&other), ..facts(Some(&our_over)) },
            overlaps(&other),
        ),
        ("ours, over, allow", allow(claim()), Facts { live: Some(&other), ..facts(Some(&our_over)) }, Again),
        ("ours, over, orphan", claim(), Facts { orphaned: Some(&other_over), ..facts(Some(&our_over)) }, Again),
        (
            "late copy, lost",
            claim(),
            Facts { ended: Some(AttemptStatus::Lost), ..facts(Some(&live)) },
            done_as(Status::Dead),
        ),
        (
            "late copy, failed",
            claim(),
            Facts { ended: Some(AttemptStatus::Failed), ..facts(Some(&waiting)) },
            done_as(Status::Failed),
        ),
        (
            "late copy, handed over",
            claim(),
            Facts { ended: Some(AttemptStatus::HandedOver), ..facts(Some(&over)) },
            done_as(Status::Running),
        ),
        (
            "late copy of a dead run's other attempt",
            claim(),
            Facts { ended: Some(AttemptStatus::TimedOut), ..facts(Some(&dead)) },
            done_as(Status::TimedOut),
        ),
        ("done", claim(), facts(Some(&done)), done_as(Status::Done)),
        ("done before paused", claim(), Facts { paused: true, ..facts(Some(&done)) }, done_as(Status::Done)),
        ("done before skipped", claim(), Facts { skipped: true, ..facts(Some(&dead)) }, done_as(Status::Dead)),
        ("skipped", claim(), Facts { skipped: true, ..none() }, done_as(Status::Skipped)),
        ("skipped before gone", kind(Takeover), Facts { skipped: true, ..none() }, done_as(Status::Skipped)),
        (
            "skipped before late",
            claim(),
            Facts { skipped: true, trim_mark: Some(NOW), ..none() },
            done_as(Status::Skipped),
        ),
        ("running", claim(), facts(Some(&live)), running(5000)),
        ("running before paused", claim(), Facts { paused: true, ..facts(Some(&live)) }, running(5000)),
        ("running, too old", RunClaim { limit: Duration::ZERO, ..claim() }, facts(Some(&live)), running(5000)),
        ("waiting", kind(Takeover), facts(Some(&waiting)), running(1)),
        ("takeable, paused", kind(Takeover), Facts { paused: true, ..facts(Some(&over)) }, paused.clone()),
        ("ready, paused", claim(), Facts { paused: true, ..facts(Some(&ready)) }, paused.clone()),
        (
            "takeable, paused before overlap",
            claim(),
            Facts { paused: true, live: Some(&other), ..facts(Some(&over)) },
            paused.clone(),
        ),
        ("takeable beside a live one", claim(), Facts { live: Some(&other), ..facts(Some(&over)) }, overlaps(&other)),
        (
            "ready beside a live one",
            kind(CatchUp),
            Facts { live: Some(&other), ..facts(Some(&ready)) },
            overlaps(&other),
        ),
        ("takeable, allow", allow(claim()), Facts { live: Some(&other), ..facts(Some(&over)) }, TakeOver),
        ("takeable beside an orphan", claim(), Facts { orphaned: Some(&other_over), ..facts(Some(&over)) }, TakeOver),
        ("takeable by a scheduled claim", kind(Scheduled), facts(Some(&over)), TakeOver),
        ("takeable by a catch-up", kind(CatchUp), facts(Some(&over)), TakeOver),
        ("takeable by a takeover", kind(Takeover), facts(Some(&over)), TakeOver),
        ("ready", kind(Takeover), facts(Some(&ready)), TakeOver),
        ("takeable below the trim mark", claim(), Facts { trim_mark: Some(NOW), ..facts(Some(&over)) }, TakeOver),
        ("gone", kind(Takeover), none(), Answer(ClaimOutcome::Gone)),
        ("gone before late", kind(Takeover), Facts { trim_mark: Some(NOW), ..none() }, Answer(ClaimOutcome::Gone)),
        ("gone before paused", kind(Takeover), is_paused(), Answer(ClaimOutcome::Gone)),
        ("at the trim mark", claim(), Facts { trim_mark: Some(NOW - 1000), ..none() }, late(Lateness::Trimmed)),
        ("after the trim mark", claim(), Facts { trim_mark: Some(NOW - 1001), ..none() }, Start),
        (
            "trimmed before floor",
            claim(),
            Facts { trim_mark: Some(NOW), floor: Some(NOW), ..none() },
            late(Lateness::Trimmed),
        ),
        ("at the floor", claim(), Facts { floor: Some(NOW - 1000), ..none() }, late(Lateness::Floor)),
        ("after the floor", claim(), Facts { floor: Some(NOW - 1001), ..none() }, Start),
        ("at the claim's floor", RunClaim { floor: NOW - 1000, ..claim() }, none(), late(Lateness::Floor)),
        ("the store's floor decides", RunClaim { floor: NOW, ..claim() }, Facts { floor: Some(0), ..none() }, Start),
        (
            "floor before age",
            RunClaim { limit: Duration::ZERO, ..claim() },
            Facts { floor: Some(NOW), ..none() },
            late(Lateness::Floor),
        ),
        ("as old as its limit", RunClaim { limit: S, ..claim() }, none(), Start),
        ("older", RunClaim { limit: S, ..at(NOW - 1001) }, none(), late(Lateness::TooOld)),
        (
            "older, as a catch-up",
            RunClaim { limit: S, slot: Slot::from_ms(NOW - 1001), ..kind(CatchUp) },
            none(),
            late(Lateness::TooOld),
        ),
        ("late before paused", RunClaim { limit: Duration::ZERO, ..claim() }, is_paused(), late(Lateness::TooOld)),
        ("paused", claim(), is_paused(), Skip(SkipReason::Paused)),
        (
            "paused before overlap",
            claim(),
            Facts { paused: true, live: Some(&other), ..none() },
            Skip(SkipReason::Paused),
        ),
        ("paused catch-up", kind(CatchUp), is_paused(), paused),
        ("beside a live run", claim(), Facts { live: Some(&other), ..none() }, Skip(SkipReason::Overlap)),
        ("beside an orphan", claim(), Facts { orphaned: Some(&other_over), ..none() }, Skip(SkipReason::Overlap)),
        ("beside a live run, catching up", kind(CatchUp), Facts { live: Some(&other), ..none() }, overlaps(&other)),
        (
            "beside an orphan, catching up",
            kind(CatchUp),
            Facts { orphaned: Some(&other_over), ..none() },
            overlaps(&other_over),
        ),
        (
            "beside a live run, allow",
            allow(claim()),
            Facts { live: Some(&other), orphaned: Some(&other_over), ..none() },
            Start,
        ),
        ("free", claim(), none(), Start),
        ("free, catching up", kind(CatchUp), none(), Start),
    ];
    for (name, claim, facts, expected) in rows {
        assert_eq!(decide(&claim, &facts, NOW), expected, "{name}");
    }
}

#[test]
fn an_overlap_names_its_blocker_and_how_long_it_lasts() {
    let outcome = |blocker: &StoredRun, ms, recorded| ClaimOutcome::Overlap {
        blocker: blocker.key.clone(),
        left: Duration::from_millis(ms),
        recorded,
    };
    assert_eq!(overlap(&other(), NOW, true), outcome(&other(), 5000, true));
    assert_eq!(overlap(&other_over(), NOW, false), outcome(&other(), 0, false));
}

#[test]
fn a_run_closes_when_its_lease_is_over_and_nothing_may_follow() {
    let expired = |by: i64| StoredRun { until: NOW - 5000 - by, takeover_within: 5 * S, ..run() };
    let waits = |until| StoredRun { until, takeover_within: 5 * S, ..status(Status::Waiting) };
    let manual =
        |until| StoredRun::start_manual(RunKey::manual(claim().job, Slot::from_ms(0), token(2)), token(2), until, true);
    let rows = [
        ("live", run(), false),
        ("live, used up", StoredRun { max_attempts: 1, releases: 99, ..run() }, false),
        ("over", over(), false),
        ("over at its last ms", StoredRun { until: NOW + 1, max_attempts: 1, ..run() }, false),
        ("over for as long as may be", expired(0), false),
        ("expired", expired(1), true),
        ("expired, long wait", waits(NOW - 5001), true),
        ("waits", waits(NOW + 1), false),
        ("ready", waits(NOW - 5000), false),
        ("the only attempt is open", StoredRun { max_attempts: 1, ..over() }, true),
        ("the last of three is open", StoredRun { failures: 2, ..over() }, true),
        ("the second of three is open", StoredRun { failures: 1, ..over() }, false),
        ("the last was given up", StoredRun { failures: 2, token: None, ..over() }, false),
        ("all failed", StoredRun { failures: 3, token: None, ..over() }, true),
        ("released too often", StoredRun { releases: MAX_RELEASES, token: None, ..over() }, true),
        ("released once less", StoredRun { releases: MAX_RELEASES - 1, token: None, ..over() }, false),
        ("finished", StoredRun { until: 0, ..status(Status::Done) }, false),
        ("dead", StoredRun { until: 0, ..status(Status::Dead) }, false),
        ("manual, live", manual(NOW + 1), false),
        ("manual, over", manual(NOW), true),
        ("manual, given back", StoredRun { token: None, ..manual(NOW) }, true),
    ];
    for (name, run, closes) in rows {
        assert_eq!(run.closes(NOW), closes, "{name}");
    }
}

#[test]
fn a_closed_run_is_dead_or_ends_as_its_last_attempt() {
    let waited = |ended| StoredRun { last_ended: Some(ended), ..status(Status::Waiting) };
    let released = |ended| StoredRun { last_ended: Some(ended), token: None, ..over() };
    let rows = [
        ("open", over(), Status::Dead, true, Some(AttemptStatus::Lost)),
        ("failed", waited(AttemptStatus::Failed), Status::Failed, false, Some(AttemptStatus::Failed)),
        ("timed out", waited(AttemptStatus::TimedOut), Status::TimedOut, false, Some(AttemptStatus::TimedOut)),
        ("handed over", released(AttemptStatus::HandedOver), Status::Dead, false, Some(AttemptStatus::HandedOver)),
    ];
    for (name, mut run, status, lost, last) in rows {
        assert_eq!(run.close(), lost, "{name}");
        assert_eq!((run.status, run.token, run.last_ended), (status, None, last), "{name}");
        assert!(!run.unfinished() && !run.closes(i64::MAX), "{name}");
    }
}

#[test]
fn a_takeover_starts_the_next_attempt() {
    let handed = StoredRun { token: None, last_ended: Some(AttemptStatus::HandedOver), ..over() };
    let ready = StoredRun { failures: 1, last_ended: Some(AttemptStatus::Failed), ..status(Status::Waiting) };
    let rows = [
        ("dead", over(), Reason::Takeover, Some(token(2)), 1, Some(AttemptStatus::Lost)),
        ("handed over", handed, Reason::HandOver, None, 0, Some(AttemptStatus::HandedOver)),
        ("ready", ready, Reason::Retry, None, 1, Some(AttemptStatus::Failed)),
    ];
    for (name, mut run, reason, lost, failures, last) in rows {
        let claim =
            RunClaim { max_attempts: 9, retry_failed: Some(S), takeover_within: S, ..kind(ClaimKind::Takeover) };
        assert_eq!(run.take_over(&claim, NOW), (reason, lost), "{name}");
        assert_eq!((run.attempt, run.failures, run.last_ended), (2, failures, last), "{name}");
        assert_eq!((run.status, run.token, run.until), (Status::Running, Some(token(1)), NOW + 15_000), "{name}");
        assert_eq!(
            (run.max_attempts, run.retry_failed, run.takeover_within),
            (3, None, 3600 * S),
            "{name}: the first claim's"
        );
    }
}

#[test]
fn an_attempt_ends_its_run_or_leaves_it_waiting() {
    let failed = || Ending::Failed("no".to_owned());
    let slow = || Ending::TimedOut("slow".to_owned());
    let retried = |failures| StoredRun { retry_failed: Some(S), failures, ..run() };
    let (first, second, last) = (retried(0), retried(1), retried(2));
    let rows = [
        ("ok", run(), Ending::Done, false, Status::Done, None),
        ("ok, with retries", first.clone(), Ending::Done, false, Status::Done, None),
        ("failed", run(), failed(), false, Status::Failed, None),
        ("timed out", run(), slow(), false, Status::TimedOut, None),
        ("failed, to be retried", first.clone(), failed(), false, Status::Waiting, Some(S)),
        ("timed out, to be retried", first.clone(), slow(), false, Status::Waiting, Some(S)),
        ("failed again", second, failed(), false, Status::Waiting, Some(2 * S)),
        ("failed, none left", last.clone(), failed(), false, Status::Failed, None),
        ("timed out, none left", last, slow(), false, Status::TimedOut, None),
        ("failed, the last", first, failed(), true, Status::Failed, None),
    ];
    for (name, mut run, ending, last, status, retry_in) in rows {
        let failures = run.failures;
        let outcome = FinishOutcome::Recorded { run: status, retry_in };
        assert_eq!(run.finish(&ending, last, NOW), outcome, "{name}");
        assert_eq!((run.status, run.token, run.last_ended), (status, None, Some(ending.status())), "{name}");
        assert_eq!(run.failures, failures + u32::from(ending != Ending::Done), "{name}");
        assert_eq!(run.finished(NOW), outcome, "{name}, sent twice");
        assert_eq!(run.until, NOW + retry_in.map_or(0, to_ms), "{name}");
    }
}

#[test]
fn a_release_ends_the_lease_and_counts() {
    for (returned, attempt, last) in [(false, 2, AttemptStatus::HandedOver), (true, 1, AttemptStatus::Returned)] {
        let mut run = StoredRun { attempt: 2, releases: 3, failures: 1, ..run() };
        run.release(returned, NOW);
        assert_eq!((run.attempt, run.releases, run.failures), (attempt, 4, 1));
        assert_eq!((run.status, run.token, run.until), (Status::Running, None, NOW));
        assert_eq!(run.last_ended, Some(last));
        assert!(run.over(NOW) && !run.live(NOW) && run.unfinished());
    }
}

#[test]
fn a_lease_is_over_at_its_end_and_moves_forward_only() {
    let mut run = run();
    assert!(run.live(NOW + 4999) && !run.live(NOW + 5000) && run.over(NOW + 5000));
    assert_eq!((run.left(NOW), run.left(NOW + 6000)), (5 * S, Duration::ZERO));
    assert!(!status(Status::Waiting).live(NOW), "only what runs is live");
    run.renew(S, NOW);
    assert_eq!(run.until, NOW + 5000);
    run.renew(9 * S, NOW);
    assert_eq!(run.until, NOW + 9000);
    run.renew(Duration::MAX, NOW);
    assert_eq!(run.until, i64::MAX, "the longest lease overflows nothing");
}

#[test]
fn a_wait_doubles_up_to_ten_minutes() {
    let rows = [
        (10, 1, 10),
        (10, 2, 20),
        (10, 3, 40),
        (10, 7, 600),
        (10, 8, 600),
        (10, 40, 600),
        (10, u32::MAX, 600),
        (600, 1, 600),
        (600, 2, 600),
        (3600, 1, 600),
        (0, 9, 0),
        (10, 0, 10),
    ];
    for (first, failures, wait) in rows {
        assert_eq!(
            retry_wait(Duration::from_secs(first), failures),
            Duration::from_secs(wait),
            "{first} after {failures}"
        );
    }
    assert_eq!(retry_wait(Duration::MAX, 1), MAX_RETRY_WAIT);
}

#[test]
fn a_fence_grows_also_over_a_failover() {
    let rows = [
        (0, 0, 1),
        (0, 500, 500),
        (499, 500, 500),
        (500, 500, 501),
        (900, 500, 901),
        (0, -5, 1),
        (u64::MAX, 5, u64::MAX),
    ];
    for (last, now, next) in rows {
        assert_eq!(next_fence(last, now), next, "after {last} at {now}");
    }
}

#[test]
fn a_first_claim_makes_a_run_with_its_options() {
    let claim = RunClaim { max_attempts: 7, retry_failed: Some(S), takeover_within: 2 * S, lease: 3 * S, ..claim() };
    let run = StoredRun::start(&claim, NOW);
    assert_eq!(
        (run.key.clone(), run.status, run.attempt, run.token),
        (claim.key(), Status::Running, 1, Some(token(1)))
    );
    assert_eq!((run.until, run.failures, run.releases, run.last_ended), (NOW + 3000, 0, 0, None));
    assert_eq!((run.max_attempts, run.retry_failed, run.takeover_within), (7, Some(S), 2 * S));
    assert!(run.counts);
    for exclusive in [true, false] {
        let key = RunKey::manual(claim.job.clone(), Slot::from_ms(NOW), token(3));
        let run = StoredRun::start_manual(key.clone(), token(3), NOW + 1, exclusive);
        assert_eq!((run.key, run.token, run.until, run.counts), (key, Some(token(3)), NOW + 1, exclusive));
        assert_eq!((run.attempt, run.max_attempts, run.retry_failed), (1, 1, None));
    }
}

#[test]
fn an_ended_attempt_has_the_run_status_that_says_so() {
    let rows = [
        (AttemptStatus::Done, Status::Done),
        (AttemptStatus::Failed, Status::Failed),
        (AttemptStatus::TimedOut, Status::TimedOut),
        (AttemptStatus::Lost, Status::Dead),
        (AttemptStatus::HandedOver, Status::Running),
        (AttemptStatus::Returned, Status::Running),
    ];
    for (attempt, run) in rows {
        assert_eq!(attempt_as_run(attempt), run, "{attempt}");
    }
}
