//! What the server keeps of unfinished runs: the same, whichever way a claim went there.

use std::time::Duration;

use anarchon::run::{ClaimKind, ClaimOutcome, Ending, RunClaim};
use anarchon::testing::differential::HandClocked as _;
use anarchon::{InstanceId, LeaseBackend as _, Overlap, RedisBackend, Slot, Token};
use redis::cmd;
use tests::servers::{Redis, RedisVersion};

use crate::commands::Counts;
use crate::{block_on, connected, fence, finish, here, job, outcome, with};

const EACH: [RedisVersion; 4] =
    [RedisVersion::Redis7, RedisVersion::Redis8, RedisVersion::Valkey8, RedisVersion::Valkey9];

/// In the middle of an hour, since the first claim in one is decided by the whole table.
const NOW: i64 = 1_700_002_000_000;

/// A claim of a job's second slot.
fn plain() -> RunClaim {
    let mut claim = RunClaim::new(job("a"), Slot::from_ms(NOW - 1000), Token::random(), here());
    claim.limit = Duration::from_secs(3600);
    claim.floor = 0;
    claim
}

/// Claims that differ in what is stored, with numbers and texts of all lengths.
fn kinds() -> Vec<RunClaim> {
    let plain = plain();
    let named = |length| InstanceId::new("x".repeat(length)).expect("an instance id");
    vec![
        plain.clone(),
        with(&plain, |claim| claim.kind = ClaimKind::CatchUp),
        with(&plain, |claim| claim.overlap = Overlap::Allow),
        with(&plain, |claim| claim.max_attempts = 1),
        with(&plain, |claim| claim.max_attempts = 200),
        with(&plain, |claim| claim.max_attempts = 40_000),
        with(&plain, |claim| claim.max_attempts = u32::MAX),
        with(&plain, |claim| claim.retry_failed = Some(Duration::ZERO)),
        with(&plain, |claim| claim.retry_failed = Some(Duration::from_secs(10))),
        with(&plain, |claim| claim.takeover_within = Duration::ZERO),
        with(&plain, |claim| claim.takeover_within = Duration::MAX),
        with(&plain, |claim| claim.lease = Duration::from_millis(1)),
        with(&plain, |claim| claim.lease = Duration::from_secs(86_400 * 365)),
        with(&plain, |claim| claim.instance = named(31)),
        with(&plain, |claim| claim.instance = named(32)),
        with(&plain, |claim| claim.identity = "every 1s of a schedule with a long name".into()),
        with(&plain, |claim| claim.previous = Some(Slot::from_ms(NOW - 2000))),
    ]
}

/// The claims of jobs of their own, of which one slot is over.
async fn known(store: &RedisBackend, name: &str, claims: &[RunClaim]) -> Vec<RunClaim> {
    let mut known = Vec::new();
    for (number, claim) in claims.iter().enumerate() {
        let claim = with(claim, |claim| claim.job = job(&format!("{name}-{number}")));
        let older = with(&claim, |claim| {
            claim.slot = Slot::from_ms(NOW - 5000);
            claim.token = Token::random();
        });
        fence(store, &older).await;
        finish(store, &older, Ending::Done).await;
        known.push(claim);
    }
    known
}

/// What is stored of it, with each number packed in the same way.
fn stored(server: &Redis, claim: &RunClaim) -> Vec<u8> {
    let read = "return cmsgpack.pack(cmsgpack.unpack(redis.call('HGET', KEYS[1], 'open')))";
    server.ask(cmd("EVAL").arg(read).arg(1).arg(format!("cron:{{{}}}", claim.job)))
}

#[test]
fn a_claim_is_answered_and_stored_alike_alone_and_among_others_and_by_the_whole_table() {
    for version in EACH {
        let Some(server) = Redis::own(version) else { return };
        block_on(async {
            let store = connected(&server.url()).await;
            store.set_clock(NOW).await;
            let kinds = kinds();
            let alone = known(&store, "alone", &kinds).await;
            let among = known(&store, "among", &kinds).await;
            let mut table = known(&store, "table", &kinds).await;
            // From the first claim of a job that is not known, all of a call go by the table.
            table.insert(0, with(&plain(), |claim| claim.job = job("unknown")));

            Counts::begin(&server);
            let mut answers = Vec::new();
            for claim in &alone {
                answers.push(outcome(&store, claim).await.expect("an answer"));
            }
            let looks = Counts::of(&server).get("hmget");
            assert_eq!(looks, kinds.len() as u64, "a claim that goes by the table is looked at twice");
            Counts::begin(&server);
            let many = store.claim_many(&among).await;
            assert_eq!(Counts::of(&server).get("hmget"), kinds.len() as u64);
            let slow = store.claim_many(&table).await;
            for (number, claim) in kinds.iter().enumerate() {
                let answer = &answers[number];
                assert!(matches!(answer, ClaimOutcome::Won { attempt: 1, .. }), "{answer:?} to {claim:?}");
                assert_eq!(&many[number].as_ref().expect("an answer").value, answer, "{claim:?}");
                assert_eq!(&slow[number + 1].as_ref().expect("an answer").value, answer, "{claim:?}");
                let open = stored(&server, &alone[number]);
                assert_eq!(stored(&server, &among[number]), open, "{claim:?} on {version:?}");
                assert_eq!(stored(&server, &table[number + 1]), open, "{claim:?} on {version:?}");
            }
            // Who comes second is told the same both ways.
            for claims in [&alone, &table] {
                let second = with(&claims[1], |claim| claim.token = Token::random());
                let unknown = with(&plain(), |claim| claim.job = job(&format!("before-{}", second.job)));
                let left = ClaimOutcome::Running { left: second.lease };
                assert_eq!(outcome(&store, &second).await.expect("an answer"), left);
                let after = store.claim_many(&[unknown, second]).await.pop().expect("two answers");
                assert_eq!(after.expect("an answer").value, left);
            }
        });
    }
}

#[test]
fn what_a_client_has_packed_is_read_as_the_run_by_every_server() {
    for version in EACH {
        let Some(server) = Redis::own(version) else { return };
        block_on(async {
            let store = connected(&server.url()).await;
            store.set_clock(NOW).await;
            let claim = with(&plain(), |claim| {
                claim.token = Token::parse("00112233-4455-6677-8899-aabbccddeeff").expect("a token");
                claim.retry_failed = Some(Duration::from_secs(10));
                claim.overlap = Overlap::Allow;
            });
            let claim = known(&store, "a", &[claim]).await.remove(0);
            Counts::begin(&server);
            fence(&store, &claim).await;
            assert_eq!(Counts::of(&server).get("hmget"), 1, "by the quick way");
            let read = "return cjson.encode({ cmsgpack.unpack(redis.call('HGET', KEYS[1], 'open')) })";
            let read: String = server.ask(cmd("EVAL").arg(read).arg(1).arg("cron:{a-0}"));
            let (slot, until, fence) = (NOW - 1000, NOW + 15_000, NOW + 1);
            assert_eq!(
                read,
                format!(
                    "[[[\"{slot}\",\"{slot}\",\"00112233445566778899aabbccddeeff\",\"running\",1,0,0,false,3,10000,3600000,\
                     true,\"scheduled\",\"here\",{until},{NOW},{fence}]],{fence},{slot}]"
                ),
                "{version:?}"
            );
        });
    }
}
