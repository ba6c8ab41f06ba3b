//! Messages from an outbox.

use async_nats::jetstream;
use tests::backends::block_on;
use tests::servers::{Nats, NatsVersion};

use crate::program::{Program, after};

const ORDERS: [&str; 3] = ["tea", "coffee", "cocoa"];

fn published(lines: &[String]) -> Vec<&str> {
    after(lines, "", "published").into_iter().filter_map(|line| line.rsplit(": ").next()).collect()
}

#[test]
fn broker_notifications_prints_each_message_where_there_is_no_broker() {
    let lines = Program::start("broker_notifications").end();
    assert_eq!(published(&lines), ORDERS, "{lines:#?}");
    assert_eq!(lines.last().map(String::as_str), Some("the outbox is empty"));
}

#[test]
fn broker_notifications_publishes_each_message_to_nats() {
    let Some(server) = Nats::own(NatsVersion::Nats215) else { return };
    // Two of them at once, or one after the other, publish orders of their own.
    for programs in 1..=2 {
        let program = Program::start_with("broker_notifications", |command| {
            command.env("NATS_URL", server.url());
        });
        assert_eq!(published(&program.end()), ORDERS);
        let bodies = block_on(async {
            let client = async_nats::connect(server.url()).await.expect("a connection");
            let stream = jetstream::new(client).get_stream("ANARCHON_EXAMPLE").await.expect("the stream");
            let messages = stream.cached_info().state.messages;
            let mut bodies = Vec::new();
            for number in 1..=messages {
                let message = stream.get_raw_message(number).await.expect("a message");
                bodies.push(String::from_utf8(message.payload.to_vec()).expect("a text"));
            }
            bodies
        });
        assert_eq!(bodies, ORDERS.repeat(programs));
    }
}
