//! Feeds the engine: waits for whatever comes first of a due time, an answer of the store, and a word from outside.

use std::sync::Arc;
use std::time::Duration;

use futures_util::StreamExt as _;
use tokio::sync::mpsc;

use super::engine::{Engine, Input};
use super::stop::Stopped;
use crate::backend::DynStore;
use crate::clock::Clock;

/// Inputs that are taken in before timers are looked at again.
const INPUTS_AT_ONCE: usize = 256;

/// How long a store may take to close. What it held open ends with the process at the latest.
const CLOSE: Duration = Duration::from_secs(1);

/// Closes what the store opened, without waiting for one that hangs.
pub(super) async fn close(clock: &dyn Clock, store: &dyn DynStore) {
    tokio::select! {
        biased;
        () = store.close() => {}
        () = clock.sleep_until(clock.boot() + CLOSE) => {
            tracing::warn!(backend = store.name(), "the store could not be closed in time");
        }
    }
}

/// Runs the engine until it has stopped.
pub(super) async fn drive(mut engine: Engine, mut inputs: mpsc::UnboundedReceiver<Input>) -> Stopped {
    let clock = Arc::clone(&engine.clock);
    let mut wake = Duration::ZERO;
    let mut sleep = clock.sleep_until(wake);
    loop {
        engine.advance();
        if let Some(stopped) = engine.stopped(engine.now()) {
            // Nobody drives a call that is still under way, and it may hold the connection that is to be closed.
            engine.calls.clear();
            close(&*clock, &*engine.store).await;
            return stopped;
        }
        let next = engine.next_wake();
        if next != wake {
            wake = next;
            sleep = clock.sleep_until(wake);
        }
        tokio::select! {
            biased;
            Some(reply) = engine.calls.next(), if !engine.calls.is_empty() => engine.reply(reply),
            input = inputs.recv() => {
                if let Some(input) = input {
                    engine.input(input);
                }
                for _ in 1..INPUTS_AT_ONCE {
                    match inputs.try_recv() {
                        Ok(input) => engine.input(input),
                        Err(_) => break,
                    }
                }
            }
            () = &mut sleep => wake = Duration::ZERO,
        }
    }
}
