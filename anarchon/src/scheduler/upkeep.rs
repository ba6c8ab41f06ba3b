//! What keeps a store tidy: jobs are named to it once a day, and trimmed in small batches.

use std::sync::Arc;
use std::time::Duration;

use super::clocks::Now;
use super::engine::{Engine, Reply};
use super::timer::Timer;
use crate::backend::AT_ONCE;
use crate::error::BackendError;
use crate::run::{Registered, Registration, Timed, Trim};
use crate::slot::JobName;

const TRIM_EVERY: Duration = Duration::from_secs(30);
/// Jobs that one trim is about at most, and how soon the next of them follows.
const TRIM_AT_ONCE: usize = 200;
const TRIM_NEXT: Duration = Duration::from_secs(1);
pub(super) const TOUCH_EVERY: Duration = Duration::from_secs(86_400);
/// How soon after a failure the store is told again which jobs there are.
const TOUCH_AGAIN: Duration = Duration::from_secs(600);

impl Engine {
    /// Tells the store once a day which jobs there are, so that it does not forget them.
    pub(super) fn touch(&mut self, now: Now) {
        let states = self.jobs.sorted_ids().into_iter().filter_map(|id| self.jobs.get(id));
        self.touching = states.map(|state| state.job.name.clone()).collect();
        self.touch_next(now);
    }

    fn touch_next(&mut self, now: Now) {
        // Some may have been removed meanwhile.
        self.touching.retain(|name| self.jobs.find(name.as_str()).is_some());
        let count = self.touching.len().min(AT_ONCE);
        let names: Vec<JobName> = self.touching.drain(..count).collect();
        let states = names.iter().filter_map(|name| self.jobs.get(self.jobs.find(name.as_str())?));
        let registrations: Vec<Registration> = states.map(|state| self.registration(&state.job)).collect();
        if registrations.is_empty() {
            self.timers.set(now.boot + TOUCH_EVERY, Timer::Touch);
            return;
        }
        let jobs = registrations.iter().map(|registration| registration.job.clone()).collect();
        let (store, forget_after, sent) = (Arc::clone(&self.store), self.settings.forget_after, now.boot);
        let call = self.with_deadline(async move { store.register(&registrations, forget_after).await });
        self.calls.push(Box::pin(async move { Reply::Touched { jobs, sent, answer: call.await } }));
    }

    pub(super) fn touched(
        &mut self,
        jobs: Vec<JobName>,
        sent: Duration,
        answer: Result<Timed<Vec<Registered>>, BackendError>,
        now: Now,
    ) {
        match answer {
            Ok(Timed { value, store_ms }) => {
                self.store_said(store_ms, sent, now);
                for (name, registered) in jobs.into_iter().zip(value) {
                    self.compare_fingerprints(&name, &registered);
                }
                self.touch_next(now);
            }
            Err(error) => {
                self.store_failed(&error, now);
                self.touching.clear();
                self.timers.set(now.boot + TOUCH_AGAIN, Timer::Touch);
            }
        }
    }

    /// Something of this job will have to be trimmed in a while.
    pub(super) fn trim_later(&mut self, job: &JobName, now: Now) {
        if self.to_trim.is_empty() {
            self.timers.set(now.boot + TRIM_EVERY, Timer::Trim);
        }
        if !self.to_trim.contains(job) {
            self.to_trim.insert(job.clone());
        }
    }

    pub(super) fn trim(&mut self, now: Now) {
        let mut names: Vec<JobName> = self.to_trim.drain().collect();
        names.sort_unstable();
        // In small batches: one call about all jobs of a large instance would not be answered in time, ever.
        if names.len() > TRIM_AT_ONCE {
            self.to_trim.extend(names.drain(TRIM_AT_ONCE..));
            self.timers.set(now.boot + TRIM_NEXT, Timer::Trim);
        }
        let states = names.iter().filter_map(|name| self.jobs.get(self.jobs.find(name.as_str())?));
        let trims: Vec<Trim> = states.map(|s| Trim::new(s.job.name.clone(), s.job.retention, s.job.keep())).collect();
        if trims.is_empty() || self.stopping.is_some() {
            return;
        }
        let store = Arc::clone(&self.store);
        let call = self.with_deadline(async move { store.trim(&trims).await });
        self.calls.push(Box::pin(async move { Reply::Trimmed { answer: call.await } }));
    }
}
