//! The table of cron lines and their right answers, one case a row.
#![allow(clippy::unwrap_used, clippy::expect_used)]

mod support;

use anarchon_schedule::{Cron, Dialect, Schedule, zone};
use support::{ms, slots, utc};

const TABLE: &str = include_str!("cases.txt");

struct Case {
    id: &'static str,
    kind: &'static str,
    line: String,
    zone: &'static str,
    from: &'static str,
    slots: Vec<i64>,
}

fn cases() -> Vec<Case> {
    let rows = TABLE.lines().filter(|row| !row.starts_with('#'));
    let case = |row: &'static str| {
        let row = row.strip_suffix(" |").unwrap_or(row);
        let cells: Vec<&'static str> = row.splitn(7, " | ").collect();
        let [id, kind, line, zone, from, slots] = cells[..6] else { panic!("{row:?} has {} cells", cells.len()) };
        let slots = if slots == "-" { Vec::new() } else { slots.split(' ').map(ms).collect() };
        Case { id, kind, line: unescape(line), zone, from, slots }
    };
    rows.map(case).collect()
}

fn unescape(line: &str) -> String {
    line.replace("\\t", "\t").replace("\\n", "\n").replace("\\0", "\0").replace("\\u{a0}", "\u{a0}")
}

fn texts(slots: &[i64]) -> Vec<String> {
    slots.iter().copied().map(utc).collect()
}

/// What is wrong with a case, if anything.
fn fault(case: &Case) -> Option<String> {
    let zone = zone::parse(if case.zone == "-" { "UTC" } else { case.zone }).unwrap();
    let parsed = Cron::parse(&case.line, Dialect::Unix, zone);
    let schedule: Schedule = match (case.kind, parsed) {
        ("reject" | "never", Ok(_)) => return Some("was accepted".to_owned()),
        ("reject" | "never", Err(error)) => {
            let span = error.span().expect("every refusal has a place");
            let caret = error.caret(&case.line);
            return match () {
                () if case.line.get(span.clone()).is_none() => Some(format!("{span:?} is no part of the line")),
                () if caret.lines().count() != 2 => Some(format!("{caret:?} has not two lines")),
                () if error.to_string().ends_with('.') => Some(format!("{error} ends with a full stop")),
                () => None,
            };
        }
        (_, Err(error)) => return Some(format!("was refused: {error}")),
        (_, Ok(cron)) => cron.into(),
    };
    let got = match case.kind {
        "must" | "ext" | "fine" => slots(&schedule, ms(case.from), case.slots.len()),
        "latest" => schedule.latest(ms(case.from)).into_iter().collect(),
        other => panic!("{}: unknown kind {other}", case.id),
    };
    (got != case.slots).then(|| format!("expected {:?}, got {:?}", texts(&case.slots), texts(&got)))
}

#[test]
fn every_case_of_the_table_has_its_answer() {
    let cases = cases();
    let faults: Vec<String> = cases
        .iter()
        .filter_map(|case| {
            Some(format!("{} `{}` in {} from {}: {}", case.id, case.line, case.zone, case.from, fault(case)?))
        })
        .collect();
    assert!(faults.is_empty(), "{} of {} cases:\n{}", faults.len(), cases.len(), faults.join("\n"));
}

#[test]
fn the_table_is_complete() {
    let cases = cases();
    let count = |kind: &str| cases.iter().filter(|case| case.kind == kind).count();
    let counts = ["must", "ext", "fine", "reject", "never", "latest"].map(|kind| (kind, count(kind)));
    assert_eq!(counts, [("must", 75), ("ext", 15), ("fine", 4), ("reject", 51), ("never", 3), ("latest", 9)]);
    let mut ids: Vec<&str> = cases.iter().map(|case| case.id).collect();
    ids.sort_unstable();
    ids.dedup();
    assert_eq!((ids.len(), cases.len()), (157, 157), "ids are unique");
    for case in &cases {
        assert_eq!(
            case.slots.is_empty(),
            matches!(case.kind, "reject" | "never"),
            "{} has slots or is refused",
            case.id
        );
    }
}
