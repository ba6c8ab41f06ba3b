//! The scripts, one for each verb.

use std::sync::LazyLock;

use redis::Script;

macro_rules! scripts {
    ($(#[$doc:meta])* $all:ident on $start:literal { $($name:ident = [$($part:literal),+];)+ }) => {
        $(pub(super) static $name: LazyLock<Verb> = LazyLock::new(|| {
            Verb::new(concat!(include_str!($start), $("\n", include_str!($part)),+))
        });)+

        $(#[$doc])*
        pub(super) fn $all() -> Vec<&'static Verb> {
            vec![$(&$name),+]
        }
    };
}

scripts! {
    /// Those with leases.
    lease on "lua/start.lua" {
        CLAIM = ["lua/fresh.lua", "lua/job.lua", "lua/claim.lua"];
        MANUAL = ["lua/job.lua", "lua/manual.lua", "lua/each.lua"];
        HEARTBEAT = ["lua/job.lua", "lua/heartbeat.lua"];
        FINISH = ["lua/job.lua", "lua/finish.lua", "lua/each.lua"];
        RELEASE = ["lua/job.lua", "lua/release.lua", "lua/each.lua"];
        ACTIVE = ["lua/job.lua", "lua/active.lua"];
        HISTORY = ["lua/job.lua", "lua/history.lua", "lua/each.lua"];
        TRIM = ["lua/job.lua", "lua/trim.lua", "lua/each.lua"];
        REGISTER = ["lua/job.lua", "lua/register.lua"];
        PAUSE = ["lua/job.lua", "lua/pause.lua", "lua/each.lua"];
        PAUSED = ["lua/job.lua", "lua/paused.lua", "lua/each.lua"];
        KNOWN = ["lua/job.lua", "lua/known.lua"];
        FORGET = ["lua/job.lua", "lua/forget.lua", "lua/each.lua"];
    }
}

scripts! {
    /// Those that all strategies without leases have.
    first on "lua/first/job.lua" {
        FIRST_MANUAL = ["lua/first/manual.lua", "lua/each.lua"];
        FIRST_FINISH = ["lua/first/finish.lua", "lua/each.lua"];
        FIRST_HISTORY = ["lua/first/history.lua", "lua/each.lua"];
    }
}

scripts! {
    /// Those of the ids of a stream.
    stream_id on "lua/first/job.lua" {
        STREAM_ID_CLAIM = ["lua/first/stream_id.lua", "lua/first/claim.lua", "lua/each.lua"];
        STREAM_ID_TRIM = ["lua/first/stream_id.lua", "lua/first/trim.lua", "lua/each.lua"];
    }
}

scripts! {
    /// Those of a window.
    window on "lua/first/job.lua" {
        WINDOW_CLAIM = ["lua/first/window.lua", "lua/first/claim.lua", "lua/each.lua"];
        WINDOW_TRIM = ["lua/first/window.lua", "lua/first/trim.lua", "lua/each.lua"];
    }
}

scripts! {
    /// Those of idempotent XADD.
    idmp on "lua/first/job.lua" {
        IDMP_CLAIM = ["lua/first/idmp.lua", "lua/first/claim.lua", "lua/each.lua"];
        IDMP_TRIM = ["lua/first/idmp.lua", "lua/first/trim.lua", "lua/each.lua"];
        IDMP_WINDOW = ["lua/first/idmp.lua", "lua/first/window_of.lua", "lua/each.lua"];
    }
}

/// A script: its text, and the hash by which a server knows it once it has seen the text.
#[derive(Debug)]
pub(super) struct Verb {
    pub(super) text: String,
    pub(super) hash: String,
}

impl Verb {
    fn new(source: &str) -> Self {
        let text = without_unused(&with_constants(source));
        let hash = Script::new(&text).get_hash().to_owned();
        Self { text, hash }
    }
}

/// The script with the values of its constants (`local NAME, OTHER = 1, 2`) in the place of their names, and without
/// comments: a name costs each function that uses it a look at all names before it, in every call.
fn with_constants(source: &str) -> String {
    let code: Vec<&str> = source.lines().filter(|line| !line.trim_start().starts_with("--")).collect();
    let constants: Vec<(&str, &str)> = code.iter().filter_map(|line| constants(line)).flatten().collect();
    let mut text = String::with_capacity(source.len());
    for line in code.into_iter().filter(constants_free) {
        for word in words(line) {
            let value = constants.iter().find(|(name, _)| *name == word).map(|(_, value)| *value);
            text.push_str(value.unwrap_or(word));
        }
        text.push('\n');
    }
    text
}

/// The script without the functions that it does not call: each would be made anew in every call.
fn without_unused(text: &str) -> String {
    let mut parts = top_level(text);
    loop {
        let before = parts.len();
        let used = |name: &str, at: usize| {
            let others = parts.iter().enumerate().filter(|(other, _)| *other != at);
            others.flat_map(|(_, part)| words(part)).any(|word| word == name)
        };
        let keeps = |(at, part): (usize, &String)| function(part).is_none_or(|name| used(name, at));
        let kept: Vec<String> =
            parts.iter().enumerate().filter(|each| keeps(*each)).map(|(_, part)| part.clone()).collect();
        if kept.len() == before {
            return kept.concat();
        }
        parts = kept;
    }
}

/// A text's functions, each as one part, and the lines between them.
fn top_level(text: &str) -> Vec<String> {
    let mut parts: Vec<String> = Vec::new();
    let mut open = false;
    for line in text.split_inclusive('\n') {
        match parts.last_mut().filter(|_| open) {
            Some(part) => part.push_str(line),
            None => parts.push(line.to_owned()),
        }
        open = line.trim_end() != "end" && (open || function(line).is_some());
    }
    parts
}

/// The name of the function that begins here.
fn function(part: &str) -> Option<&str> {
    part.strip_prefix("local function ")?.split('(').next()
}

/// The names and values of a line that has nothing but constants.
fn constants(line: &str) -> Option<Vec<(&str, &str)>> {
    let (names, values) = line.strip_prefix("local ")?.split_once(" = ")?;
    let pairs: Vec<(&str, &str)> = names.split(", ").zip(values.split(", ")).collect();
    let is_name = |name: &str| name.chars().all(|c| c.is_ascii_uppercase() || c == '_');
    let is_literal = |value: &str| value.trim_matches('\'').chars().all(|c| c.is_ascii_digit());
    pairs.iter().all(|(name, value)| is_name(name) && is_literal(value)).then_some(pairs)
}

fn constants_free(line: &&str) -> bool {
    constants(line).is_none()
}

/// The words of a line, and what is between them.
fn words(line: &str) -> impl Iterator<Item = &str> {
    let in_word = |c: char| c.is_ascii_alphanumeric() || c == '_';
    let mut rest = line;
    std::iter::from_fn(move || {
        let first = rest.chars().next()?;
        let end = rest.find(|c: char| in_word(c) != in_word(first)).unwrap_or(rest.len());
        let (word, after) = rest.split_at(end);
        rest = after;
        Some(word)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn constants_are_put_in_and_nothing_else_is_changed() {
        let source = "-- of MAX\nlocal FORMAT, MAX = '1', 10\nlocal INDEX = KEYS[1]\nlocal function f()\n  -- MAX\n  \
                      return FORMAT, MAXIMUM, a[MAX], 'R_MAX', INDEX\nend\n";
        let expected = "local INDEX = KEYS[1]\nlocal function f()\n  return '1', MAXIMUM, a[10], 'R_MAX', INDEX\nend\n";
        assert_eq!(with_constants(source), expected);
    }

    #[test]
    fn functions_that_nothing_calls_are_left_out_and_those_that_only_they_called() {
        let source = "local now = 1\nlocal function used()\n  if now then\n    return now\n  end\nend\n\
                      local function deep()\n  return used()\nend\nlocal function unused()\n  return deep() + unused()\nend\n\
                      return used()\n";
        let expected =
            "local now = 1\nlocal function used()\n  if now then\n    return now\n  end\nend\nreturn used()\n";
        assert_eq!(without_unused(source), expected);
        assert!(CLAIM.text.contains("local function close(") && !HEARTBEAT.text.contains("local function close("));
    }

    #[test]
    fn every_script_has_its_constants_in() {
        for verb in [lease(), first(), stream_id(), window(), idmp()].concat() {
            for line in verb.text.lines() {
                assert!(constants_free(&line), "{line}");
                for word in words(line) {
                    let left = word.starts_with("R_") || word.starts_with("A_") || matches!(word, "TOKEN" | "UNTIL");
                    assert!(!left, "{word} in {line}");
                }
            }
        }
    }
}
