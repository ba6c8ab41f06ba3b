//! What a process has used, from procfs.

use std::fs;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use crate::Fallible;

/// The CPU time of this process so far, of threads that have ended too.
#[cfg(target_os = "linux")]
pub(crate) fn own_cpu() -> Duration {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::ProcessCPUTime);
    Duration::new(u64::try_from(time.tv_sec).unwrap_or(0), u32::try_from(time.tv_nsec).unwrap_or(0))
}

#[cfg(not(target_os = "linux"))]
pub(crate) fn own_cpu() -> Duration {
    Duration::ZERO
}

/// The memory of this process that is in RAM, in bytes.
pub(crate) fn own_memory() -> Fallible<u64> {
    let status = fs::read_to_string("/proc/self/status")?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).ok_or("no VmRSS in /proc/self/status")?;
    let kib: u64 = line.trim().trim_end_matches("kB").trim().parse()?;
    Ok(kib * 1024)
}

/// The wall clock in µs since the epoch.
pub(crate) fn wall_us() -> i64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    i64::try_from(since.as_micros()).unwrap_or(i64::MAX)
}
