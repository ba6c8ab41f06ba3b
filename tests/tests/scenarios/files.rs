//! What `node` refuses, and how it says so.

use tests::{Lab, NodeOptions, Store};

use super::every_second;

/// Starts a process with these jobs, and returns what it says when it refuses them.
#[track_caller]
fn refusal(lab: &Lab, jobs: &str, options: &NodeOptions) -> String {
    let mut node = lab.spawn("a", jobs, options);
    let status = node.wait();
    assert_eq!(status.code(), Some(1), "{}", node.stderr());
    node.stderr()
}

#[track_caller]
fn refused(jobs: &str, words: &[&str]) {
    let text = refusal(&Lab::sqlite(), jobs, &NodeOptions::default());
    for word in words {
        assert!(text.contains(word), "no {word:?} in: {text}");
    }
}

#[test]
fn two_jobs_of_one_name_are_refused_naming_it() {
    let twice = format!("{}{}", every_second("tick", "none", ""), every_second("tick", "none", ""));
    refused(&twice, &["two jobs are named `tick`"]);
}

#[test]
fn a_bad_file_of_jobs_is_refused_with_what_is_wrong_in_it() {
    refused(&every_second("tick", "none", "retries = 3"), &["unknown field `retries`", "max_attempts"]);
    refused(&every_second("tick", "dance", ""), &["unknown work \"dance\""]);
    refused(&every_second("tick", "none", "cron = \"* * * * *\""), &["job `tick`", "more than one schedule"]);
    refused("[[job]]\nname = \"tick\"\nwork = \"none\"\n", &["job `tick`", "no schedule"]);
    refused("[[job]]\nname = \"tick\"\ncron = \"61 * * * *\"\nwork = \"none\"\n", &["job `tick`", "61"]);
    refused(&every_second("tick", "none", "timezone = \"UTC\""), &["job `tick`", "`timezone`", "`every`"]);
    refused(&every_second("tick", "none", "jitter = \"2s\""), &["job `tick`", "`jitter`"]);
    refused(&every_second("tick", "none", "max_attempts = 0"), &["job `tick`", "`max_attempts`", "at least 1"]);
    refused("[[job]\n", &["0-a.toml"]);
}

#[test]
fn a_claim_only_store_refuses_options_that_need_leases_by_name() {
    let lab = || Lab::on(Store::new("memory-claims:", None), tempfile::tempdir().expect("a directory"));
    for (option, value) in [
        ("overlap", "\"skip\""),
        ("max_attempts", "2"),
        ("retry_failed", "\"1s\""),
        ("catch_up", "\"1s\""),
        ("takeover_within", "\"1h\""),
    ] {
        let jobs = every_second("tick", "none", &format!("{option} = {value}"));
        let text = refusal(&lab(), &jobs, &NodeOptions::bare());
        assert!(text.contains("job `tick`") && text.contains(&format!("`{option}`")), "{text}");
    }
    let text = refusal(&lab(), &every_second("tick", "none", ""), &NodeOptions::bare().set("--lease", "3s"));
    assert!(text.contains("`--lease` needs a store with leases"), "{text}");
}

#[test]
fn a_store_that_nothing_knows_is_refused_naming_those_that_are_known() {
    let lab = Lab::on(Store::new("carrier-pigeon:coop", None), tempfile::tempdir().expect("a directory"));
    let text = refusal(&lab, &every_second("tick", "none", ""), &NodeOptions::default());
    assert!(text.contains("`carrier-pigeon:`") && text.contains("`sqlite:`"), "{text}");
}

#[test]
fn a_store_in_a_directory_that_is_not_there_is_refused_at_start() {
    let lab = Lab::on(Store::new("sqlite:/no/such/directory/store.db", None), tempfile::tempdir().expect("one"));
    let text = refusal(&lab, &every_second("tick", "none", ""), &NodeOptions::default());
    assert!(text.contains("backend `sqlite`"), "{text}");
}

#[test]
fn the_file_of_jobs_that_comes_with_node_is_accepted() {
    let lab = Lab::sqlite();
    let jobs = std::fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/../examples/node.toml"));
    let mut node = lab.start("a", &jobs.expect("a file of jobs"), &NodeOptions::default());
    node.stop();
}
