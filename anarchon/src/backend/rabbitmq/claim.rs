//! A claim: the first declare of a slot's queue wins.
//!
//! The queue's dead-letter routing key is the token: the broker takes a declare with the same arguments again and
//! refuses one with others, so the winner may repeat itself. Nothing is ever in the queue, and nothing is dead-lettered.
//! A passive declare would be cheaper for those who lose, but it does not tell whose the queue is.

use std::time::Duration;

use lapin::options::QueueDeclareOptions;
use lapin::types::{AMQPValue, FieldTable, LongString};

use super::error::{Failure, error, short};
use super::link::Link;
use crate::clock::to_ms;
use crate::error::{BackendError, BackendErrorKind};
use crate::slot::Token;

/// What a queue that somebody else declared differs in, if all is well.
const TOKEN: &str = "x-dead-letter-routing-key";

/// What became of a declare.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Declared {
    /// The queue is ours.
    Ours,
    /// Somebody else declared it.
    Taken,
    /// Somebody else declared it, who is set up otherwise; this is what the broker says.
    Otherwise(String),
}

/// Declares the queue `queue` as that of `token`, to go `ttl` after it was last declared so.
pub(super) async fn declare(link: &Link, queue: &str, token: Token, ttl: Duration) -> Result<Declared, BackendError> {
    // A queue that is not durable would not outlive a crash of the broker, and then somebody else would win.
    let options = QueueDeclareOptions { durable: true, ..QueueDeclareOptions::default() };
    let text = |text: &str| AMQPValue::LongString(LongString::from(text));
    let mut arguments = FieldTable::default();
    arguments.insert("x-queue-type".into(), text("classic"));
    arguments.insert("x-expires".into(), AMQPValue::LongLongInt(to_ms(ttl)));
    arguments.insert("x-dead-letter-exchange".into(), text(""));
    arguments.insert(TOKEN.into(), text(&token.to_string()));
    let answer = link.call(|channel| {
        let (queue, arguments) = (queue.into(), arguments.clone());
        async move { channel.queue_declare(queue, options, arguments).await }
    });
    match answer.await {
        Ok(_) => Ok(Declared::Ours),
        Err(Failure::Refused(said)) => {
            let text = said.get_message().as_str();
            refused(queue, text).ok_or_else(|| anothers(text).unwrap_or_else(|| Failure::Refused(said.clone()).sort()))
        }
        Err(failure) => Err(failure.sort()),
    }
}

/// Reads why a declare was refused, if that is because the queue is there.
fn refused(queue: &str, said: &str) -> Option<Declared> {
    let (_, rest) = said.split_once("inequivalent arg '")?;
    let (argument, rest) = rest.split_once("' for queue '")?;
    // The broker cuts its texts at 255 bytes, anywhere.
    let expected = format!("{queue}' in vhost '");
    let named = rest.starts_with(&expected) || rest.strip_suffix("...").is_some_and(|cut| expected.starts_with(cut));
    if !named {
        return None;
    }
    Some(if argument == TOKEN { Declared::Taken } else { Declared::Otherwise(short(said)) })
}

/// A refusal that is about the queue of another slot: a client whose connection breaks tells all who wait on it what one
/// of them was told.
fn anothers(said: &str) -> Option<BackendError> {
    let message = || format!("the connection failed with the answer to another call: {}", short(said));
    said.contains("inequivalent arg '").then(|| error(BackendErrorKind::Unknown, message()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_refusal_says_who_was_first_whatever_is_cut_off() {
        let whole = |argument: &str, queue: &str| {
            let mut text = format!(
                "PRECONDITION_FAILED - inequivalent arg '{argument}' for queue '{queue}' in vhost '/': received \
                 'f1dd31c9-a7c5-4a4b-9c8c-4e9b3c8a2d11' but current is '00000000-a7c5-4a4b-9c8c-4e9b3c8a2d11'"
            );
            if text.len() > 255 {
                text.truncate(252);
                text.push_str("...");
            }
            text
        };
        for length in (1..=228).chain([255]) {
            let queue = "q".repeat(length);
            assert_eq!(refused(&queue, &whole(TOKEN, &queue)), Some(Declared::Taken), "{length}");
        }
        assert!(
            matches!(refused("q", &whole("x-expires", "q")), Some(Declared::Otherwise(text)) if text.contains("current is"))
        );
        assert!(matches!(refused("q", &whole("durable", "q")), Some(Declared::Otherwise(_))));
        assert_eq!(refused("q", &whole(TOKEN, "other")), None, "another queue's answer is none");
        let unknown = anothers(&whole(TOKEN, "other")).map(|error| error.kind());
        assert_eq!(unknown, Some(BackendErrorKind::Unknown), "and says nothing of this one");
        assert_eq!(
            refused("q", "NOT_FOUND - home node 'a@b' of durable queue 'q' in vhost '/' is down or inaccessible"),
            None
        );
        let limit = "PRECONDITION_FAILED - cannot declare queue 'q': queue limit in vhost '/' (3) is reached";
        assert_eq!((refused("q", limit), anothers(limit).is_none()), (None, true));
    }
}
