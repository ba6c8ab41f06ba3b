//! How often a client and its server go back and forth.

use anarchon::LeaseBackend as _;
use anarchon::backend::Backend as _;
use anarchon::run::{Beat, BeatOutcome, ClaimOutcome, Ending, Finish, Pause, Release, RunClaim, Status, Trim};
use tests::Proxy;
use tests::servers::Redis;

use crate::{BOTH, again, block_on, claim, connected, fence, finish, job, with};

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

#[test]
fn claims_of_all_kinds_in_one_call_are_answered_each_in_its_place() {
    for version in BOTH {
        let Some(server) = Redis::own(version) else { return };
        block_on(async {
            let store = connected(&server.url()).await;
            let old = claim(&store, "a", 2000).await;
            let of = |name: &str| with(&again(&old), |claim| claim.job = job(name));
            // All but one are known to the server. What is unusual is decided apart, and so is what comes after it.
            let names = ["a", "b", "done", "known", "live", "new", "paused", "z"];
            for name in names.iter().filter(|name| **name != "new") {
                let past = of(name);
                fence(&store, &past).await;
                if *name != "live" {
                    finish(&store, &past, Ending::Done).await;
                }
            }
            store.set_paused(&job("paused"), Some(&Pause::new("me", ""))).await.expect("an answer");
            let newer = |claim: &mut RunClaim| claim.slot = anarchon::Slot::from_ms(claim.slot.ms() + 500);
            let mut claims: Vec<RunClaim> = names
                .iter()
                .map(|name| if matches!(*name, "done" | "live") { of(name) } else { with(&of(name), newer) })
                .collect();
            // One is told again that it has won, and another one comes second.
            fence(&store, &claims[3]).await;
            claims.push(again(&claims[0]));
            let answers = store.claim_many(&claims).await.into_iter().map(|answer| answer.expect("an answer").value);
            for (claim, answer) in claims.iter().zip(answers) {
                let right = match (claim.job.as_str(), claim.token == claims[8].token) {
                    ("live", _) | ("a", true) => matches!(answer, ClaimOutcome::Running { .. }),
                    ("done", _) => answer == ClaimOutcome::Done { status: Status::Done },
                    ("paused", _) => answer == ClaimOutcome::Paused { recorded: true },
                    _ => matches!(answer, ClaimOutcome::Won { attempt: 1, .. }),
                };
                assert!(right, "{} on {version:?}: {answer:?}", claim.job);
            }
            let held = store.active(&[]).await.expect("an answer").value;
            let held: Vec<&str> = held.iter().map(|run| run.run.job.as_str()).collect();
            assert_eq!(held, ["a", "b", "known", "live", "new", "z"]);
        });
    }
}
