//! History: a queue of messages for each job. Nobody consumes it; a reader takes everything and puts it back.
//!
//! Its messages go over a connection of their own: a broker that runs out of disk or memory reads nothing more from a
//! connection that publishes, and claims must go on.

use std::collections::HashSet;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use futures_util::StreamExt as _;
use lapin::message::Delivery;
use lapin::options::{
    BasicCancelOptions, BasicConsumeOptions, BasicGetOptions, BasicNackOptions, BasicPublishOptions,
    QueueDeclareOptions, QueueDeleteOptions,
};
use lapin::protocol::{AMQPErrorKind, AMQPSoftError};
use lapin::types::{AMQPValue, FieldTable, LongString};
use lapin::{Channel, Confirmation};

use super::error::{Failure, error};
use super::link::{CALL, Link};
use super::names::Names;
use super::record::Entry;
use crate::error::{BackendError, BackendErrorKind};
use crate::slot::JobName;

/// The largest `history_size`: who reads a history takes all of it, within the time of one call.
pub(super) const LARGEST: u32 = 5000;

/// The history of a job that no instance has had for so long goes, in ms: 45 days, and the broker allows no more than 49.
const FORGET_MS: i64 = 45 * 86_400_000;

/// Two messages for each run, and some that came twice.
const SPARE: u32 = 16;

/// The most messages in a queue, if nobody trims it.
const MOST: i64 = 2 * (LARGEST as i64) + 2000;

/// How many messages one trim drops.
const TRIM_AT_ONCE: u32 = 500;

/// The sole right to read ends by itself after this, in ms, if whoever had it forgot to give it up.
const READING_MS: i64 = 10_000;

/// How long is waited for another reader between two tries.
const PAUSE: Duration = Duration::from_millis(10);

/// The histories of jobs.
#[derive(Debug)]
pub(super) struct History {
    pub(super) link: Link,
    /// Jobs whose queue was there once.
    declared: Mutex<HashSet<JobName>>,
    /// The broker lets one connection read at a time, and this one call of it.
    reading: tokio::sync::Mutex<()>,
}

impl History {
    pub(super) fn new(link: Link) -> Self {
        Self { link, declared: Mutex::default(), reading: tokio::sync::Mutex::default() }
    }

    /// Makes a job's history, or sees to it that it stays.
    pub(super) async fn declare(&self, names: &Names, job: &JobName) -> Result<(), BackendError> {
        let options = QueueDeclareOptions { durable: true, ..QueueDeclareOptions::default() };
        let mut arguments = FieldTable::default();
        arguments.insert("x-queue-type".into(), AMQPValue::LongString(LongString::from("classic")));
        arguments.insert("x-expires".into(), AMQPValue::LongLongInt(FORGET_MS));
        arguments.insert("x-max-length".into(), AMQPValue::LongLongInt(MOST));
        let queue = names.history(job);
        let answer = self.link.call(|channel| {
            let (queue, arguments) = (queue.as_str().into(), arguments.clone());
            async move { channel.queue_declare(queue, options, arguments).await }
        });
        answer.await.map_err(|failure| failure.sort())?;
        self.declared.lock().unwrap_or_else(PoisonError::into_inner).insert(job.clone());
        Ok(())
    }

    /// Writes an entry, which is on the broker's disk when this returns.
    pub(super) async fn write(&self, names: &Names, job: &JobName, entry: &Entry) -> Result<(), BackendError> {
        if self.link.is_blocked() {
            let full = "the broker has run out of disk or memory, so it takes no messages";
            return Err(error(BackendErrorKind::Busy, full));
        }
        if !self.declared.lock().unwrap_or_else(PoisonError::into_inner).contains(job) {
            self.declare(names, job).await?;
        }
        for last in [false, true] {
            match self.publish(&names.history(job), entry).await.map_err(|failure| failure.sort())? {
                Confirmation::Ack(None) => return Ok(()),
                // There is no such queue.
                Confirmation::Ack(Some(_)) if !last => self.declare(names, job).await?,
                _ => break,
            }
        }
        Err(error(BackendErrorKind::Busy, "the broker did not take a record of history"))
    }

    async fn publish(&self, queue: &str, entry: &Entry) -> Result<Confirmation, Failure> {
        let (properties, body) = entry.write();
        let body: Arc<[u8]> = body.into();
        let options = BasicPublishOptions { mandatory: true, ..BasicPublishOptions::default() };
        let answer = self.link.call(|channel| {
            let (queue, body, properties) = (queue.into(), Arc::clone(&body), properties.clone());
            async move { channel.basic_publish("".into(), queue, options, &body, properties).await?.await }
        });
        answer.await
    }

    /// All that is known of a job.
    pub(super) async fn read(&self, names: &Names, job: &JobName) -> Result<Vec<Entry>, BackendError> {
        let queue = names.history(job);
        if self.count(&queue).await?.is_none() {
            return Ok(Vec::new());
        }
        let deliveries = self.alone(&names.reading(job), |channel| read_all(channel, queue.clone())).await?;
        Ok(deliveries.iter().filter_map(|delivery| Entry::read(&delivery.properties, &delivery.data)).collect())
    }

    /// Drops the oldest of what is more than `size` runs.
    pub(super) async fn trim(&self, names: &Names, job: &JobName, size: u32) -> Result<(), BackendError> {
        let queue = names.history(job);
        let keep = size.saturating_mul(2).saturating_add(SPARE);
        if self.count(&queue).await?.is_none_or(|count| count <= keep) {
            return Ok(());
        }
        self.alone(&names.reading(job), |channel| drop_oldest(channel, queue.clone(), keep)).await
    }

    /// How many messages a queue has, as far as nobody is reading it, if there is such a queue.
    async fn count(&self, queue: &str) -> Result<Option<u32>, BackendError> {
        let answer = self.link.call(|channel| {
            let queue = queue.to_owned();
            async move { count(&channel, &queue).await }
        });
        match answer.await {
            Ok(count) => Ok(Some(count)),
            Err(failure) if is_missing(&failure) => Ok(None),
            Err(failure) => Err(failure.sort()),
        }
    }

    /// Does something while nobody else reads: what somebody has taken and not put back yet is invisible to others.
    async fn alone<T, F>(&self, reading: &str, work: impl Fn(Channel) -> F + Sync) -> Result<T, BackendError>
    where
        F: Future<Output = lapin::Result<T>> + Send,
        T: Send,
    {
        let _reading = self.reading.lock().await;
        let began = Instant::now();
        let options = QueueDeclareOptions { exclusive: true, ..QueueDeclareOptions::default() };
        loop {
            let answer = self.link.call(|channel| {
                let work = &work;
                async move {
                    let mut arguments = FieldTable::default();
                    arguments.insert("x-expires".into(), AMQPValue::LongLongInt(READING_MS));
                    channel.queue_declare(reading.into(), options, arguments).await?;
                    let answer = work(channel.clone()).await?;
                    channel.queue_delete(reading.into(), QueueDeleteOptions::default()).await?;
                    Ok(answer)
                }
            });
            match answer.await {
                Ok(answer) => return Ok(answer),
                Err(failure) if is_locked(&failure) => {
                    if began.elapsed() > CALL {
                        return Err(error(BackendErrorKind::Busy, "somebody else is reading this history"));
                    }
                    tokio::time::sleep(PAUSE).await;
                }
                Err(failure) => return Err(failure.sort()),
            }
        }
    }
}

async fn count(channel: &Channel, queue: &str) -> lapin::Result<u32> {
    let options = QueueDeclareOptions { passive: true, ..QueueDeclareOptions::default() };
    Ok(channel.queue_declare(queue.into(), options, FieldTable::default()).await?.message_count())
}

/// Takes all messages, and puts them back where they were.
async fn read_all(channel: Channel, queue: String) -> lapin::Result<Vec<Delivery>> {
    let Some(first) = channel.basic_get(queue.as_str().into(), BasicGetOptions::default()).await? else {
        return Ok(Vec::new());
    };
    // Nobody else takes any, so this many will come, and those that are written meanwhile.
    let others = usize::try_from(first.message_count).unwrap_or(usize::MAX);
    let mut deliveries = vec![first.delivery];
    if others > 0 {
        let options = BasicConsumeOptions::default();
        let mut consumer = channel.basic_consume(queue.into(), "".into(), options, FieldTable::default()).await?;
        while deliveries.len() <= others {
            match consumer.next().await {
                Some(delivery) => deliveries.push(delivery?),
                None => return Err(std::io::Error::from(std::io::ErrorKind::UnexpectedEof).into()),
            }
        }
        channel.basic_cancel(consumer.tag(), BasicCancelOptions::default()).await?;
    }
    // All that were taken on this channel.
    channel.basic_nack(0, BasicNackOptions { multiple: true, requeue: true }).await?;
    Ok(deliveries)
}

async fn drop_oldest(channel: Channel, queue: String, keep: u32) -> lapin::Result<()> {
    let excess = count(&channel, &queue).await?.saturating_sub(keep);
    for _ in 0..excess.min(TRIM_AT_ONCE) {
        if channel.basic_get(queue.as_str().into(), BasicGetOptions { no_ack: true }).await?.is_none() {
            break;
        }
    }
    Ok(())
}

fn is_locked(failure: &Failure) -> bool {
    matches!(failure, Failure::Refused(said) if *said.kind() == AMQPErrorKind::Soft(AMQPSoftError::RESOURCELOCKED))
}

fn is_missing(failure: &Failure) -> bool {
    matches!(failure, Failure::Refused(said) if said.get_message().as_str().contains("no queue '"))
}
