//! What instances ask of a server while they run jobs, counted by the server itself.

use std::collections::HashMap;
use std::time::Duration;

use anarchon::run::{Beat, BeatOutcome, RunClaim};
use anarchon::{LeaseBackend as _, Overlap, RedisBackend, Scheduler};
use redis::cmd;
use tests::LONG;
use tests::servers::Redis;
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};
use tokio::time::timeout;

use crate::{BOTH, block_on, claim, connected, job, with};

/// How long instances are watched, in s.
const WATCHED: u64 = 15;

/// What a server has counted since it was last told to begin anew.
pub(crate) struct Counts(HashMap<String, u64>);

impl Counts {
    pub(crate) fn begin(server: &Redis) {
        server.ask::<()>(cmd("CONFIG").arg("RESETSTAT"));
    }

    pub(crate) fn of(server: &Redis) -> Self {
        let info: String = server.ask(cmd("INFO").arg("commandstats"));
        let count = |line: &str| {
            let (name, figures) = line.strip_prefix("cmdstat_")?.split_once(":calls=")?;
            Some((name.to_owned(), figures.split(',').next()?.parse().ok()?))
        };
        Self(info.lines().filter_map(count).collect())
    }

    pub(crate) fn get(&self, command: &str) -> u64 {
        self.0.get(command).copied().unwrap_or_default()
    }

    /// Commands that came over a connection. A script asks for the time once, and that is counted, too.
    fn sent(&self) -> u64 {
        let scripts = self.get("evalsha") + self.get("eval");
        scripts + self.get("time").saturating_sub(scripts)
    }
}

/// Instances on one server, and a word from each run that is over.
struct Instances {
    schedulers: Vec<Scheduler<RedisBackend>>,
    ends: UnboundedReceiver<()>,
}

impl Instances {
    async fn start(server: &Redis, add: impl AsyncFn(&Scheduler<RedisBackend>, UnboundedSender<()>)) -> Self {
        let (end, ends) = unbounded_channel();
        let mut schedulers = Vec::new();
        for id in ["one", "two", "three"] {
            let builder = Scheduler::builder(RedisBackend::new(server.url())).instance_id(id);
            let scheduler = builder.start().await.expect("a scheduler");
            add(&scheduler, end.clone()).await;
            schedulers.push(scheduler);
        }
        Self { schedulers, ends }
    }

    /// Waits until so many more runs are over.
    async fn wait(&mut self, runs: u64) {
        for _ in 0..runs {
            let end = timeout(LONG + Duration::from_secs(WATCHED), self.ends.recv()).await;
            assert_eq!(end, Ok(Some(())), "a run ends");
        }
    }

    async fn stop(self) {
        for scheduler in self.schedulers {
            scheduler.stop().await.expect("it stops");
        }
    }
}

#[test]
fn one_job_on_three_instances_costs_a_claim_of_each_and_an_end_per_run() {
    for version in BOTH {
        let Some(server) = Redis::own(version) else { return };
        block_on(async {
            let mut instances = Instances::start(&server, async |scheduler, end| {
                let run = move || {
                    let end = end.clone();
                    async move { end.send(()).expect("somebody listens") }
                };
                scheduler.every("tick", "1s", run).add().await.expect("a job");
            })
            .await;
            instances.wait(1).await;
            Counts::begin(&server);
            instances.wait(WATCHED).await;
            let counts = Counts::of(&server);
            instances.stop().await;
            println!("{version:?}: {} commands for {WATCHED} runs of one job", counts.sent());
            // Four a run, and what is asked once in a while.
            assert!((3 * WATCHED..=6 * WATCHED).contains(&counts.sent()), "{:?}", counts.0);
        });
    }
}

#[test]
fn a_hundred_jobs_due_at_once_cost_few_calls_of_each_instance() {
    const JOBS: u64 = 100;
    const TICKS: u64 = WATCHED;
    for version in BOTH {
        let Some(server) = Redis::own(version) else { return };
        block_on(async {
            let mut instances = Instances::start(&server, async |scheduler, end| {
                for number in 0..JOBS {
                    let end = end.clone();
                    let run = move || {
                        let end = end.clone();
                        async move { end.send(()).expect("somebody listens") }
                    };
                    scheduler.every(format!("job-{number}"), "1s", run).add().await.expect("a job");
                }
            })
            .await;
            instances.wait(JOBS).await;
            Counts::begin(&server);
            instances.wait(JOBS * TICKS).await;
            let counts = Counts::of(&server);
            instances.stop().await;
            println!("{version:?}: {} commands for {TICKS} ticks of {JOBS} jobs", counts.sent());
            // At most four calls for claims of each instance, and some for ends; one by one they would be 400.
            assert!((3 * TICKS..=60 * TICKS).contains(&counts.sent()), "{:?}", counts.0);
        });
    }
}

#[test]
fn a_long_run_costs_its_heartbeats_and_the_looks_of_two_backups() {
    for version in BOTH {
        let Some(server) = Redis::own(version) else { return };
        block_on(async {
            let mut instances = Instances::start(&server, async |scheduler, end| {
                let run = move || {
                    let end = end.clone();
                    async move {
                        end.send(()).expect("somebody listens");
                        // The run itself is this long.
                        tokio::time::sleep(Duration::from_secs(WATCHED)).await;
                        end.send(()).expect("somebody listens");
                    }
                };
                let job = scheduler.every("long", "100s", run).offset(offset_of_now(3));
                job.overlap(Overlap::Skip).add().await.expect("a job");
            })
            .await;
            instances.wait(1).await;
            Counts::begin(&server);
            instances.wait(1).await;
            let counts = Counts::of(&server);
            instances.stop().await;
            println!("{version:?}: {} commands while one run took {WATCHED} s", counts.sent());
            // A heartbeat every 5 s, and every 2 s a look of each of two backups.
            let due = WATCHED / 5 + 2 * (WATCHED / 2);
            assert!((due / 2..=due * 2 + 10).contains(&counts.sent()), "{:?}", counts.0);
        });
    }
}

/// The offset of a grid of 100 s whose next slot is due so many seconds from now.
fn offset_of_now(seconds: u64) -> Duration {
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).expect("it is later than 1970");
    Duration::from_secs((now.as_secs() + seconds) % 100)
}

#[test]
fn heartbeats_of_many_runs_of_one_job_read_and_write_it_once() {
    for version in BOTH {
        let Some(server) = Redis::own(version) else { return };
        block_on(async {
            let store = connected(&server.url()).await;
            let first = claim(&store, "a", 200).await;
            let other = with(&first, |claim| claim.job = job("b"));
            let mut claims: Vec<RunClaim> = (0..100)
                .map(|n| {
                    with(&first, |claim| {
                        claim.slot = anarchon::Slot::from_ms(first.slot.ms() + n);
                        claim.token = anarchon::Token::random();
                        claim.overlap = Overlap::Allow;
                    })
                })
                .collect();
            claims.insert(50, other);
            for claim in &claims {
                crate::fence(&store, claim).await;
            }
            let beats: Vec<Beat> = claims.iter().map(|c| Beat::new(c.key(), c.token, c.lease * 2)).collect();
            Counts::begin(&server);
            for answer in store.heartbeat_many(&beats).await {
                assert_eq!(answer.expect("an answer").value, BeatOutcome::Alive);
            }
            let counts = Counts::of(&server);
            assert_eq!((counts.get("hmget"), counts.get("hset")), (2, 2), "once for each job: {:?}", counts.0);
            let mut left: Vec<_> = store.active(&[]).await.expect("runs").value.into_iter().map(|r| r.left).collect();
            left.sort();
            assert!(left[0] > first.lease, "every lease is renewed: {left:?}");
        });
    }
}
