//! The one "did you mean" helper, for zones and dialects here and for option names in the macro.

/// Longer words are nobody's slip of the pen, and comparing them would take long.
const LONGEST: usize = 40;

/// The candidate that `word` most likely meant, or `None` when nothing is close.
///
/// Upper and lower case count as equal; otherwise about one slip (a letter too many, missing, wrong or swapped with
/// its neighbour) is allowed for each three letters. The first of equally close candidates wins.
///
/// ```
/// use anarchon_schedule::suggest::closest;
///
/// let options = ["every", "cron", "at", "timezone", "max_attempts"];
/// assert_eq!(closest("evrey", options), Some("every"));
/// assert_eq!(closest("maxattempts", options), Some("max_attempts"));
/// assert_eq!(closest("lease", options), None);
/// ```
pub fn closest<'a>(word: &str, candidates: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let word = lower(word)?;
    let allowed = (word.len() / 3).max(1);
    let mut best: Option<(usize, &'a str)> = None;
    for candidate in candidates {
        let Some(other) = lower(candidate) else {
            continue;
        };
        if word.len().abs_diff(other.len()) > allowed {
            continue;
        }
        let distance = distance(&word, &other);
        // a word of one or two letters that shares none with the candidate is no slip of it
        if distance > allowed || distance >= word.len().max(other.len()) {
            continue;
        }
        if best.is_none_or(|(least, _)| distance < least) {
            best = Some((distance, candidate));
        }
    }
    best.map(|(_, candidate)| candidate)
}

fn lower(word: &str) -> Option<Vec<char>> {
    let chars: Vec<char> = word.chars().take(LONGEST + 1).flat_map(char::to_lowercase).collect();
    (!chars.is_empty() && chars.len() <= LONGEST).then_some(chars)
}

/// Edit distance with swaps of neighbours (the restricted form): three rows are enough.
fn distance(a: &[char], b: &[char]) -> usize {
    let mut before = vec![0; b.len() + 1];
    let mut last: Vec<usize> = (0..=b.len()).collect();
    let mut row = last.clone();
    for i in 1..=a.len() {
        row[0] = i;
        for j in 1..=b.len() {
            let change = last[j - 1] + usize::from(a[i - 1] != b[j - 1]);
            row[j] = change.min(last[j] + 1).min(row[j - 1] + 1);
            if i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1] {
                row[j] = row[j].min(before[j - 2] + 1);
            }
        }
        std::mem::swap(&mut before, &mut last);
        std::mem::swap(&mut last, &mut row);
    }
    last[b.len()]
}
