//! Single claims that come while others are under way go together: a call about many costs a store far less than as many
//! calls. Who claims for many jobs does so in one call anyway; this is for those who claim for one, many at a time.

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};

use tokio::sync::oneshot::{self, Sender};
use tokio::sync::{Semaphore, SemaphorePermit};

use super::AT_ONCE;
use crate::error::BackendError;
use crate::run::{ClaimOutcome, RunClaim, Timed};

/// How many calls are under way before others wait and go together.
const UNDER_WAY: usize = 2;

type Answer = Result<Timed<ClaimOutcome>, BackendError>;

/// Where claims wait.
#[derive(Debug)]
pub(super) struct Gather {
    calls: Semaphore,
    waiting: Mutex<Waiting>,
}

/// The claims that wait, by number, in the order in which they came.
#[derive(Debug, Default)]
struct Waiting {
    claims: BTreeMap<u64, (RunClaim, Sender<Answer>)>,
    last: u64,
}

/// The place of a claim that waits. It goes with whoever waits for its answer.
struct Place<'a> {
    gather: &'a Gather,
    number: u64,
}

impl Drop for Place<'_> {
    fn drop(&mut self) {
        self.gather.waiting().claims.remove(&self.number);
    }
}

/// What a claim has to do.
#[derive(Debug)]
pub(super) enum Turn<'a> {
    /// It goes alone, and keeps this until it has its answer.
    Alone(SemaphorePermit<'a>),
    /// It goes now, and takes others along.
    Together(Together<'a>),
    /// It went with another.
    Answered(Answer),
}

/// Claims that go in one call. If it is dropped before they are answered, each of the others tries again: a claim may
/// reach the store twice.
#[derive(Debug)]
pub(super) struct Together<'a> {
    claims: Vec<RunClaim>,
    /// Who waits for the answer of each; one's own has nobody.
    others: Vec<Option<Sender<Answer>>>,
    _call: SemaphorePermit<'a>,
}

impl Default for Gather {
    fn default() -> Self {
        Self { calls: Semaphore::new(UNDER_WAY), waiting: Mutex::default() }
    }
}

impl Gather {
    /// Waits for the turn of a claim. `None` means that whoever took it along has gone without an answer.
    async fn wait(&self, claim: &RunClaim) -> Option<Turn<'_>> {
        if let Ok(call) = self.calls.try_acquire() {
            return Some(Turn::Alone(call));
        }
        let (answer, mut coming) = oneshot::channel();
        let place = self.place(claim, answer);
        tokio::select! {
            biased;
            answer = &mut coming => answer.ok().map(Turn::Answered),
            call = self.calls.acquire() => match (call.ok().and_then(|call| self.lead(place.number, call)), coming) {
                (Some(together), _) => Some(Turn::Together(together)),
                (None, coming) => coming.await.ok().map(Turn::Answered),
            },
        }
    }

    /// What a claim has to do, once it is its turn.
    pub(super) async fn turn(&self, claim: &RunClaim) -> Turn<'_> {
        loop {
            if let Some(turn) = self.wait(claim).await {
                return turn;
            }
        }
    }

    fn place(&self, claim: &RunClaim, answer: Sender<Answer>) -> Place<'_> {
        let mut waiting = self.waiting();
        waiting.last += 1;
        let number = waiting.last;
        waiting.claims.insert(number, (claim.clone(), answer));
        Place { gather: self, number }
    }

    /// All that wait, the claim of this number among them; or nothing, if another has taken it along.
    fn lead<'a>(&'a self, number: u64, call: SemaphorePermit<'a>) -> Option<Together<'a>> {
        let mut waiting = self.waiting();
        let (own, _) = waiting.claims.remove(&number)?;
        let mut going = vec![(own, None)];
        while going.len() < AT_ONCE {
            let Some((_, (claim, answer))) = waiting.claims.pop_first() else { break };
            going.push((claim, Some(answer)));
        }
        // In this order their rows are locked by everybody.
        going.sort_by(|(one, _), (other, _)| one.job.as_str().cmp(other.job.as_str()));
        let (claims, others) = going.into_iter().unzip();
        Some(Together { claims, others, _call: call })
    }

    fn waiting(&self) -> std::sync::MutexGuard<'_, Waiting> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Together<'_> {
    pub(super) fn claims(&self) -> &[RunClaim] {
        &self.claims
    }

    /// Hands each of the others its answer, in the order of the claims; what is left is one's own.
    pub(super) fn share(self, answers: Vec<Answer>) -> Option<Answer> {
        let mut own = None;
        for (other, answer) in self.others.into_iter().zip(answers) {
            match other {
                // It may have given up.
                Some(other) => drop(other.send(answer)),
                None => own = Some(answer),
            }
        }
        own
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::time::Duration;

    use super::*;
    use crate::slot::{InstanceId, JobName, Slot, Token};

    fn claim(job: &str) -> RunClaim {
        RunClaim::new(JobName::new(job).unwrap(), Slot::from_ms(1), Token::random(), InstanceId::new("one").unwrap())
    }

    /// Answers that tell whose they are.
    fn answers(claims: &[RunClaim]) -> Vec<Answer> {
        let whose = |claim: &RunClaim| claim.job.as_str().trim_start_matches("job-").parse().unwrap();
        claims.iter().map(|claim| Ok(Timed { value: ClaimOutcome::Gone, store_ms: Some(whose(claim)) })).collect()
    }

    async fn until(holds: impl Fn() -> bool) {
        while !holds() {
            tokio::task::yield_now().await;
        }
    }

    /// As many claims as may go alone, and keep the others waiting.
    async fn going(gather: &Gather) -> Vec<Turn<'_>> {
        let mut going = Vec::new();
        for job in 0..UNDER_WAY {
            let turn = gather.turn(&claim(&format!("going-{job}"))).await;
            assert!(matches!(turn, Turn::Alone(_)), "{turn:?}");
            going.push(turn);
        }
        going
    }

    #[tokio::test]
    async fn claims_that_wait_go_together_once() {
        let gather = Arc::new(Gather::default());
        let going = going(&gather).await;
        let mut tasks = tokio::task::JoinSet::new();
        for job in 0..20 {
            let gather = Arc::clone(&gather);
            tasks.spawn(async move {
                match gather.turn(&claim(&format!("job-{job}"))).await {
                    Turn::Alone(_) => panic!("alone"),
                    Turn::Answered(answer) => {
                        assert_eq!(answer.unwrap().store_ms, Some(job));
                        0
                    }
                    Turn::Together(together) => {
                        let count = together.claims().len();
                        let answers = answers(together.claims());
                        assert_eq!(together.share(answers).unwrap().unwrap().store_ms, Some(job));
                        count
                    }
                }
            });
        }
        until(|| gather.waiting().claims.len() == 20).await;
        drop(going);
        let mut led = Vec::new();
        while let Some(count) = tasks.join_next().await {
            led.push(count.unwrap());
        }
        assert_eq!((led.iter().sum::<usize>(), led.iter().filter(|count| **count > 0).count()), (20, 1), "{led:?}");
        assert_eq!(gather.calls.available_permits(), UNDER_WAY);
    }

    #[tokio::test]
    async fn those_whose_leader_has_gone_try_again_and_those_that_gave_up_are_not_sent() {
        let gather = Arc::new(Gather::default());
        let going = going(&gather).await;
        let (first, second, third) = (claim("the first"), claim("second"), claim("another"));
        let mut leading = Box::pin(gather.turn(&first));
        let mut given_up = Box::pin(gather.turn(&second));
        assert!(futures_util::poll!(&mut leading).is_pending());
        assert!(futures_util::poll!(&mut given_up).is_pending());
        let (again, of_third) = (Arc::clone(&gather), third.clone());
        let task = tokio::spawn(async move {
            let turn = again.turn(&of_third).await;
            matches!(turn, Turn::Alone(_))
        });
        until(|| gather.waiting().claims.len() == 3).await;
        drop(given_up);
        assert_eq!(gather.waiting().claims.len(), 2, "who gives up leaves nothing behind");
        drop(going);
        let Turn::Together(together) = leading.await else { panic!("it does not lead") };
        let jobs: Vec<_> = together.claims().iter().map(|claim| claim.job.as_str()).collect();
        assert_eq!(jobs, ["another", "the first"]);
        // Its call was given up, or panicked.
        drop(together);
        assert!(tokio::time::timeout(Duration::from_secs(60), task).await.unwrap().unwrap());
        assert!(gather.waiting().claims.is_empty());
    }

    #[tokio::test]
    async fn a_copy_of_a_claim_gets_its_own_answer_and_not_that_of_the_first() {
        let gather = Gather::default();
        let going = going(&gather).await;
        let first = claim("job");
        let second = RunClaim { valid_until: 9, ..first.clone() };
        let mut early = Box::pin(gather.turn(&first));
        assert!(futures_util::poll!(&mut early).is_pending());
        let mut later = Box::pin(gather.turn(&second));
        assert!(futures_util::poll!(&mut later).is_pending());
        // Whoever sent the first gives up before its turn comes.
        drop(early);
        drop(going);
        let Turn::Together(together) = later.await else { panic!("it does not lead") };
        let sent: Vec<_> = together.claims().iter().map(|claim| claim.valid_until).collect();
        assert_eq!(sent, [9]);
    }
}
