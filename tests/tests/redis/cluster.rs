//! A cluster of three nodes, and a replica of one of them.

use std::sync::Mutex;
use std::time::{Duration, Instant};

use anarchon::backend::Backend as _;
use anarchon::run::{ClaimOutcome, Ending, Registration, RunClaim};
use anarchon::testing::conformance::Fixture;
use anarchon::{AnyBackend, BackendErrorKind, LeaseBackend as _, MemoryBackend, RedisBackend, Token};
use redis::cluster::ClusterClient;
use redis::cmd;
use tests::LONG;
use tests::servers::{RedisCluster, RedisVersion};

use crate::{BOTH, again, beat, block_on, claim, fence, finish, here, job, outcome, with};

fn client(cluster: &RedisCluster) -> ClusterClient {
    let nodes: Vec<String> = cluster.addresses().iter().map(|address| format!("redis://{address}")).collect();
    ClusterClient::new(nodes).expect("a client")
}

async fn connected(cluster: &RedisCluster) -> RedisBackend {
    let store = RedisBackend::from_cluster(client(cluster));
    store.connect().await.expect("a connection");
    store
}

/// A job whose keys are on a node.
fn job_on(cluster: &RedisCluster, node: usize) -> String {
    let here = |name: &str| node_of(cluster, &format!("cron:{{{name}}}")) == node;
    (0..).map(|n| format!("job-{n}")).find(|name| here(name)).expect("one of many")
}

fn node_of(cluster: &RedisCluster, key: &str) -> usize {
    let slot: u16 = cluster.node(0).ask(cmd("CLUSTER").arg("KEYSLOT").arg(key));
    usize::from(slot) / (16384 / 3 + 1)
}

/// A corner of the cluster that the tests of the suite share.
struct Corner(Option<(ClusterClient, String)>, MemoryBackend);

impl Corner {
    fn new() -> Self {
        static SHARED: Mutex<Option<Option<RedisCluster>>> = Mutex::new(None);
        let mut shared = SHARED.lock().expect("no cluster has failed before");
        let cluster = shared.get_or_insert_with(|| RedisCluster::own(RedisVersion::Redis8));
        let corner = cluster.as_ref().map(|cluster| (client(cluster), format!("{}:", Token::random())));
        Self(corner, MemoryBackend::new())
    }
}

impl Fixture for Corner {
    type Backend = AnyBackend;

    async fn backend(&self) -> AnyBackend {
        match &self.0 {
            Some((client, prefix)) => AnyBackend::new(RedisBackend::from_cluster(client.clone()).prefix(prefix)),
            None => AnyBackend::new(self.1.clone()),
        }
    }
}

anarchon::lease_conformance!(cluster, || async { Corner::new() });
anarchon::history_by_age_conformance!(cluster_by_age, || async { Corner::new() });

#[test]
fn a_node_of_a_cluster_is_no_server_of_its_own() {
    let Some(cluster) = RedisCluster::own(RedisVersion::Redis8) else { return };
    block_on(async {
        let error = RedisBackend::new(cluster.node(0).url()).connect().await.expect_err("it is one of several");
        assert_eq!(error.kind(), BackendErrorKind::Config, "{error}");
        assert!(error.to_string().contains("`from_cluster`"), "{error}");
    });
}

#[test]
fn a_job_whose_keys_have_moved_to_another_node_is_followed_there() {
    for version in BOTH {
        let Some(cluster) = RedisCluster::own(version) else { return };
        block_on(async {
            let store = connected(&cluster).await;
            let name = job_on(&cluster, 1);
            fence(&store, &claim(&store, &job_on(&cluster, 2), 1000).await).await;
            // Nothing of it is stored yet, so that it can move at once.
            let slot: u16 = cluster.node(0).ask(cmd("CLUSTER").arg("KEYSLOT").arg(format!("cron:{{{name}}}")));
            let new_home = cluster.id(2);
            for node in 0..3 {
                cluster.node(node).ask::<()>(cmd("CLUSTER").arg("SETSLOT").arg(slot).arg("NODE").arg(&new_home));
            }
            let claim = claim(&store, &name, 1000).await;
            fence(&store, &claim).await;
            assert_eq!(cluster.node(2).ask::<u64>(cmd("EXISTS").arg(format!("cron:{{{name}}}"))), 1);
            assert!(matches!(
                finish(&store, &claim, Ending::Done).await,
                anarchon::run::FinishOutcome::Recorded { .. }
            ));
        });
    }
}

#[test]
fn a_job_that_came_back_is_not_forgotten_however_old_its_place_in_the_index_is() {
    let Some(cluster) = RedisCluster::own(RedisVersion::Redis8) else { return };
    block_on(async {
        const MONTH: Duration = Duration::from_secs(30 * 86_400);
        let store = connected(&cluster).await;
        let registration = |name: &str| [Registration::new(job(name), "every 1s", "every 1s", here())];
        let name = job_on(&cluster, 1);
        let key = format!("cron:{{{name}}}");
        store.register(&registration(&name), MONTH).await.expect("an answer");
        let index = cluster.node(node_of(&cluster, "cron:jobs"));
        for (touched_long_ago, exists) in [(false, 1), (true, 0)] {
            index.ask::<()>(cmd("ZADD").arg("cron:jobs").arg(1).arg(&key));
            if touched_long_ago {
                cluster.node(1).ask::<()>(cmd("HSET").arg(&key).arg("touched").arg(1));
            }
            store.register(&registration("other"), MONTH).await.expect("an answer");
            assert_eq!(cluster.node(1).ask::<u64>(cmd("EXISTS").arg(&key)), exists, "{touched_long_ago}");
        }
        assert_eq!(index.ask::<Vec<String>>(cmd("ZRANGE").arg("cron:jobs").arg(0).arg(-1)), ["cron:{other}"]);
    });
}

#[test]
fn jobs_of_all_nodes_are_claimed_at_once_and_a_killed_primary_costs_only_a_while() {
    for version in BOTH {
        let Some(mut cluster) = RedisCluster::own(version) else { return };
        block_on(async {
            let store = connected(&cluster).await.wait_replicas(0, Duration::from_millis(100));
            let base = claim(&store, "base", 1000).await;
            let claims: Vec<RunClaim> =
                (0..60).map(|n| with(&again(&base), |claim| claim.job = job(&format!("all-{n:02}")))).collect();
            for answer in store.claim_many(&claims).await {
                assert!(matches!(answer.expect("an answer").value, ClaimOutcome::Won { .. }));
            }
            let (on_first, on_second) = (job_on(&cluster, 0), job_on(&cluster, 1));
            let replicated = RedisBackend::from_cluster(client(&cluster)).wait_replicas(1, Duration::from_secs(5));
            let lost = with(&again(&base), |claim| claim.job = job(&on_first));
            let kept = with(&again(&base), |claim| claim.job = job(&on_second));
            let won = fence(&replicated, &lost).await;
            fence(&store, &kept).await;
            cluster.kill(0);
            let since = Instant::now();
            let again_won = loop {
                match tokio::time::timeout(Duration::from_secs(2), outcome(&store, &lost)).await {
                    Ok(Ok(ClaimOutcome::Won { fence, .. })) => break fence,
                    Ok(Ok(other)) => panic!("the replica knows who won, but {other:?}"),
                    Ok(Err(error)) => {
                        let may_be_repeated =
                            matches!(error.kind(), BackendErrorKind::Unknown | BackendErrorKind::Busy);
                        assert!(may_be_repeated, "{error}");
                        tokio::time::sleep(Duration::from_millis(20)).await;
                    }
                    Err(_) => {}
                }
                assert!(since.elapsed() < LONG, "the replica does not take over");
            };
            assert_eq!(again_won, Some(won), "the same attempt");
            assert_eq!(beat(&store, &kept).await, anarchon::run::BeatOutcome::Alive);
            let other = outcome(&store, &again(&lost)).await.expect("an answer");
            assert!(matches!(other, ClaimOutcome::Running { .. }), "{other:?}");
        });
    }
}
