//! Three servers, of which the leader dies.

use std::time::Duration;

use anarchon::backend::Backend as _;
use anarchon::run::{Beat, BeatOutcome, ClaimOutcome, Ending, SlotClaim, SlotOutcome};
use anarchon::{BackendErrorKind, ClaimBackend as _, LeaseBackend as _, NatsBackend, NatsKvBackend, Slot, Token};
use tests::backends::{answer, attempts, claim, finish, instance, job, race, won};
use tests::servers::{Nats, NatsCluster, NatsVersion};
use tests::{LONG, Server as _};

use crate::block_on;

/// What the servers tell of a stream.
async fn info(urls: &str, stream: &str) -> serde_json::Value {
    let servers: Vec<&str> = urls.split(',').collect();
    let client = async_nats::connect(servers).await.expect("a connection");
    let info = crate::ask(&client, &format!("STREAM.INFO.{stream}"), "").await;
    serde_json::from_str(&info).expect("JSON")
}

/// The server that leads a stream.
async fn leader(urls: &str, stream: &str) -> String {
    let info = info(urls, stream).await;
    info["cluster"]["leader"].as_str().unwrap_or_else(|| panic!("no leader: {info}")).to_owned()
}

/// Waits until a stream has its replicas, and all of them have all that is in it. Tells how many there are.
async fn all_current(urls: &str, stream: &str) -> usize {
    let since = std::time::Instant::now();
    loop {
        let info = info(urls, stream).await;
        let others = info["cluster"]["replicas"].as_array().map_or(&[][..], Vec::as_slice);
        let current = others.iter().filter(|other| other["current"] == true).count();
        if info["config"]["num_replicas"] == current + 1 && info["cluster"]["leader"].is_string() {
            return current + 1;
        }
        assert!(since.elapsed() < LONG, "not within {LONG:?}: replicas that have everything: {info}");
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}

async fn time(store: &impl anarchon::Backend) -> i64 {
    answer(async || store.clock().await).await.expect("a clock")
}

#[test]
fn a_leader_that_is_killed_costs_no_run_and_no_decision() {
    for version in NatsVersion::ALL {
        let Some(mut cluster) = NatsCluster::own(version) else { return };
        let urls = cluster.urls();
        block_on(async {
            let store = NatsKvBackend::new(&urls).replicas(3);
            answer(async || store.connect().await).await;
            let (open, ended) = (claim("open", time(&store).await - 1000), claim("ended", time(&store).await - 1000));
            for claim in [&open, &ended] {
                assert!(won(&answer(async || store.claim(claim).await).await.value));
            }
            answer(async || store.finish(&finish(&ended, Ending::Done)).await).await;
            let dead = leader(&urls, "KV_anarchon").await;
            cluster.named(&dead).kill();
            let beat = Beat::new(open.key(), open.token, open.lease);
            assert_eq!(answer(async || store.heartbeat(&beat).await).await.value, BeatOutcome::Alive);
            let mut other = ended.clone();
            other.token = Token::random();
            assert!(matches!(answer(async || store.claim(&other).await).await.value, ClaimOutcome::Done { .. }));
            other.job = job("new");
            assert!(won(&answer(async || store.claim(&other).await).await.value));
            assert_ne!(leader(&urls, "KV_anarchon").await, dead);
            assert_eq!(attempts(&store, "ended").await.len(), 1);
        });
    }
}

#[test]
fn a_slot_that_was_won_stays_won_when_the_leader_is_killed() {
    for version in NatsVersion::ALL {
        let Some(mut cluster) = NatsCluster::own(version) else { return };
        let urls = cluster.urls();
        block_on(async {
            let store = NatsBackend::new(&urls).replicas(3);
            answer(async || store.connect().await).await;
            let slot = Slot::from_ms(time(&store).await - 1000);
            let first = SlotClaim::new(job("a"), slot, Token::random(), instance("one"));
            assert_eq!(answer(async || store.claim(&first).await).await.value, SlotOutcome::Won);
            let dead = leader(&urls, "CRON").await;
            cluster.named(&dead).kill();
            let other = SlotClaim::new(job("a"), slot, Token::random(), instance("two"));
            assert_eq!(answer(async || store.claim(&other).await).await.value, SlotOutcome::Taken);
            assert_eq!(answer(async || store.claim(&first).await).await.value, SlotOutcome::Won);
        });
    }
}

#[test]
fn instances_race_while_the_leader_is_killed_and_never_run_two_at_once() {
    let Some(mut cluster) = NatsCluster::own(NatsVersion::Nats215) else { return };
    let urls = cluster.urls();
    let dead = block_on(async {
        let store = NatsKvBackend::new(&urls).replicas(3);
        answer(async || store.connect().await).await;
        leader(&urls, "KV_anarchon").await
    });
    std::thread::scope(|scope| {
        let raced = scope.spawn(|| race(|| NatsKvBackend::new(&urls).replicas(3), 60, 10));
        // They have begun.
        block_on(async {
            while info(&urls, "KV_anarchon").await["state"]["last_seq"].as_u64() < Some(30) && !raced.is_finished() {
                tokio::time::sleep(Duration::from_millis(10)).await;
            }
        });
        cluster.named(&dead).kill();
        raced.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic));
    });
}

#[test]
fn replicas_are_added_to_a_stream_in_use_and_none_is_taken_away() {
    for version in NatsVersion::ALL {
        let Some(mut cluster) = NatsCluster::own(version) else { return };
        let urls = cluster.urls();
        block_on(async {
            let (claims, leases) = (NatsBackend::new(&urls), NatsKvBackend::new(&urls));
            answer(async || claims.connect().await).await;
            answer(async || leases.connect().await).await;
            let slot = time(&claims).await - 1000;
            let first = SlotClaim::new(job("a"), Slot::from_ms(slot), Token::random(), instance("one"));
            assert_eq!(answer(async || claims.claim(&first).await).await.value, SlotOutcome::Won);
            let open = claim("open", slot);
            assert!(won(&answer(async || leases.claim(&open).await).await.value));
            assert_eq!((all_current(&urls, "CRON").await, all_current(&urls, "KV_anarchon").await), (1, 1));
            for (count, is) in [(3, 3), (1, 3)] {
                answer(async || NatsBackend::new(&urls).replicas(count).connect().await).await;
                answer(async || NatsKvBackend::new(&urls).replicas(count).connect().await).await;
                let are = (all_current(&urls, "CRON").await, all_current(&urls, "KV_anarchon").await);
                assert_eq!(are, (is, is), "{version:?}: {count} were asked for");
            }
            // Those who were there all the time go on, on what the others have by now.
            let dead = leader(&urls, "CRON").await;
            cluster.named(&dead).kill();
            let other = SlotClaim::new(job("a"), Slot::from_ms(slot), Token::random(), instance("two"));
            assert_eq!(answer(async || claims.claim(&other).await).await.value, SlotOutcome::Taken);
            assert_eq!(answer(async || claims.claim(&first).await).await.value, SlotOutcome::Won);
            let beat = Beat::new(open.key(), open.token, open.lease);
            assert_eq!(answer(async || leases.heartbeat(&beat).await).await.value, BeatOutcome::Alive);
        });
    }
}

#[test]
fn more_replicas_than_there_are_servers_are_refused_and_told() {
    for version in NatsVersion::ALL {
        let Some(server) = Nats::own(version) else { return };
        let Some(cluster) = NatsCluster::own(version) else { return };
        block_on(async {
            for (urls, count, kind) in
                [(server.url(), 3, BackendErrorKind::Config), (cluster.urls(), 5, BackendErrorKind::Busy)]
            {
                for there in [false, true] {
                    if there {
                        answer(async || NatsBackend::new(&urls).connect().await).await;
                        answer(async || NatsKvBackend::new(&urls).connect().await).await;
                    }
                    let claims = NatsBackend::new(&urls).replicas(count);
                    let leases = NatsKvBackend::new(&urls).replicas(count);
                    for refused in [claims.connect().await, leases.connect().await] {
                        let Err(error) = refused else { panic!("{version:?}: {count}, there: {there}: {refused:?}") };
                        let told = error.to_string().contains("`replicas`");
                        assert!(told && error.kind() == kind, "{version:?}: {count}, there: {there}: {error}");
                    }
                }
            }
        });
    }
}
