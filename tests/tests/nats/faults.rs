//! What goes wrong between a client and its server, and with the server, on the store with leases.

use anarchon::backend::Backend as _;
use anarchon::run::{Beat, BeatOutcome, ClaimOutcome, Ending, FinishOutcome, Release, ReleaseOutcome, RunClaim};
use anarchon::{LeaseBackend as _, NatsKvBackend, Token};
use tests::backends::{answer, attempts, claim, finish, race, won};
use tests::servers::{Nats, NatsVersion};
use tests::{Proxy, Server as _};

use crate::{ask, block_on, client, clock_shows, connected, now, number, own_servers, publish};

fn through(proxy: &Proxy) -> NatsKvBackend {
    NatsKvBackend::new(proxy.address().to_string())
}

fn again(claim: &RunClaim) -> RunClaim {
    let mut again = claim.clone();
    again.token = Token::random();
    again
}

async fn outcome(store: &NatsKvBackend, claim: &RunClaim) -> ClaimOutcome {
    answer(async || store.claim(claim).await).await.value
}

async fn beat(store: &NatsKvBackend, claim: &RunClaim) -> BeatOutcome {
    let beat = Beat::new(claim.key(), claim.token, claim.lease);
    answer(async || store.heartbeat(&beat).await).await.value
}

#[test]
fn a_claim_whose_connection_breaks_anywhere_wins_once_with_its_token() {
    for server in own_servers() {
        let proxy = Proxy::before(server.address());
        block_on(async {
            let store = through(&proxy);
            store.connect().await.expect("a connection");
            for n in 1..=5 {
                for (name, cut) in [("before", Proxy::cut_before as fn(&Proxy, u64)), ("after", Proxy::cut_after)] {
                    let name = format!("{name}-{n}");
                    let claim = claim(&name, now(&store).await - 1000);
                    cut(&proxy, n);
                    let first = outcome(&store, &claim).await;
                    assert!(won(&first), "{name}: {first:?}");
                    // What was to be cut and was not needed for the claim is cut by these.
                    assert_eq!(outcome(&store, &claim).await, first, "{name}: one attempt");
                    assert!(matches!(outcome(&store, &again(&claim)).await, ClaimOutcome::Running { .. }), "{name}");
                    let end = finish(&claim, Ending::Done);
                    let end = answer(async || store.finish(&end).await).await.value;
                    assert!(matches!(end, FinishOutcome::Recorded { .. }), "{name}: {end:?}");
                    assert_eq!(answer(async || store.history(&claim.job, 10).await).await.len(), 1, "{name}");
                }
            }
            assert!(proxy.accepted() > 5, "connections were cut: {}", proxy.accepted());
        });
    }
}

#[test]
fn a_claim_whose_reply_never_comes_wins_with_its_token_on_a_new_connection() {
    for server in own_servers() {
        let proxy = Proxy::before(server.address());
        block_on(async {
            let store = through(&proxy);
            store.connect().await.expect("a connection");
            let claim = claim("silent", now(&store).await - 1000);
            proxy.swallow_reply(2);
            assert!(won(&outcome(&store, &claim).await));
            assert_eq!(attempts(&store, "silent").await.len(), 1);
            assert!(proxy.accepted() > 1);
        });
    }
}

#[test]
fn instances_that_give_calls_up_and_race_never_run_two_at_once() {
    for server in own_servers() {
        race(|| NatsKvBackend::new(server.url()), 60, 30);
    }
}

#[test]
fn instances_whose_connections_break_again_and_again_never_run_two_at_once() {
    for server in own_servers() {
        let proxy = Proxy::before(server.address());
        for n in 1..=100 {
            let cut = [Proxy::cut_before, Proxy::cut_after][n % 2];
            cut(&proxy, n as u64 * 50);
        }
        race(|| through(&proxy), 40, 10);
        // Of these, four at first, and one that looks at what became of it all.
        assert!(proxy.accepted() > 5 + 10, "connections were cut: {} there were", proxy.accepted());
    }
}

#[test]
fn a_killed_server_forgets_no_run_no_end_and_no_pause() {
    for mut server in own_servers() {
        let url = server.url();
        block_on(async {
            let store = connected(&url).await;
            let (open, ended) = (claim("open", now(&store).await - 1000), claim("ended", now(&store).await - 1000));
            for claim in [&open, &ended] {
                assert!(won(&outcome(&store, claim).await));
            }
            let end = finish(&ended, Ending::Failed("no".to_owned()));
            answer(async || store.finish(&end).await).await;
            let pause = anarchon::run::Pause::new("me", "on holiday");
            store.set_paused(&ended.job, Some(&pause)).await.expect("an answer");
            server.kill();
            server.start();
            assert_eq!(beat(&store, &open).await, BeatOutcome::Alive);
            assert!(matches!(outcome(&store, &again(&open)).await, ClaimOutcome::Running { .. }));
            assert!(matches!(outcome(&store, &again(&ended)).await, ClaimOutcome::Done { .. }));
            let note = answer(async || store.paused(&ended.job).await).await.map(|pause| pause.note);
            assert_eq!(note.as_deref(), Some("on holiday"));
            assert_eq!(attempts(&store, "ended").await[0].error.as_deref(), Some("no"));
        });
    }
}

/// A claim is on its way while its sender gives the token back: once that is answered, the claim does nothing any more.
#[test]
fn a_claim_that_arrives_after_its_return_was_answered_is_refused() {
    for server in own_servers() {
        block_on(async {
            let (store, client) = (connected(&server.url()).await, client(&server).await);
            let first = claim("late", now(&store).await - 5000);
            assert!(won(&outcome(&store, &first).await));
            answer(async || store.finish(&finish(&first, Ending::Done)).await).await;
            let subject = "$KV.anarchon.job.late";
            let read = number(&client, "KV_anarchon", subject).await.to_string();
            let late = claim("late", now(&store).await - 1000);
            let release = Release::unstarted(late.key(), late.token);
            assert_eq!(store.release(&release).await.expect("an answer").value, ReleaseOutcome::Lost);
            let expected = [("Nats-Expected-Last-Subject-Sequence", read.as_str())];
            let refused = publish(&client, subject, &expected, "what the claim would have written").await;
            assert!(refused.contains("wrong last sequence"), "{refused}");
        });
    }
}

#[test]
fn a_bucket_that_is_removed_is_made_again_and_runs_nothing_of_the_past_again() {
    for server in own_servers() {
        block_on(async {
            let (store, client) = (connected(&server.url()).await, client(&server).await);
            let start = now(&store).await;
            let past = claim("a", start - 1000);
            assert!(won(&outcome(&store, &past).await));
            ask(&client, "STREAM.DELETE.KV_anarchon", "").await;
            let mut other = again(&past);
            other.floor = start;
            assert!(matches!(outcome(&store, &other).await, ClaimOutcome::Late(_)));
            assert_eq!(beat(&store, &past).await, BeatOutcome::Lost);
            other.slot = anarchon::Slot::from_ms(start + 1);
            other.floor = start;
            clock_shows(&store, start + 2).await;
            assert!(won(&outcome(&store, &other).await));
        });
    }
}

#[test]
fn a_server_without_jetstream_is_refused_at_start() {
    for version in NatsVersion::ALL {
        let Some(server) = Nats::without_jetstream(version) else { return };
        block_on(async {
            let error = NatsKvBackend::new(server.url()).connect().await.expect_err("it has none");
            assert_eq!(error.kind(), anarchon::BackendErrorKind::Config, "{error}");
            assert!(error.to_string().contains("JetStream is not enabled"), "{error}");
        });
    }
}
