//! The store's server dies and comes again, or freezes.

use tests::check::{each_once, grid, never_two_at_once, no_attempt_twice};
use tests::{Lab, NodeOptions, Server, wall_ms};

use super::every_second;

fn with_server<T>(lab: &Lab, act: impl FnOnce(&mut dyn Server) -> T) -> T {
    act(lab.store().borrow_mut().server().expect("a server of its own"))
}

/// No slot runs twice, and none is lost that was within `max_late` when the server was back.
pub(crate) fn a_server_that_is_killed_and_restarted_loses_no_slot_and_runs_none_twice(lab: &Lab) {
    let jobs = every_second("tick", "none", "overlap = \"allow\"");
    // Longer than the server is away: what had been started before and could not be said to be over is not taken over.
    let mut nodes = lab.start_all(["a", "b", "c"], &jobs, &NodeOptions::default().set("--lease", "60s"));
    let from = wall_ms();
    lab.wait_start("tick", 1);
    for _ in 0..2 {
        let before = lab.lines().len();
        with_server(lab, |server| server.kill());
        lab.wait_for("trouble", |lines| lines[before..].iter().find(|line| line.event == "store-trouble").map(|_| ()));
        lab.wait_until_ms(wall_ms() + 2000);
        with_server(lab, |server| server.start());
        lab.wait_for("its end", |lines| {
            let recovered = |node: &str| {
                let mut later = lines[before..].iter().filter(|line| line.instance == node);
                later.any(|line| line.event == "store-recovered")
            };
            ["a", "b", "c"].into_iter().all(recovered).then_some(())
        });
    }
    let owed = grid(1000, from, wall_ms() + 2000);
    lab.wait_each("start", "tick", &owed);
    nodes.iter_mut().for_each(tests::Node::stop);
    let attempts = lab.attempts();
    no_attempt_twice(&attempts);
    each_once(&attempts, "tick", &owed);
}

pub(crate) fn a_runner_whose_server_is_silent_is_cancelled_before_another_can_start(lab: &Lab) {
    let jobs = every_second("long", "sleep 60s", "");
    let mut nodes = lab.start_all(["a", "b", "c"], &jobs, &NodeOptions::default());
    let first = lab.wait_start("long", 1);
    with_server(lab, |server| server.freeze());
    let cancelled = lab.wait_line("its cancellation", |line| line.is_of("cancelled", &first));
    assert_eq!(cancelled.how.as_deref(), Some("lease lost"));
    // Its lease is over by now, or will soon be.
    lab.wait_until_ms(wall_ms() + 1000);
    with_server(lab, |server| server.thaw());
    let second = lab.wait_start("long", 2);
    assert_eq!(second.slot, first.slot);
    nodes.iter_mut().for_each(|node| {
        node.kill();
    });
    let attempts = lab.attempts();
    never_two_at_once(&attempts);
    assert_eq!(attempts.iter().filter(|attempt| attempt.start.slot == first.slot).count(), 2, "{attempts:?}");
}

/// As a planned restart does: it ends its connections and lets nobody in.
pub(crate) fn a_server_that_is_restarted_costs_no_run_its_lease(lab: &Lab) {
    let jobs = every_second("long", "sleep 8s", "");
    let _nodes = lab.start_all(["a", "b", "c"], &jobs, &NodeOptions::default().set("--lease", "15s"));
    let first = lab.wait_start("long", 1);
    with_server(lab, |server| {
        server.stop();
        server.start();
    });
    let end = lab.wait_line("its end", |line| line.is_of("end", &first));
    assert_eq!(end.how.as_deref(), Some("done"));
    lab.wait_line("its end in the store", |line| line.is_of("finished", &first));
    let later = lab.wait_line("a later run", |line| line.is("start", "long") && line.slot > first.slot);
    assert_eq!(later.attempt, Some(1));
    never_two_at_once(&lab.attempts());
}
