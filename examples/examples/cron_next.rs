//! The next slots of cron lines, for trying out a line or comparing with another scheduler.
//!
//! Each line of standard input holds a cron line, a time zone, an instant (RFC 3339) and a number, with a tab between
//! them. The answer to each is one line: the next so many slots after the instant in UTC, fewer when the schedule
//! ends, or `error: …`.
//!
//! ```text
//! $ printf '30 2 * * *\tAmerica/New_York\t2026-03-07T12:00:00-05:00\t2\n' | cargo run -p examples --example cron_next
//! 2026-03-08T07:00:00Z 2026-03-09T06:30:00Z
//! ```
//!
//! With `--latest` the answer is the last slot at or before the instant, and the number is not looked at. `--dialect
//! quartz` reads the lines in the other dialect.

use std::error::Error;
use std::io::{self, BufRead, Write};
use std::process::ExitCode;

use anarchon_schedule::{Cron, Dialect, Schedule, zone};
use chrono::{DateTime, SecondsFormat};

/// Enough for any comparison; a larger number is a slip that would print for hours.
const MOST: u32 = 1_000_000;

#[derive(Default)]
struct Options {
    latest: bool,
    dialect: Dialect,
}

fn main() -> ExitCode {
    let options = match options(std::env::args().skip(1)) {
        Ok(options) => options,
        Err(error) => {
            eprintln!("error: {error}\nusage: cron_next [--latest] [--dialect unix|quartz]");
            return ExitCode::from(2);
        }
    };
    match answer_all(&options, io::stdin().lock(), io::stdout().lock()) {
        Ok(()) => ExitCode::SUCCESS,
        // whoever reads has read enough
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::FAILURE
        }
    }
}

fn options(mut args: impl Iterator<Item = String>) -> Result<Options, Box<dyn Error>> {
    let mut options = Options::default();
    while let Some(arg) = args.next() {
        match arg.as_str() {
            "--latest" => options.latest = true,
            "--dialect" => options.dialect = args.next().ok_or("`--dialect` needs a name")?.parse()?,
            other => match other.strip_prefix("--dialect=") {
                Some(name) => options.dialect = name.parse()?,
                None => return Err(format!("unknown argument {other:?}").into()),
            },
        }
    }
    Ok(options)
}

fn answer_all(options: &Options, mut input: impl BufRead, mut output: impl Write) -> io::Result<()> {
    let mut line = Vec::new();
    while input.read_until(b'\n', &mut line)? > 0 {
        let text = String::from_utf8_lossy(&line);
        let text = text.strip_suffix('\n').unwrap_or(&text);
        let text = text.strip_suffix('\r').unwrap_or(text);
        match answer(options, text) {
            Ok(slots) => writeln!(output, "{slots}")?,
            Err(error) => writeln!(output, "error: {error}")?,
        }
        // one at a time, for a program that asks and waits
        output.flush()?;
        line.clear();
    }
    Ok(())
}

fn answer(options: &Options, line: &str) -> Result<String, Box<dyn Error>> {
    // from the right, for a cron line may have tabs between its fields
    let mut fields = line.rsplitn(4, '\t');
    let (Some(count), Some(from), Some(zone), Some(cron)) =
        (fields.next(), fields.next(), fields.next(), fields.next())
    else {
        return Err("a line holds a cron line, a zone, an instant and a number, with a tab between them".into());
    };
    let schedule = Schedule::from(Cron::parse(cron, options.dialect, zone::parse(zone)?)?);
    let from = DateTime::parse_from_rfc3339(from).map_err(|error| format!("not an RFC 3339 instant: {error}"))?;
    let from = from.timestamp_millis();
    if options.latest {
        return schedule.latest(from).map_or(Ok(String::new()), show);
    }
    let count: u32 = count.parse().map_err(|_| "the last field is not a number of slots")?;
    if count > MOST {
        return Err(format!("at most {MOST} slots").into());
    }
    let slots = std::iter::successors(schedule.next(from), |slot| schedule.next(*slot));
    let texts: Vec<String> = slots.take(count as usize).map(show).collect::<Result<_, _>>()?;
    Ok(texts.join(" "))
}

fn show(slot: i64) -> Result<String, Box<dyn Error>> {
    let instant = DateTime::from_timestamp_millis(slot).ok_or("a slot after the last year that can be printed")?;
    Ok(instant.to_rfc3339_opts(SecondsFormat::AutoSi, true))
}
