//! Reading history, and trimming it.

use super::Sql;
use super::answer::{fence, key, reason, small};
use super::client::{Row, SqlError, Statement, Value};
use super::dialect::SqlDialect;
use super::schema::SKIP_ID;
use super::stage::{millis, one_of};
use crate::error::BackendErrorKind;
use crate::run::{AttemptRecord, AttemptStatus, Record, SkipReason, SkipRecord, Status, Trim};
use crate::slot::{JobName, Slot, Token};

/// How many attempts' worth of runs one trim of a job removes at most.
const TRIM_AT_ONCE: i64 = 1000;

impl<D: SqlDialect> Sql<'_, D> {
    /// Reads the newest attempts and the newest records of skipped slots, `limit` of each.
    pub(super) fn history(&self, job: &JobName, limit: u32) -> Statement {
        let t = self.tables;
        let sql = format!(
            "SELECT a.slot, a.id, a.token, a.attempt, a.fence, a.reason, a.instance_id, a.status, a.claimed_at, \
             a.ended_at, a.error, a.note, r.status FROM (SELECT * FROM {attempts} h WHERE h.job = ? \
             ORDER BY h.slot DESC, h.claimed_at DESC, h.attempt DESC, h.fence LIMIT ?) a \
             LEFT JOIN {runs} r ON r.job = a.job AND r.id = a.id AND r.slot = a.slot \
             UNION ALL SELECT s.slot, s.id, NULL, s.skip_count, 0, s.skip_reason, NULL, NULL, s.last_slot, \
             NULL, NULL, NULL, NULL FROM (SELECT * FROM {runs} h WHERE h.job = ? AND h.id = '{SKIP_ID}' \
             ORDER BY h.last_slot DESC LIMIT ?) s",
            attempts = t.attempts,
            runs = t.runs,
        );
        let job = Value::from(job.as_str());
        Statement::new(sql, vec![job.clone(), limit.into(), job, limit.into()])
    }

    /// Drops what is beyond the retention that all of these trims share; each names another job. The rows that go are
    /// marked first, so that all three tables lose the same ones.
    pub(super) fn trim(&self, trims: &[Trim], mark: i64) -> Vec<Statement> {
        let (t, d) = (self.tables, self.dialect);
        let Some(first) = trims.first() else { return Vec::new() };
        let size = super::padded(trims.len());
        let mut names: Vec<Value> = trims.iter().map(|trim| trim.job.as_str().into()).collect();
        names.resize(size, Value::Null);
        let named = if self.stages_apart() { Vec::new() } else { names.clone() };
        let with = |before: Vec<Value>, names: &[Value]| before.into_iter().chain(names.iter().cloned()).collect();
        let among = self.among_staged("r.job", size);
        let ttl = first.retention.ttl.map(millis);
        let keep = i64::from(first.retention.size);
        // The newest slot of what is beyond `size` records, as a bound: none when there are no more than that, and
        // above everything when none is kept.
        let bound = |slots: &str, column: &str| {
            format!(
                "(SELECT CASE WHEN EXISTS (SELECT 1 {slots} LIMIT 1 OFFSET ?) THEN CASE WHEN ? = 0 THEN {max} \
                 ELSE (SELECT {column} {slots} ORDER BY {column} DESC LIMIT 1 OFFSET ?) END END)",
                max = i64::MAX
            )
        };
        let attempts = format!("FROM {} a WHERE a.job = j.job", t.attempts);
        let skips = format!("FROM {} s WHERE s.job = j.job AND s.id = '{SKIP_ID}'", t.runs);
        let values = [
            ("c_now", d.clock().to_owned()),
            ("c_do", "'trim'".to_owned()),
            ("c_token", "''".to_owned()),
            ("c_skip", "0".to_owned()),
            ("c_limit", "?".to_owned()),
            ("c_within", "?".to_owned()),
            ("c_floor", bound(&attempts, "a.slot")),
            ("c_previous", bound(&skips, "s.last_slot")),
            ("c_slot", format!("(SELECT a.slot {attempts} ORDER BY a.slot LIMIT 1 OFFSET {TRIM_AT_ONCE})")),
        ];
        let lock = format!("j.ident = '' AND j.job {}", one_of(size));
        let stage = if self.stages_apart() {
            let (into, from): (Vec<&str>, Vec<&str>) =
                values.iter().map(|(name, value)| (*name, value.as_str())).unzip();
            format!(
                "INSERT INTO {} (job, {}) SELECT j.job, {} FROM {} j WHERE {lock}",
                self.stage(),
                into.join(", "),
                from.join(", "),
                t.jobs
            )
        } else {
            let set: Vec<String> = values.iter().map(|(name, value)| format!("{name} = {value}")).collect();
            format!("UPDATE {} AS j SET {} WHERE {lock}", t.jobs, set.join(", "))
        };
        let below = (keep - 1).max(0);
        let retention = vec![
            millis(first.keep).into(),
            ttl.into(),
            keep.into(),
            keep.into(),
            below.into(),
            keep.into(),
            keep.into(),
            below.into(),
        ];
        let ended = format!(
            "coalesce((SELECT max(a.ended_at) FROM {} a WHERE a.job = r.job AND a.slot = r.slot AND a.id = r.id), r.until_ms)",
            t.attempts
        );
        let beyond = format!(
            "r.open_job IS NULL AND EXISTS (SELECT 1 FROM {stage} j WHERE {of} AND \
             CASE WHEN r.id = '{SKIP_ID}' \
             THEN (r.last_slot < j.c_previous OR r.last_slot < j.c_now - j.c_within) AND r.last_slot < j.c_now - j.c_limit \
             ELSE r.slot < j.c_now - j.c_limit AND (j.c_slot IS NULL OR r.slot <= j.c_slot) \
               AND {ended} < j.c_now - j.c_limit AND (r.slot < j.c_floor OR {ended} < j.c_now - j.c_within) END)",
            stage = self.stage(),
            of = self.stage_of("r"),
        );
        let marked = format!("r.mark = ? AND r.job = j.job AND r.id IN ('', '{SKIP_ID}')");
        let newest = format!(
            "(SELECT max(CASE WHEN r.id = '' THEN r.slot ELSE r.last_slot END) FROM {} r WHERE {marked})",
            t.runs
        );
        let marks = |count: usize| vec![Value::from(mark); count];
        let statement = |sql: String, values: Vec<Value>| Statement::new(sql, values);
        let mut statements: Vec<Statement> =
            self.clear_stage().into_iter().map(|sql| statement(sql, Vec::new())).collect();
        statements.extend([
            statement(stage, with(retention, &names)),
            statement(self.end_attempts(size), named.clone()),
            statement(self.close_runs(size), named.clone()),
            statement(
                format!("UPDATE {} AS r SET mark = ? WHERE {among} AND {beyond}", t.runs),
                with(marks(1), &named),
            ),
            statement(
                format!(
                    "UPDATE {jobs} AS j SET trim_mark = {later} WHERE EXISTS (SELECT 1 FROM {runs} r WHERE {marked}) \
                     AND {lock}",
                    jobs = t.jobs,
                    runs = t.runs,
                    later = d.greatest(&format!("coalesce(j.trim_mark, {newest})"), &newest),
                ),
                with(marks(3), &names),
            ),
            statement(
                format!(
                    "DELETE FROM {attempts} WHERE (job, slot, id) IN \
                     (SELECT r.job, r.slot, r.id FROM {runs} r WHERE r.mark = ? AND {among})",
                    attempts = t.attempts,
                    runs = t.runs,
                ),
                with(marks(1), &named),
            ),
            statement(
                format!("DELETE FROM {} WHERE mark = ? AND {}", t.runs, self.among_staged("job", size)),
                with(marks(1), &named),
            ),
        ]);
        statements
    }
}

fn unknown(what: &str) -> SqlError {
    SqlError::new(BackendErrorKind::Config, format!("the history holds a {what} that this release does not know"))
}

/// The records of [`Sql::history`], newest first.
pub(super) fn records(job: &JobName, rows: &[Row], limit: u32) -> Result<Vec<Record>, SqlError> {
    let mut attempts: Vec<AttemptRecord> = Vec::with_capacity(rows.len());
    let mut skips = Vec::new();
    for row in rows {
        let (slot, id) = (row.int(0)?, row.text(1)?);
        if id == SKIP_ID {
            let count = u64::try_from(row.int(3)?).unwrap_or(0);
            let reason = SkipReason::parse(row.text(5)?).ok_or_else(|| unknown("reason of a skip"))?;
            let (first, last) = (Slot::from_ms(slot), Slot::from_ms(row.int(8)?));
            skips.push(Record::Skipped(SkipRecord::new(job.clone(), first, last, count, reason)));
            continue;
        }
        let token = Token::parse(row.text(2)?).ok_or_else(|| unknown("token"))?;
        let status = AttemptStatus::parse(row.text(7)?).ok_or_else(|| unknown("status of an attempt"))?;
        let run = key(job.clone(), slot, id)?;
        let mut attempt = AttemptRecord::new(run, small(row, 3)?, token, row.text(6)?, row.int(8)?);
        attempt.fence = fence(row, 4)?;
        attempt.reason = reason(row, 5)?;
        attempt.status = Some(status);
        attempt.run_status = row.opt_text(12)?.and_then(Status::parse);
        attempt.ended_at = row.opt_int(9)?;
        attempt.error = row.opt_text(10)?.map(str::to_owned);
        attempt.note = row.opt_text(11)?.map(str::to_owned);
        attempts.push(attempt);
    }
    // Attempts that are alike in slot, time and number stay in the order of their claims.
    attempts.sort_by_key(|attempt| attempt.fence);
    let records = attempts.into_iter().map(Record::Attempt).chain(skips).collect();
    Ok(crate::history::newest(records, limit))
}
