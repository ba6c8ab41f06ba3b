//! What differs between stores with leases and claim-only ones.

use anarchon::backend::AnyStrength;
use anarchon::{AnyBackend, AnyClaimBackend, JobBuilder, Overlap, SchedulerBuilder, kind};

use crate::Fallible;
use crate::args::Args;
use crate::jobs::JobTable;

/// The types allow the options about leases on the former
/// only, and what a file asks of the latter is refused here.
pub(crate) trait NodeBackend: AnyStrength + Sized {
    fn lease_settings(builder: SchedulerBuilder<Self>, args: &Args) -> Fallible<SchedulerBuilder<Self>>;
    fn lease_options<'s, K>(builder: JobBuilder<'s, Self, K>, job: &JobTable) -> Fallible<JobBuilder<'s, Self, K>>;
    fn overlap<'s, K: kind::Repeats>(builder: JobBuilder<'s, Self, K>, overlap: Overlap) -> JobBuilder<'s, Self, K>;
}

impl NodeBackend for AnyBackend {
    fn lease_settings(mut builder: SchedulerBuilder<Self>, args: &Args) -> Fallible<SchedulerBuilder<Self>> {
        if let Some(lease) = &args.lease {
            builder = builder.lease(lease.as_str());
        }
        if let Some(heartbeat) = &args.heartbeat {
            builder = builder.heartbeat(heartbeat.as_str());
        }
        if let Some(watch) = &args.watch {
            builder = builder.watch(watch.as_str());
        }
        Ok(builder)
    }

    fn lease_options<'s, K>(mut builder: JobBuilder<'s, Self, K>, job: &JobTable) -> Fallible<JobBuilder<'s, Self, K>> {
        if let Some(attempts) = job.max_attempts {
            builder = builder.max_attempts(attempts);
        }
        if let Some(wait) = &job.retry_failed {
            builder = builder.retry_failed(wait.as_str());
        }
        if let Some(within) = &job.catch_up {
            builder = builder.catch_up(within.as_str());
        }
        if let Some(within) = &job.takeover_within {
            builder = builder.takeover_within(within.as_str());
        }
        if let Some(ttl) = &job.history_ttl {
            builder = builder.history_ttl(ttl.as_str());
        }
        Ok(builder)
    }

    fn overlap<'s, K: kind::Repeats>(builder: JobBuilder<'s, Self, K>, overlap: Overlap) -> JobBuilder<'s, Self, K> {
        builder.overlap(overlap)
    }
}

impl NodeBackend for AnyClaimBackend {
    fn lease_settings(builder: SchedulerBuilder<Self>, args: &Args) -> Fallible<SchedulerBuilder<Self>> {
        let set = [("--lease", &args.lease), ("--heartbeat", &args.heartbeat), ("--watch", &args.watch)];
        match set.into_iter().find(|(_, value)| value.is_some()) {
            Some((option, _)) => Err(format!("`{option}` needs a store with leases, and `{}` only claims", args.store)),
            None => Ok(builder),
        }
    }

    fn lease_options<'s, K>(builder: JobBuilder<'s, Self, K>, job: &JobTable) -> Fallible<JobBuilder<'s, Self, K>> {
        let set = [
            ("overlap", job.overlap.is_some()),
            ("max_attempts", job.max_attempts.is_some()),
            ("retry_failed", job.retry_failed.is_some()),
            ("catch_up", job.catch_up.is_some()),
            ("takeover_within", job.takeover_within.is_some()),
            ("history_ttl", job.history_ttl.is_some()),
        ];
        match set.into_iter().find(|(_, set)| *set) {
            Some((option, _)) => {
                Err(format!("job `{}` sets `{option}`, which this program offers on stores with leases only", job.name))
            }
            None => Ok(builder),
        }
    }

    fn overlap<'s, K: kind::Repeats>(builder: JobBuilder<'s, Self, K>, _: Overlap) -> JobBuilder<'s, Self, K> {
        builder
    }
}
