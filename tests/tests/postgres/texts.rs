//! Texts that try to be SQL, or are merely strange.

use anarchon::run::{AttemptRecord, Ending, Finish, Pause, Registration, RunClaim};
use anarchon::{Backend as _, InstanceId, JobName, LeaseBackend as _, PostgresBackend, Record, Slot, Token};

use crate::place::{POOLED_1_18, Place, V18};
use crate::{claim, job, won};

/// splitmix64.
struct Random(u64);

impl Random {
    fn below(&mut self, bound: usize) -> usize {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        usize::try_from((z ^ (z >> 31)) % (bound as u64)).expect("it is below the bound")
    }
}

const PIECES: &[&str] = &[
    "'",
    "''",
    "\"",
    "\\",
    "\\'",
    "`",
    "$$",
    "$make$",
    "$body$",
    "?",
    "$1",
    ":a",
    "@",
    "%s",
    "{",
    "}",
    ",",
    "NULL",
    "null",
    ";",
    "'; drop table anarchon_runs; --",
    "--",
    "/*",
    "*/",
    "x'00'",
    "E'\\x27'",
    "U&'\\0027'",
    "\u{202e}",
    "🦀",
    "é",
    "e\u{301}",
    "ß",
    "日本",
    "a",
    "Z",
    "0",
    " ",
    "_",
    "-",
    "\u{10ffff}",
    "\u{feff}",
    "%",
    "');",
    "'}'::text[])",
    "')::bigint",
];

fn text(random: &mut Random, bytes: usize) -> String {
    let mut text = String::new();
    for _ in 0..1 + random.below(12) {
        let piece = PIECES[random.below(PIECES.len())];
        if text.len() + piece.len() <= bytes {
            text.push_str(piece);
        }
    }
    text
}

/// A name that the library takes.
fn name(random: &mut Random) -> String {
    loop {
        let text = text(random, 128);
        if JobName::new(&*text).is_ok() {
            return text;
        }
    }
}

async fn attempt(backend: &PostgresBackend, name: &str) -> AttemptRecord {
    let history = backend.history(&job(name), 10).await.expect("a history");
    let attempts: Vec<AttemptRecord> = history.iter().filter_map(Record::attempt).cloned().collect();
    assert_eq!(attempts.len(), 1, "{name:?}: {history:?}");
    attempts.into_iter().next().expect("an attempt")
}

async fn texts_come_back(place: Place, seed: u64) {
    let Some(database) = place.database() else { return };
    let backend = PostgresBackend::new(database.url());
    backend.connect().await.expect("a connection");
    let mut random = Random(seed);
    for round in 0..60_i64 {
        let mut names: Vec<String> = (0..1 + random.below(5)).map(|_| name(&mut random)).collect();
        names.iter_mut().for_each(|name| name.push_str(&round.to_string()));
        names.retain(|name| JobName::new(name.as_str()).is_ok());
        names.sort();
        names.dedup();
        let claims: Vec<RunClaim> = names
            .iter()
            .map(|name| {
                let by = self::name(&mut random);
                let mut claim = RunClaim::new(
                    job(name),
                    Slot::from_ms(1),
                    Token::random(),
                    InstanceId::new(by).expect("what may be a name may be an id"),
                );
                claim.limit = std::time::Duration::from_secs(100_000_000_000);
                claim.identity = text(&mut random, 200).into();
                claim
            })
            .collect();
        let registrations: Vec<Registration> = claims
            .iter()
            .map(|c| Registration::new(c.job.clone(), &*c.identity, text(&mut random, 300), c.instance.clone()))
            .collect();
        // Registered after the slot, which only those may run whose schedule has another name.
        if round % 3 == 0 {
            backend.register(&registrations, std::time::Duration::from_secs(86_400)).await.expect("an answer");
            continue;
        }
        let answers =
            if let [one] = &claims[..] { vec![backend.claim(one).await] } else { backend.claim_many(&claims).await };
        let mut ends = Vec::new();
        for (claim, answer) in claims.iter().zip(answers) {
            assert!(won(&answer.expect("an answer").value), "{claim:?}");
            let mut error = text(&mut random, 4096);
            if random.below(10) == 0 {
                error = error.repeat(10_000 / error.len().max(1));
            }
            let ending = if random.below(2) == 0 { Ending::Failed(error) } else { Ending::TimedOut(error) };
            ends.push(Finish::new(claim.key(), claim.token, ending, claim.instance.clone(), 0));
        }
        for answer in backend.finish_many(&ends).await {
            answer.expect("an answer");
        }
        for (claim, end) in claims.iter().zip(&ends) {
            let record = attempt(&backend, claim.job.as_str()).await;
            assert_eq!(record.error.as_deref(), end.ending.error());
            assert_eq!(record.instance, claim.instance.as_str());
            let pause = Pause::new(text(&mut random, 100), text(&mut random, 1000));
            backend.set_paused(&claim.job, Some(&pause)).await.expect("an answer");
            let paused = backend.paused(&claim.job).await.expect("an answer").expect("a pause");
            assert_eq!((paused.by, paused.note), (pause.by, pause.note));
        }
    }
}

#[tokio::test]
async fn strange_texts_come_back_from_the_server_as_they_were() {
    texts_come_back(V18, 7).await;
}

#[tokio::test]
async fn strange_texts_come_back_through_a_pooler_as_they_were() {
    texts_come_back(POOLED_1_18, 77).await;
}

#[tokio::test]
async fn what_no_text_of_the_server_can_hold_is_replaced_or_refused() {
    let Some(database) = V18.database() else { return };
    assert!(JobName::new("a\0b").is_err() && InstanceId::new("a\0b").is_err());
    let backend = PostgresBackend::new(database.url());
    backend.connect().await.expect("a connection");
    let asked = claim("a", 1);
    assert!(won(&backend.claim(&asked).await.expect("an answer").value));
    let ending = Ending::Failed("it's \0 over".to_owned());
    backend.finish(&Finish::new(asked.key(), asked.token, ending, asked.instance.clone(), 0)).await.expect("an answer");
    assert_eq!(attempt(&backend, "a").await.error.as_deref(), Some("it's \u{fffd} over"));
}

#[tokio::test]
async fn names_are_compared_byte_by_byte() {
    let Some(database) = V18.database() else { return };
    let backend = PostgresBackend::new(database.url());
    backend.connect().await.expect("a connection");
    for name in ["sync", "Sync", "é", "e\u{301}", "ss", "ß", "a b", "ab", "a-b"] {
        assert!(won(&backend.claim(&claim(name, 1)).await.expect("an answer").value), "{name}");
    }
}
