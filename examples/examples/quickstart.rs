//! The whole idea in half a minute: three processes with the same job on one SQLite file. Watch who runs what, while one
//! of them is killed and another one is stopped.
//!
//! ```text
//! cargo run -p examples --example quickstart
//! ```

use std::collections::BTreeMap;
use std::process::{ExitCode, Stdio};
use std::time::Duration;

use anarchon::SqliteBackend;
use anarchon::{Context, Event, Reason, Record, Scheduler, Slot};
use tokio::io::{AsyncBufReadExt as _, AsyncReadExt as _, BufReader};
use tokio::process::{Child, ChildStdin, Command};
use tokio::sync::mpsc;
use tokio::time::{Instant, sleep, timeout};

type Fallible<T> = Result<T, Box<dyn std::error::Error + Send + Sync>>;

// ---- What a service would have: a job, and a scheduler that runs it. -------------------------------------------------

// The store, for the compiler: an option that it could not honour would not compile.
anarchon::backend!(SqliteBackend);

/// The job. Each instance has it, and for each slot one of them runs it.
#[anarchon::job(every = "2s")]
async fn report(ctx: Context) -> Result<(), &'static str> {
    tokio::select! {
        () = sleep(Duration::from_millis(1200)) => Ok(()),
        // Told to stop: what has been done so far is thrown away, and another instance begins anew.
        _ = ctx.cancelled() => Err("told to stop"),
    }
}

/// One instance of the service; it runs until its standard input is closed.
async fn instance(name: &str, file: &str) -> Fallible<()> {
    let scheduler = Scheduler::builder(SqliteBackend::new(file))
        .registered()
        .instance_id(name)
        .lease("2s")
        .watch("500ms")
        .start()
        .await?;
    let mut events = scheduler.events();
    let told = tokio::spawn(async move {
        while let Ok(event) = events.recv().await {
            tell(&event);
        }
    });
    println!("up");

    tokio::io::stdin().read_to_end(&mut Vec::new()).await?;
    scheduler.stop().await?;
    drop(scheduler);
    Ok(told.await?)
}

// ---- The rest is the show: three such processes, and what they tell. -------------------------------------------------

/// One line per event for the parent: a word, the slot, and what else there is to say.
fn tell(event: &Event) {
    match event {
        Event::Claimed { run, attempt, reason, .. } => println!("won {} {attempt} {reason}", run.slot.ms()),
        Event::LostRace { run, .. } => println!("lost-race {}", run.slot.ms()),
        Event::Finished { run, status, .. } => println!("ended {} {status}", run.slot.ms()),
        Event::HandedOver { run, .. } => println!("handed-over {}", run.slot.ms()),
        Event::Skipped { slot, .. } => println!("skipped {}", slot.ms()),
        _ => {}
    }
}

#[tokio::main]
async fn main() -> ExitCode {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let outcome = match args.iter().map(String::as_str).collect::<Vec<_>>().as_slice() {
        [] => show().await,
        ["--instance", name, file] => instance(name, file).await,
        _ => Err("quickstart takes no arguments".into()),
    };
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("quickstart: {error}");
            ExitCode::FAILURE
        }
    }
}

async fn show() -> Fallible<()> {
    // Removed with all that is in it, however this ends.
    let directory = tempfile::tempdir()?;
    let file = directory.path().join("quickstart.db").display().to_string();
    tokio::select! {
        outcome = timeout(Duration::from_secs(40), acts(&file)) => outcome.map_err(|_| "this takes too long")?,
        _ = tokio::signal::ctrl_c() => Err("stopped".into()),
    }
}

async fn acts(file: &str) -> Fallible<()> {
    println!(
        "Three processes, a, b and c, have the same job: `report`, every 2 seconds, which takes 1.2 seconds.\n\
         There is no leader and no server. They share one SQLite file, and for each scheduled time (a slot)\n\
         each of them asks the file: may I? The file lets exactly one of them win."
    );
    let mut stage = Stage::open(file, ["a", "b", "c"])?;
    stage.all_up().await?;

    act("Each slot is run by one of them, and not always by the same");
    stage.explain_races = true;
    for _ in 0..2 {
        stage.until("ended").await?;
    }
    stage.explain_races = false;
    stage.note("", "(lost races are left out from here on)");
    for _ in 0..2 {
        stage.until("ended").await?;
    }

    act("The one that runs is killed. The others notice that it has stopped renewing its lease of 2 seconds,");
    println!("   and one of them runs the same slot again, as attempt 2");
    let killed = stage.until("won").await?;
    sleep(Duration::from_millis(500)).await;
    stage.kill(&killed).await?;
    stage.until_second_attempt(&killed).await?;
    stage.until("ended").await?;

    act("The one that runs is stopped, as in a deployment. It hands its run over, and nobody waits for a lease");
    let stopped = stage.until("won").await?;
    sleep(Duration::from_millis(300)).await;
    stage.stop(&stopped, "told to stop");
    stage.until_second_attempt(&stopped).await?;
    stage.until("ended").await?;

    act("One of three is left, and every slot is run all the same");
    stage.until("ended").await?;
    let last = stage.until("ended").await?;
    stage.stop(&last, "told to stop: the show is over");
    stage.all_gone().await?;

    act("What the file remembers");
    history(file).await
}

fn act(title: &str) {
    println!("\n## {title}");
}

/// Something that an instance told.
#[derive(Clone, Debug)]
struct Told {
    who: String,
    what: String,
    slot: Slot,
    attempt: u32,
}

/// The processes, and what they say.
struct Stage {
    began: Instant,
    processes: BTreeMap<String, (Child, Option<ChildStdin>)>,
    lines: mpsc::UnboundedReceiver<(String, Option<String>)>,
    explain_races: bool,
}

impl Stage {
    fn open(file: &str, names: [&str; 3]) -> Fallible<Self> {
        let (sender, lines) = mpsc::unbounded_channel();
        let mut processes = BTreeMap::new();
        for name in names {
            let mut child = Command::new(std::env::current_exe()?)
                .args(["--instance", name, file])
                .stdin(Stdio::piped())
                .stdout(Stdio::piped())
                .kill_on_drop(true)
                .spawn()?;
            let stdout = child.stdout.take().ok_or("no standard output")?;
            let (sender, name) = (sender.clone(), name.to_owned());
            let stdin = child.stdin.take();
            processes.insert(name.clone(), (child, stdin));
            tokio::spawn(async move {
                let mut lines = BufReader::new(stdout).lines();
                while let Ok(Some(line)) = lines.next_line().await {
                    let _ = sender.send((name.clone(), Some(line)));
                }
                let _ = sender.send((name, None));
            });
        }
        Ok(Self { began: Instant::now(), processes, lines, explain_races: false })
    }

    /// One line of the show: when, who, and what.
    fn note(&self, who: &str, what: &str) {
        println!("{:>6.1} s  {who:<2} {what}", self.began.elapsed().as_secs_f64());
    }

    async fn all_up(&mut self) -> Fallible<()> {
        let mut up = 0;
        while up < self.processes.len() {
            match self.lines.recv().await {
                Some((_, Some(line))) if line == "up" => up += 1,
                Some((name, None)) => return Err(format!("{name} did not come up").into()),
                _ => {}
            }
        }
        self.note("", "a, b and c are up");
        Ok(())
    }

    /// Shows what is told until somebody tells this.
    async fn until(&mut self, word: &str) -> Fallible<Told> {
        loop {
            let told = self.next().await?;
            if told.what == word {
                return Ok(told);
            }
        }
    }

    /// Shows what is told until somebody runs this slot again.
    async fn until_second_attempt(&mut self, first: &Told) -> Fallible<()> {
        loop {
            let told = self.next().await?;
            if told.what == "won" && told.slot == first.slot && told.attempt > first.attempt {
                return Ok(());
            }
        }
    }

    async fn next(&mut self) -> Fallible<Told> {
        loop {
            let (who, line) = self.lines.recv().await.ok_or("nobody is left")?;
            let Some(line) = line else { continue };
            let words: Vec<&str> = line.split(' ').collect();
            let (Some(what), Some(Ok(slot))) = (words.first(), words.get(1).map(|slot| slot.parse())) else { continue };
            let slot = Slot::from_ms(slot);
            let (third, fourth) =
                (words.get(2).copied().unwrap_or_default(), words.get(3).copied().unwrap_or_default());
            let attempt = if *what == "won" { third.parse()? } else { 0 };
            let time = clock(slot);
            let said = match (*what, Reason::parse(fourth)) {
                ("won", Some(Reason::Takeover)) => {
                    format!("{time}  takes over: attempt {attempt} of the slot whose runner died")
                }
                ("won", Some(Reason::HandOver)) => {
                    format!("{time}  goes on at once: attempt {attempt} of the same slot")
                }
                ("won", _) => format!("{time}  wins the slot and runs the job"),
                ("lost-race", _) if self.explain_races => {
                    format!("{time}  loses the race, and watches the winner in case it dies")
                }
                ("lost-race", _) => String::new(),
                ("ended", _) => format!("{time}  {third}"),
                ("handed-over", _) => format!("{time}  gives its run back, unfinished"),
                ("skipped", _) => {
                    format!("{time}  skipped: the run before it has not ended yet, and two never run at once")
                }
                _ => line.clone(),
            };
            if !said.is_empty() {
                self.note(&who, &said);
            }
            return Ok(Told { who, what: (*what).to_owned(), slot, attempt });
        }
    }

    async fn kill(&mut self, told: &Told) -> Fallible<()> {
        if let Some((mut child, _)) = self.processes.remove(&told.who) {
            child.kill().await?;
            self.note(&told.who, &format!("{}  killed in the middle of the run (SIGKILL)", clock(told.slot)));
        }
        Ok(())
    }

    /// Closing its standard input is how an instance is told to stop.
    fn stop(&mut self, told: &Told, how: &str) {
        if let Some((_, stdin)) = self.processes.get_mut(&told.who) {
            drop(stdin.take());
        }
        self.note(&told.who, &format!("{}  {how}", clock(told.slot)));
    }

    /// Waits for the end of those that were told to stop.
    async fn all_gone(&mut self) -> Fallible<()> {
        for (name, (child, stdin)) in &mut self.processes {
            drop(stdin.take());
            let status = child.wait().await?;
            if !status.success() {
                return Err(format!("{name} did not stop well: {status}").into());
            }
        }
        Ok(())
    }
}

fn clock(slot: Slot) -> String {
    slot.to_datetime().format("%H:%M:%S").to_string()
}

/// Any instance can ask for the history, and so can a process that has no jobs at all.
async fn history(file: &str) -> Fallible<()> {
    let reader = Scheduler::builder(SqliteBackend::new(file)).start().await?;
    let mut records = reader.history("report", 100).await?;
    records.reverse();
    println!("  slot      attempt  instance  started as   ended as");
    for record in records {
        match record {
            Record::Attempt(attempt) => println!(
                "  {}  {:<7}  {:<8}  {:<11}  {}",
                clock(attempt.run.slot),
                attempt.attempt,
                attempt.instance,
                attempt.reason.as_str(),
                attempt.status.map_or("unknown", |status| status.as_str()),
            ),
            Record::Skipped(skip) => {
                println!("  {}  -        -         -            skipped: {}", clock(skip.last), skip.reason);
            }
            _ => {}
        }
    }
    reader.stop().await?;
    println!(
        "\nEvery slot that was run has exactly one `done`, though one process was killed and another one stopped."
    );
    Ok(())
}
