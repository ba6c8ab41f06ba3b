//! Real processes on one server.

use tests::race::three_processes_run_each_slot_once;
use tests::servers::NatsVersion;
use tests::{NodeOptions, Store};

#[test]
fn without_leases_three_processes_run_each_slot_once_though_the_server_is_killed() {
    let Some(store) = Store::own_nats_claims(NatsVersion::Nats29) else { return };
    three_processes_run_each_slot_once(store, 100, "", &NodeOptions::bare());
}

#[test]
fn with_leases_three_processes_run_each_slot_once_though_the_server_is_killed() {
    let Some(store) = Store::own_nats(NatsVersion::Nats215) else { return };
    // Fewer jobs: these are decided in the processes, which are built without optimizing here, and read and written whole.
    // What had been started before the kill, and could not be said to be over, is not taken over.
    let options = NodeOptions::bare().set("--lease", "60s");
    three_processes_run_each_slot_once(store, 30, "overlap = \"allow\"", &options);
}
