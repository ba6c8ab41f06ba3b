//! What is not the same on every system.

pub(crate) use system::{Signals, monotonic_ns};

#[cfg(unix)]
mod system {
    use rustix::time::{ClockId, clock_gettime};
    use tokio::signal::unix::{Signal, SignalKind, signal};

    pub(crate) fn monotonic_ns() -> u64 {
        let time = clock_gettime(ClockId::Monotonic);
        u64::try_from(time.tv_sec * 1_000_000_000 + time.tv_nsec).unwrap_or_default()
    }

    pub(crate) struct Signals {
        terminate: Signal,
        interrupt: Signal,
    }

    impl Signals {
        pub(crate) fn new() -> std::io::Result<Self> {
            Ok(Self { terminate: signal(SignalKind::terminate())?, interrupt: signal(SignalKind::interrupt())? })
        }

        pub(crate) async fn next(&mut self) {
            tokio::select! {
                _ = self.terminate.recv() => {}
                _ = self.interrupt.recv() => {}
            }
        }
    }
}

/// Here the clock begins with the process, and only Ctrl-C stops it.
#[cfg(not(unix))]
mod system {
    use std::sync::OnceLock;
    use std::time::Instant;

    pub(crate) fn monotonic_ns() -> u64 {
        static BEGAN: OnceLock<Instant> = OnceLock::new();
        u64::try_from(BEGAN.get_or_init(Instant::now).elapsed().as_nanos()).unwrap_or_default()
    }

    pub(crate) struct Signals;

    impl Signals {
        pub(crate) fn new() -> std::io::Result<Self> {
            Ok(Self)
        }

        pub(crate) async fn next(&mut self) {
            if tokio::signal::ctrl_c().await.is_err() {
                std::future::pending::<()>().await;
            }
        }
    }
}
