//! Servers that are killed and started again.

use std::time::Duration;

use anarchon::backend::Backend as _;
use anarchon::run::{BeatOutcome, ClaimOutcome, Ending, Lateness, Registration, Status};
use anarchon::{BackendErrorKind, RedisBackend, Slot};
use redis::cmd;
use tests::Server as _;
use tests::servers::Redis;

use crate::{BOTH, again, beat, block_on, claim, connected, fence, finish, here, outcome, with};

#[test]
fn a_server_with_an_append_only_file_keeps_claims_leases_and_ends_when_it_is_killed() {
    for version in BOTH {
        let Some(mut server) = Redis::own_durable(version) else { return };
        block_on(async {
            let store = connected(&server.url()).await;
            let (live, done) = (claim(&store, "live", 1000).await, claim(&store, "done", 1000).await);
            let (won, _) = (fence(&store, &live).await, fence(&store, &done).await);
            finish(&store, &done, Ending::Done).await;
            server.kill();
            let error = outcome(&store, &live).await.expect_err("there is no server");
            assert_eq!(error.kind(), BackendErrorKind::Unknown, "{error}");
            server.start();
            assert_eq!(fence(&store, &live).await, won, "the same token wins again");
            assert!(matches!(outcome(&store, &again(&live)).await, Ok(ClaimOutcome::Running { .. })));
            assert_eq!(beat(&store, &live).await, BeatOutcome::Alive);
            let other = outcome(&store, &again(&done)).await.expect("an answer");
            assert_eq!(other, ClaimOutcome::Done { status: Status::Done });
        });
    }
}

#[test]
fn a_server_that_forgot_everything_runs_no_slot_of_before_and_gives_greater_fences() {
    for version in BOTH {
        let Some(mut server) = Redis::own(version) else { return };
        block_on(async {
            let store = connected(&server.url()).await;
            let mut first = claim(&store, "a", 0).await;
            first.identity = "every 1s".into();
            let registration = Registration::new(first.job.clone(), "every 1s", "every 1s", here());
            let registered = store.register(&[registration], Duration::from_secs(86_400)).await.expect("an answer");
            let floor = registered.value[0].floor;
            // Due after the floor.
            while crate::now(&store).await <= floor {
                tokio::time::sleep(Duration::from_millis(1)).await;
            }
            let slot = Slot::from_ms(floor + 1);
            first.floor = floor;
            let won = with(&again(&first), |claim| claim.slot = slot);
            let before = fence(&store, &won).await;
            server.kill();
            server.start();
            assert_eq!(beat(&store, &won).await, BeatOutcome::Lost, "its holder is told");
            let old = with(&again(&first), |claim| claim.slot = Slot::from_ms(floor));
            assert_eq!(outcome(&store, &old).await.expect("an answer"), ClaimOutcome::Late(Lateness::Floor));
            let now = crate::now(&store).await;
            let next = with(&again(&first), |claim| claim.slot = Slot::from_ms(now));
            assert!(fence(&store, &next).await > before);
        });
    }
}

#[test]
fn a_claim_that_waits_for_a_replica_is_won_once_that_has_it_and_survives_a_failover_to_it() {
    for version in BOTH {
        let (Some(mut primary), Some(mut replica)) = (Redis::own(version), Redis::own(version)) else { return };
        let address = primary.address();
        replica.ask::<()>(cmd("REPLICAOF").arg(address.ip().to_string()).arg(address.port()));
        block_on(async {
            let wait = Duration::from_millis(300);
            let store = RedisBackend::new(primary.url()).wait_replicas(1, wait);
            store.connect().await.expect("an answer");
            let (first, second) = (claim(&store, "first", 1000).await, claim(&store, "second", 1000).await);
            // The replica is a moment away from being one.
            let since = std::time::Instant::now();
            let won = loop {
                match outcome(&store, &first).await {
                    Ok(ClaimOutcome::Won { fence: Some(fence), .. }) => break fence,
                    Ok(other) => panic!("it wins, but {other:?}"),
                    Err(error) => assert_eq!(error.kind(), BackendErrorKind::Unknown, "{error}"),
                }
                assert!(since.elapsed() < tests::LONG, "the replica does not follow");
            };
            replica.freeze();
            let error = outcome(&store, &second).await.expect_err("nobody has received it");
            assert_eq!(error.kind(), BackendErrorKind::Unknown, "{error}");
            assert!(error.to_string().contains("0 of 1 replicas"), "{error}");
            let other = outcome(&store, &again(&second)).await.expect("losing needs no replica");
            assert!(matches!(other, ClaimOutcome::Running { .. }), "{other:?}");
            replica.thaw();
            fence(&store, &second).await;
            primary.kill();
            replica.ask::<()>(cmd("REPLICAOF").arg("NO").arg("ONE"));
            let promoted = connected(&replica.url()).await;
            assert_eq!(fence(&promoted, &first).await, won, "the replica knows of it");
        });
    }
}
