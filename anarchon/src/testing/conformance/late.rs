//! Claims that come too late: by age, by the floor of their schedule, by the packet's own end.

use std::time::Duration;

use super::Fixture;
use super::many::values;
use super::support::{Client, LONG, SHORT};
use crate::backend::LeaseBackend;
use crate::option::Overlap;
use crate::run::{BeatOutcome, ClaimKind, ClaimOutcome, Ending, Lateness, RunClaim};
use crate::slot::Slot;

/// A slot older than the claim's limit is not decided: it can still be won with a longer one.
pub async fn a_slot_older_than_the_limit_is_late_and_undecided<F: Fixture<Backend: LeaseBackend>>(fixture: &F) {
    let client = Client::new(fixture).await;
    let slot = client.ago(120_000);
    for kind in [ClaimKind::Scheduled, ClaimKind::CatchUp] {
        let claim = RunClaim { kind, limit: Duration::from_secs(60), ..client.scheduled(slot) };
        assert_eq!(client.claim(&claim).await, ClaimOutcome::Late(Lateness::TooOld), "{kind}");
        client.assert_nothing_written().await;
    }
    let claim = RunClaim { limit: Duration::from_secs(600), ..client.catch_up(slot) };
    assert_eq!(client.win(&claim).await.attempt, 1);
}

/// Each claim is judged by its own limit, so a catch-up reaches further back than a scheduled claim.
pub async fn a_slot_within_the_limit_is_not_late<F: Fixture<Backend: LeaseBackend>>(fixture: &F) {
    let client = Client::new(fixture).await;
    let claim = |ms, limit| RunClaim {
        limit: Duration::from_secs(limit),
        overlap: Overlap::Allow,
        ..client.scheduled(client.ago(ms))
    };
    client.win(&claim(60_000, 120)).await;
    client.win(&RunClaim { kind: ClaimKind::CatchUp, ..claim(600_000, 1200) }).await;
}

/// No slot at or before the floor of its schedule is ever owed.
pub async fn a_slot_at_or_before_the_floor_is_late<F: Fixture<Backend: LeaseBackend>>(fixture: &F) {
    let client = Client::new(fixture).await;
    let floor = client.register("every 1s", "every 1s").await.floor;
    client.pass(Duration::from_millis(5)).await;
    let claim = |ms: i64| RunClaim {
        identity: "every 1s".into(),
        floor,
        overlap: Overlap::Allow,
        ..client.scheduled(Slot::from_ms(ms))
    };
    for ms in [floor, floor - 1, floor - 1000] {
        for kind in [ClaimKind::Scheduled, ClaimKind::CatchUp] {
            let claim = RunClaim { kind, ..claim(ms) };
            assert_eq!(client.claim(&claim).await, ClaimOutcome::Late(Lateness::Floor), "{} ms after", ms - floor);
        }
    }
    client.assert_nothing_written().await;
    client.win(&claim(floor + 1)).await;
}

/// The store's floor decides, not what a claim says.
pub async fn the_floor_in_the_store_decides<F: Fixture<Backend: LeaseBackend>>(fixture: &F) {
    let client = Client::new(fixture).await;
    let floor = client.register("every 1s", "every 1s").await.floor;
    client.pass(Duration::from_millis(5)).await;
    let claim = |ms, floor| RunClaim {
        identity: "every 1s".into(),
        floor,
        overlap: Overlap::Allow,
        ..client.scheduled(Slot::from_ms(ms))
    };
    assert_eq!(client.claim(&claim(floor, i64::MIN)).await, ClaimOutcome::Late(Lateness::Floor));
    client.win(&claim(floor + 2, floor + 3)).await;
}

/// A store that has no floor for a schedule, having lost it, takes it from the first claim.
pub async fn a_floor_the_store_has_lost_is_taken_from_the_claim<F: Fixture<Backend: LeaseBackend>>(fixture: &F) {
    let client = Client::new(fixture).await;
    let floor = client.start - 5000;
    let claim = |ms, floor| RunClaim {
        identity: "every 1s".into(),
        floor,
        overlap: Overlap::Allow,
        ..client.scheduled(Slot::from_ms(ms))
    };
    assert_eq!(client.claim(&claim(floor, floor)).await, ClaimOutcome::Late(Lateness::Floor));
    client.win(&claim(floor + 1, floor)).await;
    assert_eq!(client.claim(&claim(floor - 1, i64::MIN)).await, ClaimOutcome::Late(Lateness::Floor), "inserted once");
    client.win(&claim(floor + 2, floor + 1000)).await;
    assert_eq!(client.register("every 1s", "every 1s").await.floor, floor);
}

/// Each schedule of a job has a floor of its own.
pub async fn floors_are_kept_per_schedule<F: Fixture<Backend: LeaseBackend>>(fixture: &F) {
    let client = Client::new(fixture).await;
    client.register("every 1s", "every 1s").await;
    let old = RunClaim { identity: "every 2s".into(), ..client.scheduled(client.ago(2000)) };
    client.win(&old).await;
    let elsewhere = client.on("another job");
    elsewhere.win(&RunClaim { identity: "every 1s".into(), ..elsewhere.scheduled(client.ago(2000)) }).await;
}

/// An instance whose schedule began after a run, and who took that run over, still begins at its floor.
pub async fn a_takeover_moves_no_floor<F: Fixture<Backend: LeaseBackend>>(fixture: &F) {
    let client = Client::new(fixture).await;
    let neighbour = client.on("another job");
    let slot = client.ago(3000);
    client.win_and_die(&client.scheduled(slot)).await;
    let later = |claim| RunClaim { identity: "later".into(), floor: client.start - 1000, ..claim };
    let taken = client.win(&later(client.takeover(slot))).await;
    client.end(&taken, Ending::Done).await;

    let owed_to_others = [2000, 1500, 1000].map(|ms| later(client.scheduled(client.ago(ms))));
    assert_eq!(client.claim(&owed_to_others[0]).await, ClaimOutcome::Late(Lateness::Floor));
    for (claim, ms) in owed_to_others[1..].iter().zip([2000, 1000]) {
        let batch = [claim.clone(), neighbour.scheduled(client.ago(ms))];
        let told = values(client.store.claim_many(&batch).await);
        assert_eq!(told[0], ClaimOutcome::Late(Lateness::Floor));
    }
    client.win(&later(client.scheduled(client.ago(500)))).await;
}

/// A packet that comes after its `valid_until` is refused and writes nothing; sent anew, the claim is decided.
pub async fn a_stale_claim_is_refused_and_writes_nothing<F: Fixture<Backend: LeaseBackend>>(fixture: &F) {
    let client = Client::new(fixture).await;
    client.pass(Duration::from_millis(2)).await;
    let fresh = RunClaim { valid_until: client.start + 3_600_000, ..client.scheduled(client.ago(1000)) };
    for kind in [ClaimKind::Scheduled, ClaimKind::CatchUp, ClaimKind::Takeover] {
        let stale = RunClaim { kind, valid_until: client.start, ..fresh.clone() };
        assert_eq!(client.claim(&stale).await, ClaimOutcome::Late(Lateness::Stale), "{kind}");
    }
    client.assert_nothing_written().await;
    assert_eq!(client.win(&fresh).await.attempt, 1);
}

/// A stale packet of the attempt that runs does not renew its lease.
pub async fn a_stale_claim_renews_no_lease<F: Fixture<Backend: LeaseBackend>>(fixture: &F) {
    let client = Client::new(fixture).await;
    let claim = client.scheduled(client.ago(1000));
    let won = client.win_and_die(&claim).await;
    let stale = RunClaim { valid_until: client.start, ..claim };
    assert_eq!(client.claim(&stale).await, ClaimOutcome::Late(Lateness::Stale));
    assert_eq!(client.left(&won.run).await, Duration::ZERO);
    assert_eq!(client.beat(&won, LONG).await, BeatOutcome::Lost);
}

/// A stale packet takes no run over and closes none.
pub async fn a_stale_claim_takes_nothing_over<F: Fixture<Backend: LeaseBackend>>(fixture: &F) {
    let client = Client::new(fixture).await;
    let slot = client.ago(1000);
    let claim = RunClaim { max_attempts: 2, lease: SHORT, ..client.scheduled(slot) };
    client.win_and_die(&claim).await;
    let stale = RunClaim { valid_until: client.start, ..client.takeover(slot) };
    for attempt in [1, 2] {
        client
            .unchanged(async || {
                assert_eq!(client.claim(&stale).await, ClaimOutcome::Late(Lateness::Stale));
            })
            .await;
        if attempt == 1 {
            client.win_and_die(&client.takeover(slot)).await;
        }
    }
}

/// A stale packet records no skip, paused or overlapping.
pub async fn a_stale_claim_records_no_skip<F: Fixture<Backend: LeaseBackend>>(fixture: &F) {
    let client = Client::new(fixture).await;
    client.win(&client.scheduled(client.ago(2000))).await;
    let stale = RunClaim { valid_until: client.start - 1, ..client.scheduled(client.ago(1000)) };
    assert_eq!(client.claim(&stale).await, ClaimOutcome::Late(Lateness::Stale));
    client.pause("").await;
    assert_eq!(client.claim(&stale).await, ClaimOutcome::Late(Lateness::Stale));
    assert_eq!(client.skips().await, []);
}
