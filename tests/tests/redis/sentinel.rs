//! A server that a sentinel names, and the one that takes its place.

use std::time::Duration;

use anarchon::backend::Backend as _;
use anarchon::run::{BeatOutcome, ClaimOutcome};
use anarchon::{BackendErrorKind, LeaseBackend as _, RedisBackend};
use redis::sentinel::{SentinelClient, SentinelServerType};
use tests::backends::answer;
use tests::servers::RedisSentinel;

use crate::{BOTH, again, block_on, claim, fence, outcome};

fn client(sentinel: &RedisSentinel, name: &str) -> SentinelClient {
    let sentinels = vec![format!("redis://{}", sentinel.address())];
    SentinelClient::build(sentinels, String::from(name), None, SentinelServerType::Master).expect("a client")
}

#[test]
fn a_lease_lives_on_through_a_failover_that_a_sentinel_makes() {
    for version in BOTH {
        let Some(mut sentinel) = RedisSentinel::own(version) else { return };
        block_on(async {
            let wait = Duration::from_millis(500);
            let store = RedisBackend::from_sentinel(client(&sentinel, sentinel.name())).wait_replicas(1, wait);
            answer(async || store.connect().await).await;
            let first = claim(&store, "first", 1000).await;
            // Once it is won, the replica has it.
            answer(async || store.claim(&first).await).await;
            let won = fence(&store, &first).await;
            sentinel.fail_over();
            let beat = anarchon::run::Beat::new(first.key(), first.token, first.lease);
            assert_eq!(answer(async || store.heartbeat(&beat).await).await.value, BeatOutcome::Alive);
            let other = outcome(&store, &again(&first)).await.expect("losing needs no replica");
            assert!(matches!(other, ClaimOutcome::Running { .. }), "{other:?}");
            let store = RedisBackend::from_sentinel(client(&sentinel, sentinel.name()));
            assert_eq!(fence(&store, &first).await, won);
        });
    }
}

#[test]
fn a_name_that_no_sentinel_knows_is_told() {
    let Some(sentinel) = RedisSentinel::own(BOTH[0]) else { return };
    block_on(async {
        let store = RedisBackend::from_sentinel(client(&sentinel, "other"));
        let error = store.connect().await.expect_err("there is none");
        assert_eq!(error.kind(), BackendErrorKind::Busy, "{error}");
        assert!(error.to_string().contains("sentinels name no primary"), "{error}");
        assert!(format!("{store:?}").contains("sentinels"), "{store:?}");
    });
}
