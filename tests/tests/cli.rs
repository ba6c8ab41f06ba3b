//! The command line of a real program, on a real file, after real runs.
#![cfg(unix)]
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test says by a panic what is wrong")]

use std::ffi::OsStr;
use std::fs::File;
use std::io::{BufRead as _, Read as _};
use std::path::PathBuf;
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

use anarchon::backend::Backend as _;
use anarchon::run::{Registration, Trim};
use anarchon::{InstanceId, JobName, Retention, SqliteBackend};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;
use sqlx::Row as _;
use tempfile::TempDir;
use tests::LONG;

const SECOND: i64 = 1000;

/// A directory with a store, and the program on it.
struct Shop {
    directory: TempDir,
}

/// An instance of the program that runs its jobs; dropping it kills it.
struct Instance {
    child: Child,
    err: PathBuf,
}

impl Shop {
    fn new() -> Self {
        Self { directory: tempfile::tempdir().unwrap() }
    }

    fn file(&self) -> PathBuf {
        self.directory.path().join("shop.db")
    }

    /// While it is there, stocktaking goes on.
    fn hold(&self) -> PathBuf {
        self.directory.path().join("hold")
    }

    fn command(&self, args: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_shop"));
        command
            .args(args)
            .env_remove("RUST_LOG")
            .env_remove("COLUMNS")
            .env_remove("NO_COLOR")
            .env("RUST_BACKTRACE", "0")
            .env("ANARCHON_STORE", format!("sqlite:{}", self.file().display()))
            .env("SHOP_HOLD", self.hold())
            .stdin(Stdio::null());
        command
    }

    /// An instance, as `run` starts it.
    fn start(&self, args: &[&str]) -> Instance {
        let err = self.directory.path().join(format!("{}.err", uuid()));
        let mut command = self.command(args);
        // The pipe closes when this test dies, however it dies, and the program dies with it.
        command.env("SHOP_WITH_STDIN", "1").stdin(Stdio::piped());
        command.stdout(Stdio::null()).stderr(File::create(&err).unwrap());
        Instance { child: command.spawn().unwrap(), err }
    }

    /// What a command answers, and its exit code.
    fn ask(&self, args: &[&str]) -> (i32, String, String) {
        told(self.command(args).output().unwrap())
    }

    /// The text of a command that must succeed.
    fn text(&self, args: &[&str]) -> String {
        let (code, out, err) = self.ask(args);
        assert_eq!((code, err.as_str()), (0, ""), "{args:?}: {out}");
        out
    }

    /// The document of a command that must succeed.
    fn json(&self, args: &[&str]) -> Value {
        let args: Vec<&str> = args.iter().copied().chain(["--json"]).collect();
        serde_json::from_str(&self.text(&args)).unwrap()
    }

    /// Asks until the document is as it should be.
    fn until(&self, args: &[&str], wanted: impl Fn(&Value) -> bool) -> Value {
        let since = Instant::now();
        loop {
            let json = self.json(args);
            if wanted(&json) {
                return json;
            }
            assert!(since.elapsed() < LONG, "{args:?} does not come to what is waited for: {json:#}");
            std::thread::sleep(Duration::from_millis(50));
        }
    }

    fn backend(&self) -> SqliteBackend {
        SqliteBackend::new(self.file().to_str().unwrap())
    }

    /// All rows of all tables.
    async fn rows(&self) -> Vec<String> {
        let options = sqlx::sqlite::SqliteConnectOptions::new().filename(self.file()).read_only(true);
        let pool = sqlx::SqlitePool::connect_with(options).await.unwrap();
        let mut rows = Vec::new();
        for table in ["anarchon_runs", "anarchon_runs_attempts", "anarchon_runs_jobs", "anarchon_runs_meta"] {
            let columns =
                sqlx::query("SELECT name FROM pragma_table_info(?)").bind(table).fetch_all(&pool).await.unwrap();
            let columns: Vec<String> =
                columns.iter().map(|row| format!("quote({})", row.get::<String, _>(0))).collect();
            let sql = format!("SELECT {} FROM {table} ORDER BY 1", columns.join(" || '|' || "));
            let found = sqlx::query(sqlx::AssertSqlSafe(sql)).fetch_all(&pool).await.unwrap();
            rows.extend(found.iter().map(|row| format!("{table}: {}", row.get::<String, _>(0))));
        }
        pool.close().await;
        rows
    }
}

impl Instance {
    /// Part of its id.
    fn mark(&self) -> String {
        format!("-{}-", self.child.id())
    }

    fn stop(&mut self) {
        // Our own child, which we have not waited for: its pid is nobody else's.
        kill_process(Pid::from_child(&self.child), Signal::TERM).unwrap();
        let since = Instant::now();
        let status = loop {
            if let Some(status) = self.child.try_wait().unwrap() {
                break status;
            }
            assert!(since.elapsed() < LONG, "it does not stop: {}", self.err());
            std::thread::sleep(Duration::from_millis(5));
        };
        assert!(status.success(), "{status}: {}", self.err());
    }

    fn kill(&mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }

    fn err(&self) -> String {
        std::fs::read_to_string(&self.err).unwrap()
    }
}

impl Drop for Instance {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn uuid() -> String {
    anarchon::Token::random().to_string()
}

fn told(output: Output) -> (i32, String, String) {
    let text = |bytes| String::from_utf8(bytes).unwrap();
    (output.status.code().unwrap(), text(output.stdout), text(output.stderr))
}

fn job<'a>(jobs: &'a Value, name: &str) -> &'a Value {
    jobs["jobs"].as_array().unwrap().iter().find(|job| job["name"] == name).unwrap()
}

/// The slots that attempts of this kind are about, the newest first.
fn slots(history: &Value, wanted: impl Fn(&Value) -> bool) -> Vec<i64> {
    let records = history["records"].as_array().unwrap();
    records.iter().filter(|record| wanted(record)).filter_map(|record| record["slot_ms"].as_i64()).collect()
}

fn is_done(record: &Value) -> bool {
    record["status"] == "done"
}

fn has_run(job: &str) -> impl Fn(&Value) -> bool {
    move |jobs| {
        jobs["jobs"].as_array().unwrap().iter().any(|row| row["name"] == job && row["last_run"]["status"] == "done")
    }
}

const READING: [&[&str]; 7] = [
    &["jobs"],
    &["next", "nightly"],
    &["history", "orders"],
    &["history", "stocktaking", "-n", "3"],
    &["why", "orders", "2026-01-01T00:00:00Z"],
    &["why", "stocktaking", "1767225600000"],
    &["check"],
];

#[test]
fn who_only_reads_makes_no_store() {
    let shop = Shop::new();
    for args in READING {
        let said = shop.text(args);
        assert!(!said.is_empty() && !said.contains('\u{1b}'), "{args:?}: {said}");
        assert!(shop.json(args).is_object(), "{args:?}");
    }
    let check = shop.json(&["check"]);
    assert_eq!((&check["empty"], &check["ok"], &check["jobs"]), (&true.into(), &true.into(), &4.into()), "{check}");
    let why = shop.json(&["why", "orders", "2026-01-01T00:00:00Z"]);
    assert_eq!(why["verdict"], "before_floor");
    assert_eq!(std::fs::read_dir(shop.directory.path()).unwrap().count(), 0, "something was made");
}

#[test]
fn where_the_store_is_by_default_is_said_to_who_runs_jobs_and_not_over_every_answer() {
    let shop = Shop::new();
    let command = |args: &[&str]| {
        let mut command = shop.command(args);
        command.env_remove("ANARCHON_STORE").env_remove("KUBERNETES_SERVICE_HOST").current_dir(shop.directory.path());
        command
    };
    let (code, _, err) = told(command(&["jobs"]).output().unwrap());
    assert_eq!((code, err.as_str()), (0, ""));
    let mut running = command(&["run"]).stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
    let mut said = String::new();
    std::io::BufReader::new(running.stderr.take().unwrap()).read_line(&mut said).unwrap();
    running.kill().unwrap();
    running.wait().unwrap();
    assert!(said.contains("the store is the file ./anarchon.db"), "{said}");
}

#[test]
fn jobs_are_listed_with_their_schedule_their_last_run_and_where_they_run() {
    let shop = Shop::new();
    File::create(shop.hold()).unwrap();
    let instance = shop.start(&[]);
    let runs = |jobs: &Value| job(jobs, "stocktaking")["unfinished"].as_array().is_some_and(|runs| runs.len() == 1);
    let jobs = shop.until(&["jobs"], |jobs| has_run("orders")(jobs) && runs(jobs));

    let names: Vec<&str> = jobs["jobs"].as_array().unwrap().iter().filter_map(|job| job["name"].as_str()).collect();
    assert_eq!(names, ["farewell", "nightly", "orders", "stocktaking"]);
    let nightly = job(&jobs, "nightly");
    assert_eq!(nightly["schedule"], "cron 0 2 * * * (at 02:00 every day)");
    assert_eq!((&nightly["zone"], &nightly["last_run"]), (&"Europe/Berlin".into(), &Value::Null));
    assert_eq!(nightly["next"].as_array().map(Vec::len), Some(3));
    assert_eq!(job(&jobs, "farewell")["next"], serde_json::json!(["2099-01-01T00:00:00Z"]));
    let running = &job(&jobs, "stocktaking")["unfinished"][0];
    assert!(running["instance"].as_str().unwrap().contains(&instance.mark()), "{running}");
    assert!(running["status"] == "running" && running["left_ms"].as_i64().unwrap() > 0, "{running}");

    let text = shop.text(&["jobs"]);
    let head: Vec<&str> =
        text.lines().next().unwrap().split("  ").filter(|word| !word.is_empty()).map(str::trim).collect();
    assert_eq!(head, ["JOB", "SCHEDULE", "ZONE", "NEXT", "LAST RUN", "STATUS", "RUNNING ON"]);
    let line = text.lines().find(|line| line.starts_with("stocktaking")).unwrap();
    assert!(line.contains("every 1 s") && line.contains(&instance.mark()), "{line}");
    assert!(instance.err().contains("anarchon starts"), "the log of an instance says what it does: {}", instance.err());
}

#[test]
fn the_next_slots_are_those_of_the_schedule() {
    let shop = Shop::new();
    let next = shop.json(&["next", "nightly", "-n", "4"]);
    let slots: Vec<i64> =
        next["slots"].as_array().unwrap().iter().filter_map(|slot| slot["slot_ms"].as_i64()).collect();
    assert_eq!(slots.len(), 4);
    for pair in slots.windows(2) {
        let gap = pair[1] - pair[0];
        assert!((23 * 3600 * SECOND..=25 * 3600 * SECOND).contains(&gap), "{slots:?}");
    }
    let text = shop.text(&["next", "farewell"]);
    assert!(text.starts_with("farewell: once at 2099-01-01T00:00:00Z\nSLOT"), "{text}");
    assert_eq!(text.lines().count(), 3, "an instant has one slot: {text}");
}

#[test]
fn a_takeover_and_the_slots_skipped_meanwhile_are_told_slot_by_slot() {
    let shop = Shop::new();
    File::create(shop.hold()).unwrap();
    let mut first = shop.start(&["run"]);
    let running = |record: &Value| record["status"] == "running";
    let history = shop.until(&["history", "stocktaking"], |history| !slots(history, running).is_empty());
    let slot = slots(&history, running)[0].to_string();
    let skipped = |history: &Value| {
        let records = history["records"].as_array().unwrap();
        records
            .iter()
            .find(|record| record["kind"] == "skipped")
            .map(|record| record["last"].as_str().unwrap().to_owned())
    };
    shop.until(&["history", "stocktaking"], |history| skipped(history).is_some());
    first.kill();

    let second = shop.start(&[]);
    let taken = |why: &Value| why["attempts"].as_array().is_some_and(|attempts| attempts.len() >= 2);
    let why = shop.until(&["why", "stocktaking", &slot], taken);
    assert_eq!(why["verdict"], "running");
    let history = shop.json(&["history", "stocktaking"]);
    let passed_over = skipped(&history).unwrap();
    std::fs::remove_file(shop.hold()).unwrap();
    let why = shop.until(&["why", "stocktaking", &slot], |why| why["verdict"] == "done");
    let attempts = why["attempts"].as_array().unwrap();
    let (one, two) = (&attempts[0], attempts.last().unwrap());
    assert_eq!((&one["status"], &one["reason"]), (&"lost".into(), &"scheduled".into()), "{why}");
    assert_eq!((&two["status"], &two["reason"]), (&"done".into(), &"takeover".into()), "{why}");
    assert!(one["instance"].as_str().unwrap().contains(&first.mark()), "{why}");
    assert!(two["instance"].as_str().unwrap().contains(&second.mark()), "{why}");
    let text = shop.text(&["why", "stocktaking", &slot]);
    let lines: Vec<&str> = text.lines().collect();
    assert!(lines[0].contains(": done by "), "{text}");
    assert!(
        lines[1].starts_with("  attempt 1, scheduled: won by ") && lines[1].contains("its lease had run out"),
        "{text}"
    );
    let last = lines.last().unwrap();
    assert!(last.contains(", a takeover, ") && last.contains(", done at "), "{text}");

    let why = shop.json(&["why", "stocktaking", &passed_over]);
    assert_eq!((&why["verdict"], &why["skipped"]["reason"]), (&"skipped".into(), &"overlap".into()), "{why}");
    assert_eq!(why["blocker"]["slot_ms"].to_string(), slot, "{why}");
    let text = shop.text(&["why", "stocktaking", &passed_over]);
    assert!(
        text.contains("skipped, since another run of the job was live") && text.contains("then ran the slot"),
        "{text}"
    );
    let text = shop.text(&["history", "stocktaking"]);
    assert!(text.contains("takeover") && text.contains("overlap") && text.contains("lost"), "{text}");
}

#[tokio::test]
async fn a_slot_without_a_record_was_missed_or_trimmed_or_never_owed_or_is_none() {
    let shop = Shop::new();
    let mut instance = shop.start(&[]);
    shop.until(&["history", "orders"], |history| slots(history, is_done).len() >= 3);
    instance.stop();
    let history = shop.json(&["history", "orders"]);
    let ran = slots(&history, is_done);
    let (newest, oldest) = (ran[0], *ran.last().unwrap());
    let verdict = |slot: i64| shop.json(&["why", "orders", &slot.to_string()])["verdict"].clone();

    // Nobody runs any more; until it is too late for it the slot may still be claimed.
    let nobodys = (tests::wall_ms() / SECOND + 1) * SECOND;
    assert!(matches!(verdict(nobodys).as_str(), Some("not_due" | "open" | "missed")), "{}", verdict(nobodys));
    shop.until(&["why", "orders", &nobodys.to_string()], |why| why["verdict"] == "missed");
    assert!(shop.text(&["why", "orders", &nobodys.to_string()]).contains("no instance decided it in time"));
    assert_eq!(verdict(nobodys + 3_600 * SECOND), "not_due");
    assert_eq!(verdict(newest + 1), "no_slot");
    assert_eq!(verdict(oldest - 3_600 * SECOND), "before_floor");
    assert_eq!(verdict(oldest), "done");

    let backend = shop.backend();
    let trim = Trim::new(JobName::new("orders").unwrap(), Retention::new(2, None), Duration::ZERO);
    backend.trim(&[trim]).await.unwrap();
    backend.close().await;
    assert_eq!(verdict(oldest), "trimmed");
    assert!(shop.text(&["why", "orders", &oldest.to_string()]).contains("has been trimmed"));
    assert_eq!(verdict(newest), "done");
}

#[test]
fn a_job_runs_here_and_now_and_a_program_that_only_does_that_claims_nothing() {
    let shop = Shop::new();
    let ran = shop.json(&["run-now", "nightly"]);
    assert_eq!((&ran["status"], &ran["run"]["reason"]), (&"done".into(), &"manual".into()), "{ran}");
    assert_eq!(shop.text(&["run-now", "nightly"]), "nightly: done\n");

    let (code, out, err) = shop.ask(&["run-now", "farewell"]);
    assert_eq!((code, out.as_str()), (1, "farewell: failed: the till is empty\n"));
    assert!(err.contains("the attempt did not end well"), "the log says so as well: {err}");
    let (code, out, _) = shop.ask(&["run-now", "farewell", "--json"]);
    let ran: Value = serde_json::from_str(&out).unwrap();
    assert_eq!((code, &ran["run"]["error"]), (1, &"the till is empty".into()), "{ran}");

    // `orders` was due meanwhile, each second.
    let jobs = shop.json(&["jobs"]);
    assert_eq!(job(&jobs, "orders")["last_run"], Value::Null, "{jobs}");
    let why = shop.json(&["why", "orders", &(tests::wall_ms() / SECOND * SECOND - 60 * SECOND).to_string()]);
    assert_eq!(why["verdict"], "before_floor", "nobody has registered it: {why}");
}

#[test]
fn a_pause_is_seen_by_everybody_and_says_who_and_why() {
    let shop = Shop::new();
    let paused = shop.json(&["pause", "orders", "--note", "no stock"]);
    assert_eq!(paused["paused"]["note"], "no stock");
    let mut instance = shop.start(&[]);
    let skips = |history: &Value| history["records"].as_array().is_some_and(|records| !records.is_empty());
    let history = shop.until(&["history", "orders"], skips);
    instance.stop();
    let record = &history["records"][0];
    assert_eq!((&record["kind"], &record["reason"]), (&"skipped".into(), &"paused".into()), "{history}");
    let slot = record["last"].as_str().unwrap();
    let why = shop.text(&["why", "orders", slot]);
    assert!(why.contains("skipped, since the job was paused") && why.contains(": no stock"), "{why}");
    let line = |text: String| text.lines().find(|line| line.starts_with("orders")).unwrap().to_owned();
    assert!(line(shop.text(&["jobs"])).contains("paused"));
    assert!(shop.text(&["history", "orders"]).starts_with("orders is paused since "));

    assert_eq!(shop.text(&["resume", "orders"]), "orders is not paused\n");
    assert!(!line(shop.text(&["jobs"])).contains("paused"));
    // Once the job is no longer paused, the record still knows why.
    assert_eq!(shop.json(&["why", "orders", slot])["verdict"], "skipped");
}

#[test]
fn each_kind_of_end_has_its_exit_code() {
    let shop = Shop::new();
    for args in [&["nonsense"][..], &["next"], &["why", "orders", "yesterday"], &["history", "orders", "-n", "0"]] {
        let (code, out, err) = shop.ask(args);
        assert!(code == 2 && out.is_empty() && !err.is_empty(), "{args:?}: {code} {out} {err}");
    }
    let unknown: [&[&str]; 6] = [
        &["next", "nihgtly"],
        &["history", "nihgtly"],
        &["why", "nihgtly", "0"],
        &["pause", "nihgtly"],
        &["resume", "nihgtly"],
        &["run-now", "nihgtly"],
    ];
    for args in unknown {
        let (code, out, err) = shop.ask(args);
        assert!(
            code == 4 && out.is_empty() && err.contains("there is no job named \"nihgtly\""),
            "{args:?}: {code} {err}"
        );
    }
    let (_, _, err) = shop.ask(&["next", "nihgtly"]);
    assert!(err.contains("did you mean \"nightly\"?"), "{err}");
    let (code, out, _) = shop.ask(&["next", "nihgtly", "--json"]);
    let error: Value = serde_json::from_str(&out).unwrap();
    assert!(code == 4 && error["error"].as_str().unwrap().contains("nihgtly"), "{error}");

    for args in [&["--help"][..], &["why", "--help"]] {
        let (code, out, _) = shop.ask(args);
        assert!(code == 0 && out.contains("--json"), "{args:?}: {out}");
    }
    assert!(shop.ask(&["--help"]).1.contains("Exit codes:"));

    let nowhere = shop.directory.path().join("no/such/directory/shop.db");
    for args in [&["check"][..], &["jobs"], &["run-now", "nightly"], &["pause", "nightly"], &["run"], &[]] {
        let mut command = shop.command(args);
        let (code, out, err) =
            told(command.env("ANARCHON_STORE", format!("sqlite:{}", nowhere.display())).output().unwrap());
        assert!(
            code == 1 && out.is_empty() && err.contains("its directory does not exist"),
            "{args:?}: {code} {out} {err}"
        );
    }
}

#[tokio::test]
async fn instances_that_disagree_are_trouble() {
    let shop = Shop::new();
    let mut instance = shop.start(&[]);
    shop.until(&["jobs"], has_run("orders"));
    instance.stop();
    let check = shop.json(&["check"]);
    assert_eq!(
        (&check["ok"], &check["leases"], &check["backend"]),
        (&true.into(), &true.into(), &"sqlite".into()),
        "{check}"
    );
    assert!(check["server"].as_str().unwrap().starts_with("SQLite 3."), "{check}");
    assert!(check["clock_offset_ms"].as_i64().unwrap().abs() < 60_000, "{check}");
    assert_eq!(check["places"].as_array().map(Vec::len), Some(4), "{check}");
    assert!(shop.text(&["check"]).ends_with("all is well\n"));

    let backend = shop.backend();
    let other = InstanceId::new("old-version").unwrap();
    let registration =
        Registration::new(JobName::new("nightly").unwrap(), "every 60000+0", "every 60000+0 tzdata 1999a", other);
    backend.register(&[registration], Duration::from_secs(30 * 86_400)).await.unwrap();
    backend.close().await;
    let (code, out, err) = shop.ask(&["check"]);
    assert!(code == 3 && err.is_empty(), "{code} {err}");
    assert!(out.contains("trouble   instance old-version computes other slots for job nightly"), "{out}");
    let (code, out, _) = shop.ask(&["check", "--json"]);
    let check: Value = serde_json::from_str(&out).unwrap();
    let found = &check["disagreements"][0];
    assert_eq!((code, &check["ok"], &found["job"]), (3, &false.into(), &"nightly".into()), "{check}");
    assert_eq!(found["theirs"], "every 60000+0 tzdata 1999a");
}

#[tokio::test]
async fn who_only_reads_changes_no_row() {
    let shop = Shop::new();
    let mut instance = shop.start(&[]);
    shop.until(&["jobs"], has_run("orders"));
    File::create(shop.hold()).unwrap();
    let runs = |jobs: &Value| !job(jobs, "stocktaking")["unfinished"].as_array().unwrap().is_empty();
    shop.until(&["jobs"], runs);
    instance.kill();
    // A manual run whose runner has died: who looks at it to act on it closes it.
    let mut manual = shop.start(&["run-now", "stocktaking"]);
    let by_hand = |jobs: &Value| {
        job(jobs, "stocktaking")["unfinished"].as_array().unwrap().iter().any(|run| run["manual"].is_string())
    };
    shop.until(&["jobs"], by_hand);
    manual.kill();
    let over =
        |jobs: &Value| job(jobs, "stocktaking")["unfinished"].as_array().unwrap().iter().all(|run| run["left_ms"] == 0);
    shop.until(&["jobs"], over);

    let before = shop.rows().await;
    for args in READING {
        shop.text(args);
        shop.json(args);
    }
    assert_eq!(shop.rows().await, before);
    assert!(shop.text(&["jobs"]).contains("whose lease is over"));
}

#[test]
fn tables_fit_and_colours_are_for_terminals() {
    let shop = Shop::new();
    let mut instance = shop.start(&[]);
    shop.until(&["jobs"], has_run("orders"));
    instance.stop();
    for args in [&["jobs"][..], &["history", "orders"]] {
        let wide = shop.text(args);
        assert!(!wide.contains(['…', '\u{1b}']), "nothing is cut or coloured in a pipe: {wide}");
        let (_, narrow, _) = told(shop.command(args).env("COLUMNS", "60").output().unwrap());
        assert!(narrow.contains('…') && narrow.lines().all(|line| line.chars().count() <= 60), "{narrow}");
        assert_eq!(narrow.lines().count(), wide.lines().count());
    }
    let coloured = on_terminal(shop.command(&["history", "orders"]));
    assert!(coloured.contains("\u{1b}[32mdone\u{1b}[0m"), "{coloured:?}");
    let mut spared = shop.command(&["history", "orders"]);
    spared.env("NO_COLOR", "1");
    let spared = on_terminal(spared);
    assert!(spared.contains("done") && !spared.contains('\u{1b}'), "{spared:?}");
    let document = on_terminal(shop.command(&["history", "orders", "--json"]));
    assert!(document.contains("\"done\"") && !document.contains('\u{1b}'), "{document:?}");
}

/// What a command prints on a terminal.
fn on_terminal(mut command: Command) -> String {
    let terminal = rustix::pty::openpt(rustix::pty::OpenptFlags::RDWR | rustix::pty::OpenptFlags::NOCTTY).unwrap();
    rustix::pty::grantpt(&terminal).unwrap();
    rustix::pty::unlockpt(&terminal).unwrap();
    let name = rustix::pty::ptsname(&terminal, Vec::new()).unwrap();
    let end = File::options().read(true).write(true).open(OsStr::new(name.to_str().unwrap())).unwrap();
    let mut child = command.stdout(end).spawn().unwrap();
    // So that the only end that is open is the child's.
    drop(command);
    let mut said = Vec::new();
    let mut terminal = File::from(terminal);
    let mut bytes = [0; 4096];
    // When the other end closes, reading fails.
    while let Ok(count @ 1..) = terminal.read(&mut bytes) {
        said.extend_from_slice(&bytes[..count]);
    }
    assert!(child.wait().unwrap().success());
    String::from_utf8(said).unwrap()
}
