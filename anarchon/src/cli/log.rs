//! Where the log goes in a program that has said nothing about it.

use tracing_subscriber::EnvFilter;

/// Logs to standard error by `RUST_LOG`, or as `default` says; unless the application has installed a subscriber.
pub(super) fn install(default: &str) {
    let filter = EnvFilter::try_from_default_env().unwrap_or_else(|_| EnvFilter::new(default));
    let log = tracing_subscriber::fmt().with_env_filter(filter).with_writer(std::io::stderr).with_ansi(false).finish();
    // Refused where there is one already, which is the application's and stays.
    let _ = tracing::subscriber::set_global_default(log);
}
