//! Packets that come late, twice, or not at all: no copy of an old one changes what a newer one decided.

use std::time::Duration;

use super::Fixture;
use super::support::{Client, LONG, Won, failed, timed_out};
use crate::backend::LeaseBackend;
use crate::option::Overlap;
use crate::run::{
    AttemptStatus, BeatOutcome, ClaimOutcome, Ending, FinishOutcome, Release, ReleaseOutcome, RunClaim, RunKey, Status,
};
use crate::slot::Token;

/// How the first attempt of a run ended, and what a late copy of its claim is told.
const ENDS: [(&str, Status); 6] = [
    ("finished", Status::Done),
    ("failed", Status::Failed),
    ("waiting", Status::Failed),
    ("handed over", Status::Running),
    ("given back", Status::Running),
    ("lost", Status::Dead),
];

/// A run whose first attempt has ended like this, under a job of that name, with the claim that won it.
async fn ended<B: LeaseBackend>(client: &Client<B>, how: &str) -> (Client<B>, RunClaim, Won) {
    let client = client.on(how);
    let retry_failed = (how == "waiting").then_some(Duration::from_millis(1));
    let claim = RunClaim { retry_failed, ..client.scheduled(client.ago(1000)) };
    let won = if how == "lost" { client.win_and_die(&claim).await } else { client.win(&claim).await };
    match how {
        "finished" => assert_eq!(client.end(&won, Ending::Done).await, Status::Done),
        "failed" => assert_eq!(client.end(&won, failed("no")).await, Status::Failed),
        "waiting" => assert_eq!(client.end(&won, failed("no")).await, Status::Waiting),
        "handed over" => assert_eq!(client.hand_over(&won).await, ReleaseOutcome::Released),
        "given back" => assert_eq!(client.give_back(&won).await, ReleaseOutcome::Released),
        _ => assert_eq!(client.win(&client.takeover(won.run.slot)).await.attempt, 2),
    }
    client.until_over_or_taken(&won).await;
    (client, claim, won)
}

impl<B: LeaseBackend> Client<B> {
    /// Waits for the end of a retry wait; a run that was taken over has a long lease, and needs none.
    async fn until_over_or_taken(&self, won: &Won) {
        if self.active_run(&won.run).await.is_some_and(|run| run.status == Status::Waiting) {
            self.until_over(&won.run).await;
        }
    }
}

/// A copy of a claim that comes after its attempt has ended is told how that ended, and writes nothing: it neither wins
/// again nor renews, though the run may be there for others to start.
pub async fn a_claim_copy_after_its_attempt_ended_is_done<F: Fixture<Backend: LeaseBackend>>(fixture: &F) {
    let client = Client::new(fixture).await;
    for (how, status) in ENDS {
        let (client, claim, _) = ended(&client, how).await;
        client.unchanged(async || assert_eq!(client.done(&claim).await, status, "{how}")).await;
        let copy = RunClaim { kind: crate::run::ClaimKind::Takeover, ..claim };
        client.unchanged(async || assert_eq!(client.done(&copy).await, status, "{how}, as a takeover")).await;
    }
}

/// Nor does it disturb the attempt that came after.
pub async fn a_claim_copy_does_not_disturb_the_next_attempt<F: Fixture<Backend: LeaseBackend>>(fixture: &F) {
    let client = Client::new(fixture).await;
    for how in ["waiting", "handed over", "given back"] {
        let (client, claim, _) = ended(&client, how).await;
        let next = client.win(&client.takeover(claim.slot)).await;
        client.unchanged(async || client.done(&claim).await).await;
        assert_eq!(client.beat(&next, LONG).await, BeatOutcome::Alive, "{how}");
        assert_eq!(client.end(&next, Ending::Done).await, Status::Done, "{how}");
        client.unchanged(async || client.done(&claim).await).await;
    }
}

/// A heartbeat that comes after its attempt has ended, however it did, is lost.
pub async fn a_heartbeat_after_its_attempt_ended_is_lost<F: Fixture<Backend: LeaseBackend>>(fixture: &F) {
    let client = Client::new(fixture).await;
    for (how, _) in ENDS {
        let (client, _, won) = ended(&client, how).await;
        client.unchanged(async || assert_eq!(client.beat(&won, LONG).await, BeatOutcome::Lost, "{how}")).await;
    }
}

/// A heartbeat never revives a lease that is over, even though nobody has taken the run over.
pub async fn a_heartbeat_revives_no_lease<F: Fixture<Backend: LeaseBackend>>(fixture: &F) {
    let client = Client::new(fixture).await;
    let won = client.win_and_die(&client.scheduled(client.ago(1000))).await;
    assert_eq!(client.beat(&won, LONG).await, BeatOutcome::Lost);
    assert_eq!(client.left(&won.run).await, Duration::ZERO, "nothing is revived");
    assert_eq!(client.win(&client.takeover(won.run.slot)).await.attempt, 2);
    assert_eq!(client.beat(&won, LONG).await, BeatOutcome::Lost, "after the takeover");
}

/// A heartbeat moves the lease forward and never back; one that moves nothing is a success too.
pub async fn a_heartbeat_moves_the_lease_forward_only<F: Fixture<Backend: LeaseBackend>>(fixture: &F) {
    let client = Client::new(fixture).await;
    let won = client.win(&client.scheduled(client.ago(1000))).await;
    assert_eq!(client.beat(&won, Duration::from_secs(600)).await, BeatOutcome::Alive);
    assert!(client.left(&won.run).await > Duration::from_secs(300), "moved forward");
    for _ in 0..2 {
        assert_eq!(client.beat(&won, Duration::from_secs(1)).await, BeatOutcome::Alive);
        assert!(client.left(&won.run).await > Duration::from_secs(300), "never back");
    }
}

/// A heartbeat that comes in time keeps a short lease going.
pub async fn a_heartbeat_keeps_a_lease_going<F: Fixture<Backend: LeaseBackend>>(fixture: &F) {
    let client = Client::new(fixture).await;
    let lease = Duration::from_secs(5);
    let won = client.win(&RunClaim { lease, ..client.scheduled(client.ago(1000)) }).await;
    assert_eq!(client.beat(&won, LONG).await, BeatOutcome::Alive);
    client.pass(Duration::from_millis(20)).await;
    assert!(client.left(&won.run).await > lease, "the beat's length counts from the beat");
    assert_eq!(client.active_run(&won.run).await.expect("active").attempt, 1);
}

/// Without the right token nothing can be renewed, finished or given up.
pub async fn a_foreign_token_proves_nothing<F: Fixture<Backend: LeaseBackend>>(fixture: &F) {
    let client = Client::new(fixture).await;
    let won = client.win(&client.scheduled(client.ago(1000))).await;
    let foreign = Won { token: Token::random(), ..won.clone() };
    let nowhere = Won { run: RunKey::scheduled(client.job.clone(), client.ago(2000)), ..won.clone() };
    let nobody = Won { run: RunKey::scheduled(client.on("nobody").job, won.run.slot), ..won.clone() };
    for wrong in [foreign, nowhere, nobody] {
        client
            .unchanged(async || {
                assert_eq!(client.beat(&wrong, LONG).await, BeatOutcome::Lost);
                assert_eq!(client.finish(&wrong, Ending::Done).await, FinishOutcome::Lost);
                assert_eq!(client.finish(&wrong, failed("no")).await, FinishOutcome::Lost);
                assert_eq!(client.give_back(&wrong).await, ReleaseOutcome::Lost);
                assert_eq!(client.hand_over(&wrong).await, ReleaseOutcome::Lost);
            })
            .await;
    }
    assert_eq!(client.beat(&won, LONG).await, BeatOutcome::Alive);
}

/// The token of one run's attempt, open or ended, proves nothing about another run.
pub async fn a_token_of_another_run_proves_nothing<F: Fixture<Backend: LeaseBackend>>(fixture: &F) {
    let client = Client::new(fixture).await;
    let claim = |ms| RunClaim { overlap: Overlap::Allow, ..client.scheduled(client.ago(ms)) };
    let victim = client.win(&claim(9000)).await;
    let [open, done, handed_over, given_back] = [
        client.win(&claim(4000)).await,
        client.win(&claim(3000)).await,
        client.win(&claim(2000)).await,
        client.win(&claim(1000)).await,
    ];
    client.end(&done, Ending::Done).await;
    client.hand_over(&handed_over).await;
    client.give_back(&given_back).await;
    for other in [open, done, handed_over, given_back] {
        let mixed = Won { run: victim.run.clone(), ..other };
        client
            .unchanged(async || {
                assert_eq!(client.beat(&mixed, LONG).await, BeatOutcome::Lost);
                assert_eq!(client.finish(&mixed, Ending::Done).await, FinishOutcome::Lost);
                assert_eq!(client.give_back(&mixed).await, ReleaseOutcome::Lost);
                assert_eq!(client.hand_over(&mixed).await, ReleaseOutcome::Lost);
            })
            .await;
    }
}

/// An end is recorded even after the lease, as long as nobody has taken the run over.
pub async fn a_finish_after_the_lease_but_before_a_takeover_is_recorded<F: Fixture<Backend: LeaseBackend>>(
    fixture: &F,
) {
    let client = Client::new(fixture).await;
    let won = client.win_and_die(&client.scheduled(client.ago(1000))).await;
    assert_eq!(client.beat(&won, LONG).await, BeatOutcome::Lost);
    assert_eq!(client.end(&won, Ending::Done).await, Status::Done);
    assert_eq!((client.status(&won).await, client.run_status(&won).await), (AttemptStatus::Done, Status::Done));
    assert_eq!(client.done(&client.takeover(won.run.slot)).await, Status::Done);
}

/// So is a release.
pub async fn a_release_after_the_lease_but_before_a_takeover_is_accepted<F: Fixture<Backend: LeaseBackend>>(
    fixture: &F,
) {
    let client = Client::new(fixture).await;
    let claim = RunClaim { max_attempts: 1, ..client.scheduled(client.ago(1000)) };
    let won = client.win_and_die(&claim).await;
    assert_eq!(client.hand_over(&won).await, ReleaseOutcome::Released);
    assert_eq!(client.status(&won).await, AttemptStatus::HandedOver);
    assert_eq!(client.win(&client.takeover(won.run.slot)).await.attempt, 2, "handed over, so no attempt is used");
}

/// A runner that woke up after a takeover can change nothing: the new attempt owns the outcome.
pub async fn a_frozen_runner_cannot_finish_after_a_takeover<F: Fixture<Backend: LeaseBackend>>(fixture: &F) {
    let client = Client::new(fixture).await;
    let frozen = client.win_and_die(&client.scheduled(client.ago(1000))).await;
    let other = client.other(fixture, "other").await;
    let next = other.win(&other.takeover(frozen.run.slot)).await;
    let cannot = async || {
        client
            .unchanged(async || {
                assert_eq!(client.beat(&frozen, LONG).await, BeatOutcome::Lost);
                assert_eq!(client.finish(&frozen, Ending::Done).await, FinishOutcome::Lost);
                assert_eq!(client.finish(&frozen, failed("no")).await, FinishOutcome::Lost);
                assert_eq!(client.hand_over(&frozen).await, ReleaseOutcome::Lost);
                assert_eq!(client.give_back(&frozen).await, ReleaseOutcome::Lost);
            })
            .await;
    };
    cannot().await;
    assert_eq!(other.beat(&next, LONG).await, BeatOutcome::Alive);
    assert_eq!(other.end(&next, failed("really")).await, Status::Failed);
    cannot().await;
    assert_eq!(
        (client.status(&frozen).await, client.status(&next).await),
        (AttemptStatus::Lost, AttemptStatus::Failed)
    );
}

/// Nor can one whose run was closed as dead.
pub async fn a_frozen_runner_cannot_finish_a_dead_run<F: Fixture<Backend: LeaseBackend>>(fixture: &F) {
    let client = Client::new(fixture).await;
    let frozen = client.win_and_die(&RunClaim { max_attempts: 1, ..client.scheduled(client.ago(1000)) }).await;
    assert_eq!(client.done(&client.takeover(frozen.run.slot)).await, Status::Dead);
    client
        .unchanged(async || {
            assert_eq!(client.finish(&frozen, Ending::Done).await, FinishOutcome::Lost);
            assert_eq!(client.hand_over(&frozen).await, ReleaseOutcome::Lost);
            assert_eq!(client.beat(&frozen, LONG).await, BeatOutcome::Lost);
        })
        .await;
}

/// A finish that is sent twice is answered the same, and recorded once.
pub async fn a_finish_sent_twice_is_answered_the_same<F: Fixture<Backend: LeaseBackend>>(fixture: &F) {
    let client = Client::new(fixture).await;
    for (ms, ending) in [(3000, Ending::Done), (2000, failed("no")), (1000, timed_out("slow"))] {
        let won = client.win(&client.scheduled(client.ago(ms))).await;
        let first = client.finish(&won, ending.clone()).await;
        assert!(matches!(first, FinishOutcome::Recorded { retry_in: None, .. }), "{first:?}");
        let other = client.other(fixture, "other").await;
        for client in [&client, &other] {
            client.unchanged(async || assert_eq!(client.finish(&won, ending.clone()).await, first)).await;
        }
    }
}

/// Also while the run waits for its retry, whose time does not move; and once the next attempt runs.
pub async fn a_finish_sent_twice_moves_no_retry<F: Fixture<Backend: LeaseBackend>>(fixture: &F) {
    let client = Client::new(fixture).await;
    let slot = client.ago(1000);
    let won = client.win(&RunClaim { retry_failed: Some(LONG), ..client.scheduled(slot) }).await;
    let mut left = LONG + Duration::from_millis(1);
    for _ in 0..3 {
        let answer = client.finish(&won, failed("no")).await;
        let FinishOutcome::Recorded { run: Status::Waiting, retry_in: Some(retry_in) } = answer else {
            panic!("the run waits, but {answer:?}");
        };
        assert!(retry_in > Duration::ZERO && retry_in < left, "{retry_in:?} of {left:?}");
        left = retry_in;
        client.pass(Duration::from_millis(2)).await;
    }
    let soon = client.on("soon");
    let won = soon.win(&RunClaim { retry_failed: Some(Duration::from_millis(1)), ..soon.scheduled(slot) }).await;
    assert_eq!(soon.end(&won, failed("no")).await, Status::Waiting);
    soon.until_over(&won.run).await;
    let next = soon.win(&soon.takeover(slot)).await;
    let copy = soon.unchanged(async || soon.finish(&won, failed("no")).await).await;
    assert!(matches!(copy, FinishOutcome::Recorded { .. }), "it was recorded, whatever became of the run: {copy:?}");
    assert_eq!(soon.end(&next, Ending::Done).await, Status::Done);
}

/// A release that is sent twice is answered the same, and counts once.
pub async fn a_release_sent_twice_is_answered_the_same<F: Fixture<Backend: LeaseBackend>>(fixture: &F) {
    let client = Client::new(fixture).await;
    for how in ["handed over", "given back"] {
        let (client, claim, won) = ended(&client, how).await;
        let release = Release { run: won.run.clone(), token: won.token, returned: how == "given back" };
        client.unchanged(async || assert_eq!(client.release(&release).await, ReleaseOutcome::Released)).await;
        let next = client.win(&client.takeover(claim.slot)).await;
        client.unchanged(async || assert_eq!(client.release(&release).await, ReleaseOutcome::Released)).await;
        assert_eq!(client.beat(&next, LONG).await, BeatOutcome::Alive, "{how}: the next attempt is not given up");
    }
}

/// Of a finish and a release, the first that comes decides.
pub async fn the_first_of_finish_and_release_decides<F: Fixture<Backend: LeaseBackend>>(fixture: &F) {
    let client = Client::new(fixture).await;
    for (how, _) in ENDS {
        let (client, _, won) = ended(&client, how).await;
        let finished = matches!(how, "finished" | "failed" | "waiting");
        client
            .unchanged(async || {
                if finished || how == "lost" {
                    assert_eq!(client.hand_over(&won).await, ReleaseOutcome::Lost, "{how}");
                    assert_eq!(client.give_back(&won).await, ReleaseOutcome::Lost, "{how}");
                }
                if !finished {
                    assert_eq!(client.finish(&won, Ending::Done).await, FinishOutcome::Lost, "{how}");
                    assert_eq!(client.finish(&won, failed("no")).await, FinishOutcome::Lost, "{how}");
                }
            })
            .await;
    }
}

/// Another ending than the one that was recorded changes nothing.
pub async fn the_first_ending_stands<F: Fixture<Backend: LeaseBackend>>(fixture: &F) {
    let client = Client::new(fixture).await;
    for (how, other) in [("finished", failed("after all")), ("failed", Ending::Done), ("waiting", Ending::Done)] {
        let (client, _, won) = ended(&client, how).await;
        client.unchanged(async || client.finish(&won, other).await).await;
    }
}

/// A return that comes before the claim it is about finds nothing, and is sent again: the claim's copy may still win,
/// and once it is returned no other copy can.
pub async fn a_return_that_overtook_its_claim_is_lost_and_repeated<F: Fixture<Backend: LeaseBackend>>(fixture: &F) {
    let client = Client::new(fixture).await;
    let claim = client.scheduled(client.ago(1000));
    let release = Release::unstarted(claim.key(), claim.token);
    assert_eq!(client.release(&release).await, ReleaseOutcome::Lost);
    client.assert_nothing_written().await;
    let won = client.win(&claim).await;
    assert_eq!(client.release(&release).await, ReleaseOutcome::Released);
    for _ in 0..2 {
        client.unchanged(async || assert!(matches!(client.claim(&claim).await, ClaimOutcome::Done { .. }))).await;
        client.unchanged(async || assert_eq!(client.release(&release).await, ReleaseOutcome::Released)).await;
    }
    assert_eq!(client.win(&client.scheduled(claim.slot)).await.attempt, won.attempt, "the slot is for others to run");
}

/// A copy of a losing claim that comes late may win a run that its sender no longer wants; giving it back works.
pub async fn a_late_copy_of_a_losing_claim_can_be_given_back<F: Fixture<Backend: LeaseBackend>>(fixture: &F) {
    let client = Client::new(fixture).await;
    let won = client.win(&client.scheduled(client.ago(1000))).await;
    let loser = client.scheduled(won.run.slot);
    assert!(matches!(client.claim(&loser).await, ClaimOutcome::Running { .. }));
    client.hand_over(&won).await;
    let late = client.win(&loser).await;
    assert_eq!(client.give_back(&late).await, ReleaseOutcome::Released);
    assert!(matches!(client.claim(&loser).await, ClaimOutcome::Done { .. }));
    assert_eq!(client.win(&client.takeover(won.run.slot)).await.attempt, 2);
}
