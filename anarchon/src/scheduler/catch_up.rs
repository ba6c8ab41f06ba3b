//! Jobs come and go, and slots that nobody ran are looked for: at start, at `add()`, and after trouble or a jump.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::oneshot;

use super::clocks::Now;
use super::due::Due;
use super::engine::{Adding, Engine, Reply};
use super::jobs::{JobState, Running};
use super::timer::JobId;
use crate::backend::AT_ONCE;
use crate::clock::to_ms;
use crate::error::{BackendError, BackendErrorKind, Error, Result};
use crate::event::Event;
use crate::job::Job;
use crate::run::{ClaimKind, Registered, Registration, Timed};
use crate::slot::{JobName, Slot};

impl Engine {
    pub(super) fn add(&mut self, mut job: Job, reply: oneshot::Sender<Result<()>>) {
        let known = self.jobs.find(job.name.as_str()).and_then(|id| self.jobs.get(id)).map(|s| s.job.place);
        let waiting = self.adding.iter().find(|a| a.job.name == job.name).map(|a| a.job.place);
        if let Some(first) = known.or(waiting) {
            let _ = reply.send(Err(Error::DuplicateJob { second: job.place, job: job.name, first }));
            return;
        }
        job.share_terms(&mut self.terms);
        self.adding.push_back(Adding { job: Box::new(job), reply, alone: false });
        self.register_next();
    }

    /// Registers what waits: jobs that are added while a call is under way go together in the next.
    fn register_next(&mut self) {
        if self.registering.is_some() || self.adding.is_empty() {
            return;
        }
        let together = self.adding.iter().take(AT_ONCE).take_while(|adding| !adding.alone).count();
        let jobs: Vec<Adding> = self.adding.drain(..together.max(1)).collect();
        self.registering = Some(jobs.iter().map(|adding| (adding.job.name.clone(), true)).collect());
        let registrations: Vec<Registration> = jobs.iter().map(|adding| self.registration(&adding.job)).collect();
        let (store, forget_after) = (Arc::clone(&self.store), self.settings.forget_after);
        let sent = self.clock.boot();
        let call = self.with_deadline(async move {
            let answer = store.register(&registrations, forget_after).await?;
            complete(store.name(), registrations.len(), answer)
        });
        self.calls.push(Box::pin(async move { Reply::Registered { sent, jobs, answer: call.await } }));
    }

    pub(super) fn registered(
        &mut self,
        sent: Duration,
        jobs: Vec<Adding>,
        answer: Result<Timed<Vec<Registered>>, BackendError>,
        now: Now,
    ) {
        let wanted = self.registering.take().unwrap_or_default();
        match answer {
            Ok(Timed { value, store_ms }) => {
                self.store_said(store_ms, sent, now);
                if self.stopping.is_some() {
                    return; // dropping the replies says that the scheduler has stopped
                }
                let mut ids = Vec::with_capacity(jobs.len());
                for (adding, registered) in jobs.into_iter().zip(value) {
                    let name = adding.job.name.clone();
                    let added = if let Some(before) = self.jobs.find(name.as_str()).and_then(|id| self.jobs.get(id)) {
                        let (first, second) = (before.job.place, adding.job.place);
                        Err(Error::DuplicateJob { job: name, first, second })
                    } else if wanted.get(&name) == Some(&false) {
                        Err(Error::Removed { job: name })
                    } else {
                        ids.push(self.insert(*adding.job, registered, now));
                        Ok(())
                    };
                    // Whoever asked may have gone.
                    let _ = adding.reply.send(added);
                }
                let names: Vec<JobName> =
                    ids.iter().filter_map(|id| self.jobs.get(*id)).map(|s| s.job.name.clone()).collect();
                // Naming none would ask about all.
                if !names.is_empty() {
                    self.read_active(names);
                }
                self.catch_up(ids, now);
            }
            // A job that the store refuses must not take with it those that were added at the same time.
            Err(error) if error.kind() == BackendErrorKind::Refused && jobs.len() > 1 => {
                for adding in jobs.into_iter().rev() {
                    if wanted.get(&adding.job.name) == Some(&false) {
                        let _ = adding.reply.send(Err(Error::Removed { job: adding.job.name }));
                    } else {
                        self.adding.push_front(Adding { alone: true, ..adding });
                    }
                }
            }
            Err(error) => {
                self.store_failed(&error, now);
                for adding in jobs {
                    let _ = adding.reply.send(Err(error.to_shared().into()));
                }
            }
        }
        self.register_next();
    }

    pub(super) fn insert(&mut self, job: Job, registered: Registered, now: Now) -> JobId {
        let store_now = self.store_ms(now);
        // A claim-only store keeps no floor: what was due before this instance started is not this instance's.
        let name = job.name.clone();
        let floor = if self.leases { registered.floor } else { store_now };
        let next = job.schedule.next(store_now);
        let state = JobState {
            floor,
            previous: None,
            handled: floor,
            next,
            skips: None,
            running: Running::None,
            paused: false,
            job: Arc::new(job),
        };
        let id = self.jobs.insert(state);
        if let Some(next) = next {
            self.due.push(next, id);
        }
        self.compare_fingerprints(&name, &registered);
        id
    }

    /// Warns, once for each, of instances that compute other slots for a job.
    pub(super) fn compare_fingerprints(&mut self, name: &JobName, registered: &Registered) {
        let Some(state) = self.jobs.find(name.as_str()).and_then(|id| self.jobs.get(id)) else { return };
        let ours = Arc::clone(&state.job.fingerprint);
        for (instance, theirs) in &registered.others {
            self.mismatch(name, &ours, theirs, instance);
        }
    }

    fn mismatch(&mut self, job: &JobName, ours: &str, theirs: &str, instance: &str) {
        if self.mismatches.insert((job.clone(), theirs.to_owned())) {
            tracing::warn!(
                %job, ours, theirs, other_instance = instance,
                "another instance computes other slots for this job; slots of both are run, shared ones once"
            );
            self.emit(Event::FingerprintMismatch {
                job: job.clone(),
                ours: ours.into(),
                theirs: theirs.into(),
                instance: instance.into(),
            });
        }
    }

    pub(super) fn remove(&mut self, name: &str) -> bool {
        let mut adding = false;
        if let Some(wanted) = self.registering.as_mut().and_then(|registering| registering.get_mut(name)) {
            adding = std::mem::replace(wanted, false);
        }
        if let Some(at) = self.adding.iter().position(|adding| adding.job.name.as_str() == name)
            && let Some(Adding { job, reply, .. }) = self.adding.remove(at)
        {
            let _ = reply.send(Err(Error::Removed { job: job.name }));
            adding = true;
        }
        let Some(state) = self.jobs.remove(name) else { return adding };
        self.watched.retain(|run, _| run.job != state.job.name);
        self.mismatches.retain(|(job, _)| *job != state.job.name);
        let jobs = &self.jobs;
        self.due.tidy(jobs.len(), |id| jobs.get(id).is_some());
        true
    }

    /// After trouble, a freeze or a jump: what others have begun meanwhile is watched, what nobody ran is made up for.
    pub(super) fn resync(&mut self, now: Now) {
        self.resync_at = None;
        if self.stopping.is_some() || self.idle {
            return;
        }
        self.resynced = Some(now.boot);
        self.read_active(Vec::new());
        let ids = self.jobs.sorted_ids();
        self.catch_up(ids, now);
    }

    /// The next slots by a time that has jumped.
    pub(super) fn recompute_due(&mut self, now: Now) {
        let store_now = self.store_ms(now);
        self.due.clear();
        // Every job, and not only those with a slot to come: a clock that is set back gives one back to a job whose
        // only slot it had passed.
        for id in self.jobs.sorted_ids() {
            let leases = self.leases;
            let Some(state) = self.jobs.get_mut(id) else { continue };
            // A claim-only store may have forgotten what was run before the clock was set back.
            let after = if leases { store_now } else { store_now.max(state.handled) };
            // What fell due just now is handled as usual.
            let pending = state.next.filter(|slot| *slot <= store_now);
            let next = pending.or_else(|| state.job.schedule.next(after));
            if next != state.next {
                state.previous = None;
            }
            state.next = next;
            if let Some(next) = next {
                self.due.push(next, id);
            }
        }
    }

    /// Claims the latest slot of each job that was due and not handled, if it is young enough.
    pub(super) fn catch_up(&mut self, ids: Vec<JobId>, now: Now) {
        if !self.leases || self.stopping.is_some() {
            return;
        }
        let store_now = self.store_ms(now);
        let mut due = Vec::new();
        for id in ids {
            let Some(state) = self.jobs.get_mut(id) else { continue };
            let Some(latest) = state.job.schedule.latest(store_now) else { continue };
            // What the timer has not come to yet is not missed.
            let pending = state.next.is_some_and(|next| next <= latest);
            if latest <= state.floor || latest <= state.handled || pending {
                continue;
            }
            let gap = state.job.schedule.gap_after(latest);
            let limit = state.job.max_late.max(state.job.catch_up(gap));
            if store_now.saturating_sub(latest) <= to_ms(limit) {
                state.handled = latest;
                let slot = Slot::from_ms(latest);
                due.push(Due {
                    job: id,
                    slot,
                    kind: ClaimKind::CatchUp,
                    limit: limit.saturating_add(state.job.jitter(gap)),
                    jitter: state.job.jitter(gap),
                    previous: None,
                });
            }
        }
        self.schedule(due, now);
    }
}

/// A job without an answer of its own would silently never run.
pub(super) fn complete(
    backend: &str,
    jobs: usize,
    answer: Timed<Vec<Registered>>,
) -> Result<Timed<Vec<Registered>>, BackendError> {
    if answer.value.len() == jobs {
        return Ok(answer);
    }
    let message = format!("it answered for {} jobs of {jobs}", answer.value.len());
    Err(BackendError::new(backend, BackendErrorKind::Unknown, message))
}
