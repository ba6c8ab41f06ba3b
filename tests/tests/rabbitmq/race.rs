//! Real processes on one broker.

use tests::race::three_processes_run_each_slot_once;
use tests::servers::RabbitMqVersion;
use tests::{NodeOptions, Store};

#[test]
fn on_rabbitmq_3_three_processes_run_each_slot_once_though_the_broker_is_killed() {
    let Some(store) = Store::own_rabbitmq(RabbitMqVersion::V3) else { return };
    three_processes_run_each_slot_once(store, 100, "", &NodeOptions::bare());
}

#[test]
fn on_rabbitmq_4_three_processes_run_each_slot_once_though_the_broker_is_killed() {
    let Some(store) = Store::own_rabbitmq(RabbitMqVersion::V4) else { return };
    three_processes_run_each_slot_once(store, 100, "", &NodeOptions::bare());
}
