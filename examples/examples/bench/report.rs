//! Tables for people, and one JSON object per row for machines.

use serde_json::{Map, Value, json};

/// One table. The names of its columns are the keys of its rows' JSON objects.
pub(crate) struct Table {
    name: &'static str,
    title: String,
    columns: Vec<&'static str>,
    rows: Vec<Vec<Value>>,
    notes: Vec<String>,
}

impl Table {
    pub(crate) fn new(name: &'static str, title: impl Into<String>, columns: &[&'static str]) -> Self {
        Self { name, title: title.into(), columns: columns.to_vec(), rows: Vec::new(), notes: Vec::new() }
    }

    /// A row; values in the order of the columns, `Value::Null` for those it has not.
    pub(crate) fn row(&mut self, values: impl IntoIterator<Item = Value>) {
        let mut values: Vec<Value> = values.into_iter().collect();
        values.resize(self.columns.len(), Value::Null);
        self.rows.push(values);
    }

    pub(crate) fn note(&mut self, note: impl Into<String>) {
        self.notes.push(note.into());
    }

    pub(crate) fn print(&self, as_json: bool) {
        if as_json {
            for row in &self.rows {
                let mut object = Map::from_iter([("table".to_owned(), json!(self.name))]);
                let cells = self.columns.iter().zip(row).filter(|(_, value)| !value.is_null());
                object.extend(cells.map(|(column, value)| ((*column).to_owned(), value.clone())));
                println!("{}", Value::Object(object));
            }
            return;
        }
        println!("\n{}", self.title);
        let heads = self.columns.iter().map(|column| (*column).to_owned()).collect::<Vec<_>>();
        let rows = self.rows.iter().map(|row| row.iter().map(cell).collect::<Vec<_>>());
        let lines: Vec<Vec<String>> = std::iter::once(heads).chain(rows).collect();
        let widths: Vec<usize> = (0..self.columns.len())
            .map(|column| lines.iter().map(|line| line[column].chars().count()).max().unwrap_or(0))
            .collect();
        for line in &lines {
            let mut text = String::new();
            for (index, (cell, width)) in line.iter().zip(&widths).enumerate() {
                // The first column is words, the others are numbers.
                match index {
                    0 => text.push_str(&format!("  {cell:<width$}")),
                    _ => text.push_str(&format!("  {cell:>width$}")),
                }
            }
            println!("{}", text.trim_end());
        }
        self.notes.iter().for_each(|note| println!("  {note}"));
    }
}

fn cell(value: &Value) -> String {
    match value {
        Value::Null => "-".to_owned(),
        Value::String(text) => text.clone(),
        Value::Number(number) if number.is_f64() => figure(number.as_f64().unwrap_or(0.0)),
        other => other.to_string(),
    }
}

/// Three significant digits are all that such figures are good for.
fn figure(value: f64) -> String {
    match value.abs() {
        0.0 => "0".to_owned(),
        size if size >= 100.0 => format!("{value:.0}"),
        size if size >= 10.0 => format!("{value:.1}"),
        size if size >= 0.1 => format!("{value:.2}"),
        _ => format!("{value:.4}"),
    }
}

/// A number for a row, rounded for reading; what is not finite is left out.
pub(crate) fn number(value: f64) -> Value {
    if value.is_finite() { json!((value * 1e6).round() / 1e6) } else { Value::Null }
}

/// `value / base`, left out when one is missing.
pub(crate) fn ratio(value: Option<f64>, base: Option<f64>) -> Value {
    match (value, base) {
        (Some(value), Some(base)) if base > 0.0 => number(value / base),
        _ => Value::Null,
    }
}

/// The value in the middle, of figures that were taken several times.
pub(crate) fn median(mut values: Vec<f64>) -> Option<f64> {
    values.sort_by(f64::total_cmp);
    values.get(values.len() / 2).copied()
}

/// The value that `share` of all are not above.
pub(crate) fn percentile(sorted: &[f64], share: f64) -> f64 {
    let last = sorted.len().saturating_sub(1);
    // A share of an index is an index.
    #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss, clippy::cast_precision_loss)]
    let index = (last as f64 * share).round() as usize;
    sorted.get(index).copied().unwrap_or(f64::NAN)
}
