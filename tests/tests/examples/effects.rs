//! Effects that happen once, on both databases.

use tests::servers::{Postgres, PostgresVersion};

use crate::program::{Program, after, slot};

fn each_run_that_is_done_has_one_transfer(program: Program) {
    let lines = program.end();
    let crashed = after(&lines, "", "crashes");
    assert_eq!(crashed.len(), 2, "{lines:#?}");
    let done: Vec<_> = after(&lines, "history:", ": done,");
    assert!(done.len() >= 4 && done.iter().all(|line| line.ends_with("for the slot: 1")), "{lines:#?}");
    for crash in crashed {
        assert_eq!(done.iter().filter(|line| slot(line) == slot(crash)).count(), 1, "{lines:#?}");
    }
    // What was committed before the crash is not done again.
    let committed = after(&lines, "", "crashes after its commit");
    let again = after(&lines, "crashes after its commit", "transferred");
    assert!(again.iter().all(|line| slot(line) != slot(committed[0])), "{lines:#?}");
}

#[test]
fn exactly_once_effects_holds_on_a_file() {
    each_run_that_is_done_has_one_transfer(Program::start("exactly_once_effects"));
}

#[test]
fn exactly_once_effects_holds_on_postgres() {
    let Some(server) = Postgres::shared(PostgresVersion::V15) else { return };
    let database = server.database();
    let program = Program::start_with("exactly_once_effects", |command| {
        command.env("DATABASE_URL", database.url());
    });
    each_run_that_is_done_has_one_transfer(program);
}
