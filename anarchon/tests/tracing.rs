//! The fields of spans and log events are stable: dashboards and alerts are built on them.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test that fails panics")]

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use anarchon::Scheduler;
use anarchon::testing::TestCluster;
use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id};
use tracing::{Event, Level, Subscriber};
use tracing_subscriber::layer::{Context, Layer, SubscriberExt as _};
use tracing_subscriber::registry::LookupSpan;

fn secs(s: u64) -> Duration {
    Duration::from_secs(s)
}

/// A span or an event: its name or message, and its fields but for the message.
#[derive(Clone, Debug)]
struct Line {
    level: Level,
    text: String,
    fields: BTreeMap<&'static str, String>,
    /// The span it stands in.
    within: Option<String>,
}

#[derive(Clone, Default)]
struct Capture(Arc<Mutex<Vec<Line>>>);

#[derive(Default)]
struct Fields(BTreeMap<&'static str, String>);

impl Visit for Fields {
    fn record_str(&mut self, field: &Field, value: &str) {
        self.0.insert(field.name(), value.to_owned());
    }
    fn record_debug(&mut self, field: &Field, value: &dyn std::fmt::Debug) {
        self.0.insert(field.name(), format!("{value:?}"));
    }
}

impl<S: Subscriber + for<'a> LookupSpan<'a>> Layer<S> for Capture {
    fn on_new_span(&self, span: &Attributes<'_>, _: &Id, _: Context<'_, S>) {
        let mut fields = Fields::default();
        span.record(&mut fields);
        let text = span.metadata().name().to_owned();
        let within = (!span.is_root()).then(|| "a parent".to_owned());
        let line = Line { level: *span.metadata().level(), text, fields: fields.0, within };
        self.0.lock().unwrap().push(line);
    }

    fn on_event(&self, event: &Event<'_>, context: Context<'_, S>) {
        let mut fields = Fields::default();
        event.record(&mut fields);
        let text = fields.0.remove("message").unwrap_or_default();
        let within = context.event_span(event).map(|span| span.name().to_owned());
        let line = Line { level: *event.metadata().level(), text, fields: fields.0, within };
        self.0.lock().unwrap().push(line);
    }
}

impl Capture {
    /// What was said by instances that run on this thread.
    fn of(play: impl FnOnce()) -> Self {
        let capture = Self::default();
        let subscriber = tracing_subscriber::registry().with(capture.clone());
        tracing::subscriber::with_default(subscriber, play);
        capture
    }

    /// The first line that begins so.
    #[track_caller]
    fn line(&self, begins: &str) -> Line {
        let lines = self.0.lock().unwrap();
        let found = lines.iter().find(|line| line.text.starts_with(begins));
        found.cloned().unwrap_or_else(|| panic!("nothing begins {begins:?} in {lines:#?}"))
    }
}

impl Line {
    #[track_caller]
    fn has(&self, fields: &[(&str, &str)]) -> &Self {
        for (name, value) in fields {
            assert_eq!(self.fields.get(name).map(String::as_str), Some(*value), "`{name}` of {self:?}");
        }
        self
    }

    #[track_caller]
    fn names(&self, names: &[&str]) {
        assert_eq!(self.fields.keys().copied().collect::<Vec<_>>(), names, "{self:?}");
    }
}

const FIRST: &str = "2026-01-15T11:00:00Z";

#[test]
fn a_run_is_a_span_that_says_which_and_why_and_where() {
    let capture = Capture::of(|| {
        let mut cluster = TestCluster::new(1, 7, |instance| instance);
        let add = async |scheduler: Scheduler<_>| {
            let handler = async || {
                tokio::time::sleep(secs(1)).await;
                tracing::info!("the handler's own words");
            };
            scheduler.every("job", "1h", handler).jitter("0s").add().await
        };
        cluster.on(0, add).unwrap();
        cluster.advance(secs(3605));
        cluster.stop(0).unwrap();
    });
    let span = capture.line("run");
    assert_eq!((span.level, &span.within), (Level::INFO, &None));
    span.has(&[("job", "job"), ("slot", FIRST), ("attempt", "1"), ("reason", "scheduled"), ("instance", "0")])
        .has(&[("backend", "faulty")])
        .names(&["attempt", "backend", "fence", "instance", "job", "reason", "slot"]);
    assert!(span.fields["fence"].parse::<u64>().unwrap() > 0);
    assert_eq!(capture.line("the handler's own words").within.as_deref(), Some("run"));

    capture.line("anarchon starts").has(&[("backend", "faulty"), ("instance", "0"), ("jobs", "0")]);
    capture.line("stopping").has(&[("instance", "0")]);
    let done = capture.line("done");
    assert_eq!((done.level, done.within.as_deref()), (Level::DEBUG, None));
    done.has(&[("job", "job"), ("slot", FIRST), ("attempt", "1")]).names(&["attempt", "job", "slot"]);
}

#[test]
fn what_goes_wrong_is_said_with_the_same_fields() {
    let capture = Capture::of(|| {
        let mut cluster = TestCluster::new(1, 7, |instance| instance.lease("15s"));
        let add = async |scheduler: Scheduler<_>| {
            scheduler.every("fails", "1h", async || Err::<(), _>("no")).jitter("0s").add().await?;
            let hangs = async || std::future::pending::<()>().await;
            scheduler.every("slow", "1h", hangs).jitter("0s").timeout("5s").max_attempts(1).add().await?;
            scheduler.every("cut off", "1h", hangs).jitter("0s").add().await
        };
        cluster.on(0, add).unwrap();
        cluster.advance(secs(3610));
        cluster.cut_off(0);
        cluster.advance(secs(20));
        cluster.heal(0);
        cluster.advance(secs(1));
        cluster.stop(0).unwrap();
    });
    let of = |job| [("job", job), ("slot", FIRST), ("attempt", "1")];
    let lines = capture.0.lock().unwrap().clone();
    let ended = |job: &str| {
        let ends = |line: &&Line| line.text == "the attempt did not end well" && line.fields["job"] == job;
        lines.iter().find(ends).unwrap_or_else(|| panic!("{lines:#?}"))
    };
    ended("fails").has(&of("fails")).has(&[("status", "failed"), ("error", "no")]);
    ended("slow").has(&of("slow")).has(&[("status", "timed_out"), ("error", "ran longer than 5s")]);
    capture.line("the run takes longer").has(&of("slow")).has(&[("timeout", "5s")]);
    let lost = capture.line("lease lost");
    assert_eq!(lost.level, Level::WARN);
    lost.has(&of("cut off")).names(&["attempt", "job", "slot"]);
    let trouble = capture.line("the store does not answer");
    assert_eq!(trouble.level, Level::WARN);
    trouble.has(&[("backend", "faulty"), ("error", "backend `faulty`: no answer within 5s")]);
    trouble.names(&["backend", "error"]);
    capture.line("the store answers again").has(&[("backend", "faulty")]).names(&["after", "backend"]);
}

#[test]
fn slots_that_are_missed_and_runs_that_are_handed_over_are_named() {
    let capture = Capture::of(|| {
        let mut cluster = TestCluster::new(1, 7, |instance| instance);
        let add = async |scheduler: Scheduler<_>| {
            let hangs = async || std::future::pending::<()>().await;
            scheduler.every("given up", "1h", hangs).jitter("0s").add().await?;
            scheduler.every("late", "1h", async || {}).jitter("0s").max_late("5s").catch_up("0s").add().await
        };
        cluster.on(0, add).unwrap();
        cluster.advance(secs(3601));
        cluster.advance(secs(3595));
        cluster.freeze(0);
        cluster.advance(secs(60));
        cluster.thaw(0);
        cluster.advance(secs(1));
        cluster.stop(0).unwrap();
    });
    capture.line("this process was frozen");
    capture.line("handed over").has(&[("job", "given up"), ("attempt", "2")]).names(&["attempt", "job", "slot"]);
    capture.line("missed").has(&[("job", "late"), ("slot", "2026-01-15T12:00:00Z")]).names(&["job", "slot"]);
}
