//! Three servers, of which the leader dies.

use anarchon::backend::Backend as _;
use anarchon::run::{Beat, BeatOutcome, ClaimOutcome, Ending, SlotClaim, SlotOutcome};
use anarchon::{ClaimBackend as _, LeaseBackend as _, NatsBackend, NatsKvBackend, Slot, Token};
use tests::Server as _;
use tests::backends::{answer, attempts, claim, finish, instance, job, race, won};
use tests::servers::{NatsCluster, NatsVersion};

use crate::block_on;

/// The server that leads a stream.
async fn leader(urls: &str, stream: &str) -> String {
    let servers: Vec<&str> = urls.split(',').collect();
    let client = async_nats::connect(servers).await.expect("a connection");
    let info = crate::ask(&client, &format!("STREAM.INFO.{stream}"), "").await;
    let info: serde_json::Value = serde_json::from_str(&info).expect("JSON");
    info["cluster"]["leader"].as_str().unwrap_or_else(|| panic!("no leader: {info}")).to_owned()
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
        std::thread::sleep(std::time::Duration::from_millis(300));
        cluster.named(&dead).kill();
        raced.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic));
    });
}
