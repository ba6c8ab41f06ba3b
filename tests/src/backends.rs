//! What must hold for every lease backend on a real server, and short words to ask one.

use std::collections::HashMap;
use std::time::Duration;

use anarchon::run::{Beat, ClaimOutcome, Ending, Finish, FinishOutcome, Registration, RunClaim};
use anarchon::{AttemptRecord, BackendError, BackendErrorKind, InstanceId, JobName, LeaseBackend, Record, Slot, Token};

use crate::lab::LONG;

/// A job.
///
/// # Panics
/// When it cannot be one.
#[must_use]
pub fn job(name: &str) -> JobName {
    JobName::new(name).expect("a job's name")
}

/// An instance.
///
/// # Panics
/// When it cannot be one.
#[must_use]
pub fn instance(id: &str) -> InstanceId {
    InstanceId::new(id).expect("an instance's id")
}

/// A claim of a slot, however old, under `skip`, with a lease that outlasts a test.
#[must_use]
pub fn claim(name: &str, slot: i64) -> RunClaim {
    let mut claim = RunClaim::new(job(name), Slot::from_ms(slot), Token::random(), instance("one"));
    claim.limit = Duration::from_secs(100_000_000_000);
    claim.lease = LONG * 4;
    claim
}

/// Runs a future to its end, on a runtime of two threads.
///
/// # Panics
/// When there can be none, as inside another, or when there is no end to it: a test that waits for ever would hide the
/// outcome of all others.
pub fn block_on<F: Future>(future: F) -> F::Output {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build();
    runtime.expect("a runtime").block_on(async {
        let ended = tokio::time::timeout(LONG * 20, future).await;
        ended.unwrap_or_else(|_| panic!("no end in {:?}", LONG * 20))
    })
}

/// The finish of a claim that was won.
#[must_use]
pub fn finish(claim: &RunClaim, ending: Ending) -> Finish {
    Finish::new(claim.key(), claim.token, ending, claim.instance.clone(), 0)
}

/// Whether it was won.
#[must_use]
pub fn won(outcome: &ClaimOutcome) -> bool {
    matches!(outcome, ClaimOutcome::Won { .. })
}

/// The answer of a call that is repeated for as long as nobody knows what became of it, as the scheduler does.
///
/// # Panics
/// When it is refused, or never answered.
pub async fn answer<T>(mut ask: impl AsyncFnMut() -> Result<T, BackendError>) -> T {
    let since = std::time::Instant::now();
    loop {
        let error = match tokio::time::timeout(LONG, ask()).await {
            Ok(Ok(answer)) => return answer,
            Ok(Err(error)) => {
                assert!(matches!(error.kind(), BackendErrorKind::Busy | BackendErrorKind::Unknown), "{error}");
                error.to_string()
            }
            Err(_) => format!("silence for {LONG:?}"),
        };
        assert!(since.elapsed() < LONG * 4, "{error}");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

/// The attempts of a job, newest first.
///
/// # Panics
/// When they cannot be read.
pub async fn attempts(backend: &impl LeaseBackend, name: &str) -> Vec<AttemptRecord> {
    let records = answer(async || backend.history(&job(name), 10_000).await).await;
    let attempt = |record: Record| if let Record::Attempt(attempt) = record { Some(attempt) } else { None };
    records.into_iter().filter_map(attempt).collect()
}

/// Texts that mean something to some database, or to whoever puts one into a statement by hand.
pub const HOSTILE: &[&str] = &[
    "'; drop table anarchon_runs; --",
    "\"; delete from \"anarchon_runs\"",
    "`; drop table `anarchon_runs`; #",
    "\\'; select 1; \\",
    "' or '1'='1",
    "?1 ? :name @name $1 %s {}",
    "x'41' /* */ -- #",
    "null",
    "🦀 ñ é e\u{301} \u{202e}",
    "{a}b%00c",
];

/// Whatever a text holds, it is kept as it is, or refused as a whole; and nothing else happens.
///
/// # Panics
/// When a text comes back as another one, or an answer is wrong.
pub async fn keeps_hostile_texts(backend: &impl LeaseBackend) {
    let mut slot = 0;
    for text in HOSTILE {
        slot += 1000;
        let mut asked = claim(text, slot);
        asked.instance = instance(text);
        asked.identity = (*text).into();
        let registration = Registration::new(job(text), *text, format!("{text} 2026a"), instance(text));
        let registered = backend.register(&[registration], Duration::from_secs(1_000_000_000)).await;
        asked.floor = 0;
        assert_eq!(registered.expect("a registration").value.len(), 1);
        assert!(won(&backend.claim(&asked).await.expect("an answer").value) || registered_late(backend, &asked).await);
        let pause = anarchon::run::Pause::new(*text, text.repeat(3));
        backend.set_paused(&job(text), Some(&pause)).await.expect("a pause");
        let kept = backend.paused(&job(text)).await.expect("an answer").expect("a pause");
        assert_eq!((kept.by, kept.note), (pause.by, pause.note));
        backend.set_paused(&job(text), None).await.expect("a resume");
        let beat = Beat::new(asked.key(), asked.token, LONG);
        backend.heartbeat(&beat).await.expect("an answer");
    }
    // Errors may be long, and hold what names may not.
    let long: Vec<String> = HOSTILE.iter().map(|text| text.repeat(10_240 / text.len() + 1)).collect();
    let control = ["a\u{0}b".to_owned(), "\r\n\t\u{1b}[0m\u{7f}".to_owned(), "trailing ".to_owned(), " ".to_owned()];
    for (n, text) in (1_i64..).zip(long.iter().chain(&control)) {
        let asked = claim("errors", n);
        assert!(won(&backend.claim(&asked).await.expect("an answer").value), "{n}");
        let told = match backend.finish(&finish(&asked, Ending::Failed(text.clone()))).await {
            Ok(answer) => {
                assert!(matches!(answer.value, FinishOutcome::Recorded { .. }), "{answer:?}");
                text.clone()
            }
            Err(error) => {
                assert_eq!(error.kind(), BackendErrorKind::Refused, "{error}");
                let without = Ending::Failed("refused".to_owned());
                backend.finish(&finish(&asked, without)).await.expect("nothing was written");
                "refused".to_owned()
            }
        };
        let kept = attempts(backend, "errors").await;
        assert_eq!(kept.len(), usize::try_from(n).expect("few"));
        assert_eq!(kept[0].error.as_deref(), Some(told.as_str()));
    }
    for text in HOSTILE {
        let kept = attempts(backend, text).await;
        assert!(kept.iter().all(|attempt| attempt.run.job == job(text) && attempt.instance == *text), "{text}");
    }
    let mut jobs: Vec<String> =
        backend.active(&[]).await.expect("runs").value.into_iter().map(|run| run.run.job.to_string()).collect();
    jobs.sort();
    let mut expected: Vec<String> = HOSTILE.iter().map(|text| (*text).to_owned()).collect();
    expected.sort();
    assert_eq!(jobs, expected);
}

/// A slot before the registration was never owed: a newer one is.
async fn registered_late(backend: &impl LeaseBackend, asked: &RunClaim) -> bool {
    let now = backend.clock().await.expect("a clock").expect("the store has one");
    let mut newer = asked.clone();
    newer.slot = Slot::from_ms(now);
    won(&answer(async || backend.claim(&newer).await).await.value)
}

/// Several instances that start on an empty store at once all find it ready.
///
/// # Panics
/// When one of them does not.
pub fn several_start_at_once<B: LeaseBackend>(make: impl Fn() -> B + Sync) {
    std::thread::scope(|scope| {
        let starts: Vec<_> = (1..=6_i64)
            .map(|n| {
                let make = &make;
                scope.spawn(move || {
                    let runtime =
                        tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
                    runtime.block_on(async {
                        let backend = make();
                        answer(async || backend.connect().await).await;
                        let asked = claim(&format!("job-{n}"), n);
                        assert!(won(&answer(async || backend.claim(&asked).await).await.value));
                        backend.close().await;
                    });
                })
            })
            .collect();
        for start in starts {
            start.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic));
        }
    });
}

/// Instances race for slots of a few jobs under `skip`, with leases that run out; some calls are given up and sent again.
/// `gives_up` in a hundred are.
///
/// # Panics
/// When an attempt has two winners, two runs of a job are live at once, or a fence is given twice.
pub fn race<B: LeaseBackend>(make: impl Fn() -> B + Sync, slots: i64, gives_up: u64) {
    const NAMES: [&str; 3] = ["a", "b", "c"];
    const RACERS: u64 = 4;
    let racer = |seed: u64| {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
        runtime.block_on(async {
            let mut random = seed;
            let mut below = |bound: u64| {
                random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
                (random >> 33) % bound
            };
            let backend = make();
            answer(async || backend.connect().await).await;
            let mut wins = Vec::new();
            for slot in 1..=slots {
                let claims: Vec<RunClaim> = NAMES
                    .iter()
                    .map(|name| {
                        let mut claim = claim(name, slot * 1000);
                        claim.lease = Duration::from_millis([20, 60_000][usize::from(below(4) > 0)]);
                        claim
                    })
                    .collect();
                if below(100) < gives_up {
                    let patience = Duration::from_micros(below(3_000));
                    drop(tokio::time::timeout(patience, backend.claim_many(&claims)).await);
                }
                for claim in &claims {
                    let outcome = answer(async || backend.claim(claim).await).await.value;
                    assert!(!matches!(outcome, ClaimOutcome::Late(_)), "{outcome:?}");
                    let ClaimOutcome::Won { attempt, fence, .. } = outcome else { continue };
                    wins.push((claim.job.clone(), claim.slot, attempt, fence.expect("a fence"), claim.token));
                    if below(100) < 90 {
                        answer(async || backend.finish(&finish(claim, Ending::Done)).await).await;
                    }
                }
            }
            backend.close().await;
            wins
        })
    };
    let wins: Vec<_> = std::thread::scope(|scope| {
        let racer = &racer;
        let threads: Vec<_> = (1..=RACERS).map(|seed| scope.spawn(move || racer(seed))).collect();
        let joined = threads.into_iter().map(|thread| thread.join());
        joined.flat_map(|wins| wins.unwrap_or_else(|panic| std::panic::resume_unwind(panic))).collect()
    });
    let mut winners: HashMap<_, Token> = HashMap::new();
    let mut fences: HashMap<_, Token> = HashMap::new();
    for (job, slot, attempt, fence, token) in wins {
        let other = winners.insert((job.clone(), slot, attempt), token);
        assert!(other.is_none_or(|other| other == token), "{job} {slot} has two winners");
        let other = fences.insert((job.clone(), fence), token);
        assert!(other.is_none_or(|other| other == token), "{job}: fence {fence} was given twice");
    }
    assert!(!winners.is_empty(), "nobody wins");
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
    runtime.block_on(async {
        let backend = make();
        for name in NAMES {
            let span = |a: AttemptRecord| (a.fence, a.claimed_at, a.ended_at.unwrap_or(i64::MAX));
            let mut spans: Vec<_> = attempts(&backend, name).await.into_iter().map(span).collect();
            spans.sort_unstable();
            for pair in spans.windows(2) {
                assert!(pair[0].1 <= pair[1].1 && pair[0].2 <= pair[1].1, "{name}: two were live at once: {pair:?}");
            }
        }
        backend.close().await;
    });
}
