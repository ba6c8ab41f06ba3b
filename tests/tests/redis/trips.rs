//! How often a client and its server go back and forth.

use anarchon::LeaseBackend as _;
use anarchon::backend::Backend as _;
use anarchon::run::{Beat, BeatOutcome, ClaimOutcome, Ending, Finish, Release, RunClaim, Trim};
use tests::Proxy;
use tests::servers::Redis;

use crate::{BOTH, again, block_on, claim, connected, job, with};

#[test]
fn each_call_is_one_round_trip_and_one_about_a_hundred_jobs_too() {
    for version in BOTH {
        let Some(server) = Redis::own(version) else { return };
        let proxy = Proxy::before(server.address());
        block_on(async {
            let store = connected(&server.url_through(proxy.address())).await;
            let first = claim(&store, "a", 1000).await;
            let claims: Vec<RunClaim> =
                (0..100).map(|n| with(&again(&first), |claim| claim.job = job(&format!("job-{n:03}")))).collect();
            let beats: Vec<Beat> = claims.iter().map(|c| Beat::new(c.key(), c.token, c.lease)).collect();
            let end = |c: &RunClaim| Finish::new(c.key(), c.token, Ending::Done, c.instance.clone(), 0);
            let finishes: Vec<Finish> = claims.iter().map(end).collect();
            let releases: Vec<Release> = claims.iter().map(|c| Release::hand_over(c.key(), c.token)).collect();
            let trims: Vec<Trim> =
                claims.iter().take(8).map(|c| Trim::new(c.job.clone(), c.retention, c.limit)).collect();
            let names: Vec<_> = claims.iter().map(|c| c.job.clone()).collect();

            let mut before = (proxy.requests(), proxy.round_trips());
            let mut one = |what: &str| {
                let now = (proxy.requests(), proxy.round_trips());
                assert_eq!((now.0 - before.0, now.1 - before.1), (1, 1), "{what} on {version:?}");
                before = now;
            };
            assert!(matches!(store.claim(&first).await.expect("an answer").value, ClaimOutcome::Won { .. }));
            one("the first claim of all");
            for answer in store.claim_many(&claims).await {
                assert!(matches!(answer.expect("an answer").value, ClaimOutcome::Won { .. }));
            }
            one("100 claims");
            for answer in store.heartbeat_many(&beats).await {
                assert_eq!(answer.expect("an answer").value, BeatOutcome::Alive);
            }
            one("100 heartbeats");
            assert_eq!(store.active(&names).await.expect("an answer").value.len(), 100);
            one("a look at 100 jobs");
            store.release_many(&releases).await;
            one("100 releases");
            store.finish_many(&finishes).await;
            one("100 finishes");
            store.finish(&end(&first)).await.expect("an answer");
            one("a finish");
            store.heartbeat(&beats[0]).await.expect("an answer");
            one("a heartbeat");
            store.history(&first.job, 10).await.expect("an answer");
            one("a history");
            store.trim(&trims).await.expect("an answer");
            one("a trim of 8 jobs");
        });
    }
}
