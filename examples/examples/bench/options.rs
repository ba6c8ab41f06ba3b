//! Arguments of the form `--name value`.

use std::collections::BTreeMap;
use std::str::FromStr;
use std::time::Duration;

use anarchon::interval;

use crate::Fallible;

/// Options that take no value.
const FLAGS: &[&str] = &["json", "help"];

#[derive(Debug, Default)]
pub(crate) struct Options(BTreeMap<String, String>);

impl Options {
    pub(crate) fn parse(mut arguments: impl Iterator<Item = String>) -> Fallible<Self> {
        let mut options = BTreeMap::new();
        while let Some(argument) = arguments.next() {
            let name = match argument.as_str() {
                "-h" => "help",
                other => other.strip_prefix("--").ok_or_else(|| format!("`{other}` is no option; see bench --help"))?,
            };
            let (name, value) = match name.split_once('=') {
                Some((name, value)) => (name, value.to_owned()),
                None if FLAGS.contains(&name) => (name, String::new()),
                None => (name, arguments.next().ok_or_else(|| format!("`--{name}` needs a value"))?),
            };
            options.insert(name.to_owned(), value);
        }
        Ok(Self(options))
    }

    /// Refuses options that the command does not have.
    pub(crate) fn only(&self, known: &[&str]) -> Fallible<()> {
        match self.0.keys().find(|name| !known.contains(&name.as_str()) && !FLAGS.contains(&name.as_str())) {
            Some(name) => Err(format!("there is no option `--{name}` here; see bench --help").into()),
            None => Ok(()),
        }
    }

    pub(crate) fn flag(&self, name: &str) -> bool {
        self.0.contains_key(name)
    }

    pub(crate) fn text<'a>(&'a self, name: &str, default: &'a str) -> &'a str {
        self.0.get(name).map_or(default, String::as_str)
    }

    pub(crate) fn number<T: FromStr>(&self, name: &str, default: T) -> Fallible<T> {
        match self.0.get(name) {
            Some(text) => text.parse().map_err(|_| format!("`--{name} {text}` is no number").into()),
            None => Ok(default),
        }
    }

    /// Numbers between commas.
    pub(crate) fn numbers(&self, name: &str, default: &str) -> Fallible<Vec<usize>> {
        let text = self.text(name, default);
        let parse = |part: &str| part.trim().parse().ok().filter(|number| *number > 0);
        let numbers: Option<Vec<usize>> = text.split(',').map(parse).collect();
        numbers.ok_or_else(|| format!("`--{name} {text}` is no list of numbers").into())
    }

    pub(crate) fn duration(&self, name: &str, default: &str) -> Fallible<Duration> {
        let text = self.text(name, default);
        if matches!(text, "0" | "0s" | "0ms") {
            return Ok(Duration::ZERO);
        }
        interval::parse(text).map_err(|error| format!("`--{name} {text}`: {error}").into())
    }
}
