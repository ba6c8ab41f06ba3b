//! Random numbers: jitter, tokens, and the order of claims. One seed gives one sequence.

use std::time::Duration;

use rand::rngs::StdRng;
use rand::seq::SliceRandom as _;
use rand::{Rng as _, SeedableRng as _};

use crate::slot::Token;

#[derive(Debug)]
pub(super) struct Random(StdRng);

impl Random {
    /// The instance's name is part of the seed: two instances with one seed must not draw the same tokens.
    pub(super) fn new(seed: Option<u64>, instance: Option<&str>) -> Self {
        Self(match seed {
            Some(seed) => {
                let name = instance.unwrap_or_default().bytes();
                StdRng::seed_from_u64(
                    name.fold(seed, |seed, byte| seed.wrapping_mul(0x100_0000_01b3) ^ u64::from(byte)),
                )
            }
            None => rand::make_rng(),
        })
    }

    pub(super) fn next_u32(&mut self) -> u32 {
        self.0.next_u32()
    }

    pub(super) fn token(&mut self) -> Token {
        let mut bytes = [0; 16];
        self.0.fill_bytes(&mut bytes);
        Token::from_random_bytes(bytes)
    }

    /// A wait between zero and `longest`, in whole milliseconds... or less: any instant is as good as another.
    pub(super) fn wait(&mut self, longest: Duration) -> Duration {
        let share = f64::from(self.0.next_u32()) / f64::from(u32::MAX);
        longest.mul_f64(share)
    }

    /// Shuffles items by whole blocks of neighbours.
    pub(super) fn shuffle_blocks<T: Copy>(&mut self, items: &mut Vec<T>, block: usize) {
        if block <= 1 {
            return self.shuffle(items);
        }
        let mut blocks: Vec<&[T]> = items.chunks(block).collect();
        self.shuffle(&mut blocks);
        *items = blocks.concat();
    }

    pub(super) fn shuffle<T>(&mut self, items: &mut [T]) {
        items.shuffle(&mut self.0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_shuffle_of_blocks_keeps_neighbours_together_and_loses_nothing() {
        let mut items: Vec<u32> = (0..1000).collect();
        Random::new(Some(7), None).shuffle_blocks(&mut items, 16);
        assert!(!items.is_sorted());
        let starts = items.iter().filter(|item| **item % 16 == 0).count();
        let follow = items.windows(2).filter(|two| two[1] == two[0] + 1).count();
        assert!(follow >= items.len() - starts, "{items:?}");
        items.sort_unstable();
        assert_eq!(items, (0..1000).collect::<Vec<_>>());
    }
}
