//! The command line.

use std::str::FromStr;

use crate::Fallible;

pub(crate) const HELP: &str = "\
One instance that runs the jobs of a file, and logs what happens as JSON lines.

usage: node --store URL --instance NAME --jobs FILE.toml --log FILE [options]

  --store URL         the store that all instances share, as in `sqlite:/tmp/try.db`;
                      `memory-claims:` is a claim-only store in this process
  --instance NAME     the name of this instance
  --jobs FILE         the jobs, as TOML; see below
  --log FILE          where lines are appended, each by one write

  --lease 3s          how long a silent runner is believed to be alive
  --heartbeat 1s      how often leases are renewed
  --watch 2s          how often a backup looks after the runs of others
  --stop-grace 5s     how long stopping handlers may take before they are dropped
  --worker-threads N  threads for handlers (default: one per processor)
  --current-thread    a single-threaded runtime, which handlers share with this program's own main task
  --with-stdin        die at once when standard input is closed, as happens when the parent dies
  --verbose           debug messages of the scheduler on standard error, not only warnings
  --help              this text

It prints `ready` once all jobs are added. SIGTERM or Ctrl-C stops it: exit code 0, or 1 if handlers still run.

A job:

  [[job]]
  name = \"sync\"
  every = \"10s\"       # or cron = \"*/5 * * * *\", or at = \"2027-01-01T00:00:00\"
  max_attempts = 2    # offset, timezone, dialect, jitter, max_late, timeout, history_size, history_ttl, overlap,
                      # retry_failed, catch_up, takeover_within: as in #[anarchon::job]
  work = \"sleep 2s\"   # awaits, and ends early when it is cancelled
                      # `ignore 2s` awaits and hears no cancellation, `block 2s` blocks its thread,
                      # `fail`, `fail-first` (at the first attempt only), `panic`, `none`

A line of the log is about a handler (`start`, `end`, `cancelled`), about this process (`ready`, `stopping`, `stopped`),
or about an event of the scheduler (`claimed`, `skipped`, `missed`, `lost`, …). Each has `instance`, `mono_ns`
(CLOCK_MONOTONIC, the same for all processes of a machine) and `wall_ms`.
";

#[derive(Default)]
pub(crate) struct Args {
    pub(crate) store: String,
    pub(crate) instance: String,
    pub(crate) jobs: String,
    pub(crate) log: String,
    pub(crate) lease: Option<String>,
    pub(crate) heartbeat: Option<String>,
    pub(crate) watch: Option<String>,
    pub(crate) stop_grace: Option<String>,
    pub(crate) worker_threads: Option<usize>,
    pub(crate) current_thread: bool,
    pub(crate) with_stdin: bool,
    pub(crate) verbose: bool,
}

impl Args {
    /// `None` when help was asked for.
    pub(crate) fn parse(mut words: impl Iterator<Item = String>) -> Fallible<Option<Self>> {
        let mut args = Self::default();
        while let Some(word) = words.next() {
            let mut value = || words.next().ok_or_else(|| format!("`{word}` needs a value; see --help"));
            match word.as_str() {
                "--store" => args.store = value()?,
                "--instance" => args.instance = value()?,
                "--jobs" => args.jobs = value()?,
                "--log" => args.log = value()?,
                "--lease" => args.lease = Some(value()?),
                "--heartbeat" => args.heartbeat = Some(value()?),
                "--watch" => args.watch = Some(value()?),
                "--stop-grace" => args.stop_grace = Some(value()?),
                "--worker-threads" => {
                    let value = value()?;
                    let threads = usize::from_str(&value).ok().filter(|n| *n > 0);
                    args.worker_threads =
                        Some(threads.ok_or_else(|| format!("`{word} {value}` is no number of threads"))?);
                }
                "--current-thread" => args.current_thread = true,
                "--with-stdin" => args.with_stdin = true,
                "--verbose" => args.verbose = true,
                "--help" | "-h" => return Ok(None),
                _ => return Err(format!("unknown argument `{word}`; see --help")),
            }
        }
        let needed =
            [("--store", &args.store), ("--instance", &args.instance), ("--jobs", &args.jobs), ("--log", &args.log)];
        if let Some((option, _)) = needed.into_iter().find(|(_, value)| value.is_empty()) {
            return Err(format!("`{option}` is missing; see --help"));
        }
        Ok(Some(args))
    }
}
