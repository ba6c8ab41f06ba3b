//! What the arguments ask for.

use std::ffi::OsString;
use std::io::{IsTerminal as _, Write as _};
use std::process::ExitCode;

use clap::{Arg, ArgAction, ArgMatches, value_parser};

use crate::slot::Slot;

/// The part of the help that clap cannot write.
const MORE: &str = "\
Exit codes:
  0  all is well
  1  the command failed, or the store cannot be reached
  2  arguments that cannot be understood
  3  `check` found trouble
  4  no job of that name

Environment:
  RUST_LOG  what is logged to standard error (default: info for `run`, warn otherwise)
  NO_COLOR  no colours, even on a terminal
  COLUMNS   how wide tables may be (default: as wide as the terminal)";

/// One command, and how its answer is wanted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Asked {
    pub(super) command: Command,
    pub(super) json: bool,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Command {
    Run,
    Jobs,
    Next { job: String, count: u32 },
    History { job: String, count: u32 },
    Why { job: String, slot: Slot },
    RunNow { job: String },
    Pause { job: String, note: String },
    Resume { job: String },
    Check,
}

/// Help that was asked for, or what is wrong with the arguments.
#[derive(Debug)]
pub(super) struct Said(clap::Error);

impl Said {
    pub(super) fn print(&self) -> ExitCode {
        let text = self.0.render();
        // Who does not read it to its end has seen enough.
        let _ = if self.0.use_stderr() {
            write!(std::io::stderr().lock(), "{text}")
        } else {
            write!(std::io::stdout().lock(), "{text}")
        };
        ExitCode::from(u8::try_from(self.0.exit_code()).unwrap_or(2))
    }
}

pub(super) fn parse<I, T>(args: I) -> Result<Asked, Said>
where
    I: IntoIterator<Item = T>,
    T: Into<OsString> + Clone,
{
    let matches = command().try_get_matches_from(args).map_err(Said)?;
    let json = matches.get_flag("json");
    let command = match matches.subcommand() {
        None => Command::Run,
        Some((name, matches)) => read(name, matches),
    };
    Ok(Asked { command, json })
}

fn read(name: &str, matches: &ArgMatches) -> Command {
    let text = |id: &str| matches.get_one::<String>(id).cloned().unwrap_or_default();
    let count = |default| matches.get_one::<u32>("count").copied().unwrap_or(default);
    match name {
        "jobs" => Command::Jobs,
        "next" => Command::Next { job: text("job"), count: count(10) },
        "history" => Command::History { job: text("job"), count: count(20) },
        "why" => {
            let slot = matches.get_one::<Slot>("slot").copied().unwrap_or_default();
            Command::Why { job: text("job"), slot }
        }
        "run-now" => Command::RunNow { job: text("job") },
        "pause" => Command::Pause { job: text("job"), note: text("note") },
        "resume" => Command::Resume { job: text("job") },
        "check" => Command::Check,
        _ => Command::Run,
    }
}

fn command() -> clap::Command {
    let job = || Arg::new("job").value_name("JOB").required(true).help("The name of a job");
    let count = |default: &'static str| {
        Arg::new("count")
            .short('n')
            .value_name("COUNT")
            .value_parser(value_parser!(u32).range(1..=100_000))
            .default_value(default)
            .help("How many to show")
    };
    let slot = Arg::new("slot")
        .value_name("SLOT")
        .required(true)
        .allow_hyphen_values(true)
        .value_parser(slot)
        .help("A scheduled time: as in 2026-01-31T08:00:00Z, or ms since the Unix epoch");
    let note = Arg::new("note").long("note").value_name("TEXT").help("A note for those who wonder");
    let json = Arg::new("json")
        .long("json")
        .global(true)
        .action(ArgAction::SetTrue)
        .help("Print one JSON document instead of text");
    let sub = |name: &'static str, about: &'static str| clap::Command::new(name).about(about);
    clap::Command::new("anarchon")
        .about("Runs scheduled jobs of which exactly one instance runs each scheduled time, and tells about them.")
        .after_help(MORE)
        .disable_help_subcommand(true)
        .term_width(if std::io::stdout().is_terminal() { super::output::columns().unwrap_or(100) } else { 100 })
        .arg(json)
        .subcommand(sub("run", "Run the jobs until Ctrl-C or SIGTERM (what happens without a command)"))
        .subcommand(sub("jobs", "List the jobs: schedule, next slots, last run, where one is running"))
        .subcommand(sub("next", "Show the next slots of a job").arg(job()).arg(count("10")))
        .subcommand(sub("history", "Show the latest runs of a job, of all instances").arg(job()).arg(count("20")))
        .subcommand(sub("why", "Say what became of one slot of a job").arg(job()).arg(slot))
        .subcommand(sub("run-now", "Run a job here and now, and wait for its end").arg(job()))
        .subcommand(sub("pause", "Pause a job on all instances").arg(job()).arg(note))
        .subcommand(sub("resume", "End the pause of a job").arg(job()))
        .subcommand(sub("check", "Connect to the store and look for trouble"))
}

fn slot(text: &str) -> Result<Slot, String> {
    if let Ok(ms) = text.parse() {
        return Ok(Slot::from_ms(ms));
    }
    chrono::DateTime::parse_from_rfc3339(text).map(|time| Slot::from_ms(time.timestamp_millis())).map_err(|_| {
        "write a time with its offset, as in `2026-01-31T08:00:00Z`, or ms since the Unix epoch".to_owned()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn asked(line: &str) -> Option<Asked> {
        parse(["program"].into_iter().chain(line.split_whitespace())).ok()
    }

    #[test]
    fn each_command_is_read_with_its_defaults() {
        let job = "export".to_owned();
        let plain = |line: &str| asked(line).map(|asked| asked.command);
        assert_eq!(plain(""), Some(Command::Run));
        assert_eq!(plain("run"), Some(Command::Run));
        assert_eq!(plain("next export"), Some(Command::Next { job: job.clone(), count: 10 }));
        assert_eq!(plain("history export -n 3"), Some(Command::History { job: job.clone(), count: 3 }));
        assert_eq!(plain("pause export"), Some(Command::Pause { job: job.clone(), note: String::new() }));
        let slot = Slot::from_ms(1_769_846_400_000);
        for text in ["2026-01-31T08:00:00Z", "2026-01-31T09:00:00+01:00", "1769846400000"] {
            let asked = plain(&format!("why export {text}"));
            assert_eq!(asked, Some(Command::Why { job: job.clone(), slot }), "{text}");
        }
        assert!(asked("--json jobs").is_some_and(|asked| asked.json) && asked("jobs --json").is_some_and(|a| a.json));
        for wrong in ["nonsense", "next", "next export -n 0", "why export", "why export yesterday", "run --fast"] {
            assert_eq!(asked(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn the_definition_of_the_commands_is_sound() {
        command().debug_assert();
    }
}
