//! How many messages a run costs, each with its answer; and that a lost claim costs no more than a look.

use std::sync::atomic::Ordering;

use anarchon::backend::Backend as _;
use anarchon::run::{Beat, Ending, Finish, RunKey, SlotClaim, SlotOutcome};
use anarchon::{ClaimBackend as _, LeaseBackend as _, NatsBackend, NatsKvBackend, Slot, Token};
use async_nats::Client;
use tests::backends::{claim, finish, instance, job, won};
use tests::servers::{Nats, NatsVersion};

use crate::{block_on, client, now};

/// Counts what is sent over a connection, and what comes.
struct Counter {
    client: Client,
    before: (u64, u64),
}

impl Counter {
    fn of(client: &Client) -> Self {
        Self { client: client.clone(), before: (0, 0) }
    }

    fn now(&self) -> (u64, u64) {
        let counts = self.client.statistics();
        (counts.out_messages.load(Ordering::Relaxed), counts.in_messages.load(Ordering::Relaxed))
    }

    fn begin(&mut self) {
        self.before = self.now();
    }

    /// Each message has had one answer, and there were so many.
    fn is(&self, expected: u64, what: &str) {
        let (sent, received) = self.now();
        assert_eq!((sent - self.before.0, received - self.before.1), (expected, expected), "{what}");
    }
}

/// What the time costs: 2.9 does not tell it, so a stamp is stored and read.
const fn clock(version: NatsVersion) -> u64 {
    match version {
        NatsVersion::Nats29 => 3,
        NatsVersion::Nats215 => 1,
    }
}

#[test]
fn without_leases_a_win_is_a_look_and_a_publish_a_loss_is_a_look_and_an_end_is_a_publish() {
    for version in NatsVersion::ALL {
        let Some(server) = Nats::own(version) else { return };
        let clock = clock(version);
        block_on(async {
            let client = client(&server).await;
            let store = NatsBackend::from_client(client.clone());
            store.connect().await.expect("a connection");
            let slot = Slot::from_ms(now(&store).await - 1000);
            let claims =
                || (0..100).map(|n| SlotClaim::new(job(&format!("job-{n}")), slot, Token::random(), instance("one")));
            let (first, others): (Vec<_>, Vec<_>) = (claims().collect(), claims().collect());
            let mut counter = Counter::of(&client);
            for (claims, outcome, each) in [(&first, SlotOutcome::Won, 2), (&others, SlotOutcome::Taken, 1)] {
                counter.begin();
                assert_eq!(store.claim(&claims[0]).await.expect("an answer").value, outcome);
                counter.is(clock + each, "a claim");
                counter.begin();
                for answer in store.claim_many(&claims[1..]).await {
                    assert_eq!(answer.expect("an answer").value, outcome);
                }
                counter.is(clock + 99 * each, "99 claims");
            }
            counter.begin();
            let run = RunKey::scheduled(first[0].job.clone(), slot);
            let end = Finish::new(run, first[0].token, Ending::Done, instance("one"), 0);
            store.finish(&end).await.expect("an answer");
            counter.is(1, "an end");
        });
    }
}

#[test]
fn with_leases_a_win_a_beat_and_an_end_are_a_look_and_a_publish_and_a_loss_is_a_look() {
    for version in NatsVersion::ALL {
        let Some(server) = Nats::own(version) else { return };
        let clock = clock(version);
        block_on(async {
            let client = client(&server).await;
            let store = NatsKvBackend::from_client(client.clone());
            store.connect().await.expect("a connection");
            let slot = now(&store).await - 1000;
            let claims = || (0..100).map(|n| claim(&format!("job-{n}"), slot)).collect::<Vec<_>>();
            let (first, others) = (claims(), claims());
            let mut counter = Counter::of(&client);
            for (claims, wins, each) in [(&first, true, 2), (&others, false, 1)] {
                counter.begin();
                assert_eq!(won(&store.claim(&claims[0]).await.expect("an answer").value), wins);
                counter.is(clock + each, "a claim");
                counter.begin();
                for answer in store.claim_many(&claims[1..]).await {
                    assert_eq!(won(&answer.expect("an answer").value), wins);
                }
                counter.is(clock + 99 * each, "99 claims");
            }
            counter.begin();
            let beat = Beat::new(first[0].key(), first[0].token, first[0].lease * 2);
            store.heartbeat(&beat).await.expect("an answer");
            counter.is(clock + 2, "a beat");
            counter.begin();
            store.finish(&finish(&first[0], Ending::Done)).await.expect("an answer");
            counter.is(clock + 2, "an end");
        });
    }
}
