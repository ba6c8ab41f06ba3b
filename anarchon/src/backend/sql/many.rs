//! Many requests in few calls: which of them go together, and whose answer is whose.

use std::borrow::Cow;
use std::collections::HashSet;
use std::hash::Hash;

use crate::error::{BackendError, BackendErrorKind};

/// The requests of one call, and their places among all.
type Round<'a, R> = (Vec<usize>, Cow<'a, [R]>);

/// Splits requests into calls of at most `at_once`, each of which names a thing once. Those that name the same one stay
/// in their order, so each is answered as if they came one at a time.
pub(super) fn rounds<'a, R: Clone, K: Eq + Hash>(
    requests: &'a [R],
    at_once: usize,
    named: impl Fn(&'a R) -> K,
) -> Vec<Round<'a, R>> {
    let mut rounds = Vec::new();
    let mut waiting: Vec<usize> = (0..requests.len()).collect();
    while !waiting.is_empty() {
        let mut seen = HashSet::with_capacity(waiting.len());
        let mut places = Vec::with_capacity(waiting.len().min(at_once));
        // A request that has to wait makes the later ones that name the same thing wait too.
        waiting.retain(|place| {
            let now = requests.get(*place).is_some_and(|request| seen.insert(named(request))) && places.len() < at_once;
            if now {
                places.push(*place);
            }
            !now
        });
        let all = places.len() == requests.len();
        let round = if all {
            Cow::Borrowed(requests)
        } else {
            places.iter().filter_map(|place| requests.get(*place).cloned()).collect()
        };
        rounds.push((places, round));
    }
    rounds
}

/// Answers, put in their places.
pub(super) struct Answers<T>(Vec<Option<Result<T, BackendError>>>);

impl<T> Answers<T> {
    pub(super) fn to<R>(requests: &[R]) -> Self {
        Self(requests.iter().map(|_| None).collect())
    }

    /// The answers of one call; an error is that of all its requests.
    pub(super) fn put(&mut self, places: Vec<usize>, answers: Result<Vec<T>, BackendError>) {
        let mut answers = answers.map(Vec::into_iter);
        for place in places {
            let answer = match &mut answers {
                Ok(answers) => answers.next().map(Ok),
                Err(error) => Some(Err(error.to_shared())),
            };
            if let Some(slot) = self.0.get_mut(place) {
                *slot = answer;
            }
        }
    }

    pub(super) fn all(self, backend: &str) -> Vec<Result<T, BackendError>> {
        let none = || Err(BackendError::new(backend, BackendErrorKind::Unknown, "the store gave no answer"));
        self.0.into_iter().map(|answer| answer.unwrap_or_else(none)).collect()
    }

    /// The answer to the only request.
    pub(super) fn only(backend: &str, mut answers: Vec<Result<T, BackendError>>) -> Result<T, BackendError> {
        let none = || Err(BackendError::new(backend, BackendErrorKind::Unknown, "the store gave no answer"));
        answers.pop().unwrap_or_else(none)
    }
}
