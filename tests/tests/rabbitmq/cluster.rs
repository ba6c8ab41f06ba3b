//! Two brokers that are one cluster.

use std::time::{Duration, Instant};

use anarchon::run::SlotOutcome;
use anarchon::{BackendErrorKind, RabbitMqBackend};
use tests::Server as _;
use tests::servers::{RabbitMq, RabbitMqVersion};

use crate::{again, block_on, claim, connected, outcome, persistently};

#[test]
fn over_two_nodes_one_wins_and_a_slot_whose_node_is_down_is_won_by_nobody_else() {
    for version in RabbitMqVersion::ALL {
        let Some([one, mut two]) = RabbitMq::own_pair(version) else { return };
        block_on(async {
            let prefix = RabbitMq::prefix();
            let of = |server: &RabbitMq| connected(RabbitMqBackend::new(server.url()).prefix(&prefix));
            let (here, there) = (of(&one).await, of(&two).await);
            let mut won = Vec::new();
            for ago in 0..40 {
                let mine = claim("cluster", 100 + ago);
                let theirs = again(&mine);
                let outcomes = tokio::join!(persistently(&here, &mine), persistently(&there, &theirs));
                match outcomes {
                    (SlotOutcome::Won, SlotOutcome::Taken) => won.push(mine),
                    (SlotOutcome::Taken, SlotOutcome::Won) => won.push(theirs),
                    other => panic!("{version:?}: {other:?}"),
                }
            }
            // These queues are at home where they were declared.
            let far = claim("cluster", 99);
            assert_eq!(persistently(&there, &far).await, SlotOutcome::Won);
            two.kill();
            for claim in [&far, &again(&far)] {
                let since = Instant::now();
                match outcome(&here, claim).await {
                    // Nobody can be sure of it now.
                    Err(error) => assert_eq!(error.kind(), BackendErrorKind::Unknown, "{error}"),
                    // What it was decided to is known in the whole cluster.
                    Ok(outcome) => assert!(outcome == SlotOutcome::Taken && claim.token != far.token, "{outcome:?}"),
                }
                assert!(since.elapsed() < Duration::from_millis(4500), "{version:?}: {:?}", since.elapsed());
            }
            let new = claim("cluster", 98);
            match outcome(&here, &new).await {
                Ok(outcome) => assert_eq!(outcome, SlotOutcome::Won),
                // Without a majority nothing new is decided.
                Err(error) => assert_eq!(error.kind(), BackendErrorKind::Unknown, "{error}"),
            }
            two.start();
            won.push(far);
            for claim in &won {
                assert_eq!(persistently(&here, &again(claim)).await, SlotOutcome::Taken, "{version:?}");
                assert_eq!(persistently(&here, claim).await, SlotOutcome::Won, "{version:?}");
            }
            assert_eq!(persistently(&here, &new).await, SlotOutcome::Won);
        });
    }
}
