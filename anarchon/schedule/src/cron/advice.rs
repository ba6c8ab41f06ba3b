//! Lines that are right and may still surprise whoever wrote them.

use super::Cron;

impl Cron {
    /// A word of advice when a step doesn't divide its hour, minute or day, to be shown once when the job is added.
    ///
    /// Steps start again with each round of their field, so `*/45 * * * *` means :00 and :45 with gaps of 45 and 15
    /// minutes. Whoever wants an even interval needs another kind of schedule.
    ///
    /// ```
    /// use anarchon_schedule::{Cron, Dialect, zone::Tz};
    ///
    /// let advice = |line| Cron::parse(line, Dialect::Unix, Tz::UTC).unwrap().advice();
    /// assert_eq!(advice("*/15 * * * *"), None);
    /// assert_eq!(
    ///     advice("*/45 * * * *").unwrap(),
    ///     "`*/45` starts again with each hour, so its last gap is 15 minutes; for an even interval write `every = \"45m\"`"
    /// );
    /// ```
    pub fn advice(&self) -> Option<String> {
        let fields: Vec<&str> = self.expression.split(' ').collect();
        let seconds = usize::from(fields.len() > 5);
        let clock = [("second", 's', "minute", 60), ("minute", 'm', "hour", 60), ("hour", 'h', "day", 24)];
        // without a field for seconds the list begins with minutes
        for (index, (one, unit, round, count)) in clock.into_iter().skip(1 - seconds).enumerate() {
            let step = fields.get(index)?.strip_prefix("*/").and_then(|step| step.parse::<u32>().ok());
            let Some(step) = step.filter(|step| (2..count).contains(step) && count % step != 0) else { continue };
            // only where the step is the whole of the time: `*/45 8 * * *` has no even interval to go for
            if fields[index + 1..].iter().all(|field| matches!(*field, "*" | "?")) {
                let rest = count % step;
                let gap = if rest == 1 { format!("1 {one}") } else { format!("{rest} {one}s") };
                return Some(format!(
                    "`*/{step}` starts again with each {round}, so its last gap is {gap}; \
                     for an even interval write `every = \"{step}{unit}\"`"
                ));
            }
        }
        None
    }
}
