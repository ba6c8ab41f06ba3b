//! Tables that fit the terminal.

use std::fmt::Write as _;

/// Columns are not cut below this.
const NARROWEST: usize = 4;
const GAP: &str = "  ";

/// How a text looks on a terminal.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Style {
    #[default]
    Plain,
    Head,
    Good,
    Bad,
    Notable,
}

impl Style {
    fn code(self) -> Option<&'static str> {
        match self {
            Self::Plain => None,
            Self::Head => Some("1"),
            Self::Good => Some("32"),
            Self::Bad => Some("31"),
            Self::Notable => Some("33"),
        }
    }

    /// The text with its colour, if there are colours.
    fn paint(self, text: &str, colours: bool) -> String {
        match self.code().filter(|_| colours && !text.is_empty()) {
            Some(code) => format!("\u{1b}[{code}m{text}\u{1b}[0m"),
            None => text.to_owned(),
        }
    }
}

/// One cell.
#[derive(Clone, Debug, Default)]
pub(super) struct Cell {
    text: String,
    style: Style,
}

impl Cell {
    pub(super) fn styled(text: impl Into<String>, style: Style) -> Self {
        Self { text: text.into(), style }
    }
}

impl<T: Into<String>> From<T> for Cell {
    fn from(text: T) -> Self {
        Self::styled(text, Style::Plain)
    }
}

/// A part of what is printed.
#[derive(Debug)]
pub(super) enum Line {
    /// A line of its own, of any length.
    Text(Cell),
    Table(Table),
}

impl Line {
    pub(super) fn text(text: impl Into<String>) -> Self {
        Self::Text(Cell::from(text.into()))
    }

    pub(super) fn render(&self, width: Option<usize>, colours: bool) -> String {
        match self {
            Self::Text(cell) => format!("{}\n", cell.style.paint(&visible(&cell.text), colours)),
            Self::Table(table) => table.render(width, colours),
        }
    }
}

/// Rows under a head. Where they are too wide, the widest columns are cut.
#[derive(Debug)]
pub(super) struct Table {
    rows: Vec<Vec<Cell>>,
}

impl Table {
    pub(super) fn new(head: &[&str]) -> Self {
        Self { rows: vec![head.iter().map(|text| Cell::styled(*text, Style::Head)).collect()] }
    }

    pub(super) fn row(&mut self, cells: Vec<Cell>) {
        self.rows.push(cells);
    }

    fn render(&self, width: Option<usize>, colours: bool) -> String {
        let columns = self.rows.iter().map(Vec::len).max().unwrap_or(0);
        let width_of = |column: usize| {
            self.rows.iter().filter_map(|row| row.get(column)).map(|cell| length(&cell.text)).max().unwrap_or(0)
        };
        let natural: Vec<usize> = (0..columns).map(width_of).collect();
        let widths = fitted(natural, width);
        let mut text = String::new();
        for row in &self.rows {
            let mut line = String::new();
            for (cell, width) in row.iter().zip(&widths) {
                if !line.is_empty() {
                    line.push_str(GAP);
                }
                let cut = cut(&visible(&cell.text), *width);
                let padding = width.saturating_sub(length(&cut));
                let _ = write!(line, "{}{}", cell.style.paint(&cut, colours), " ".repeat(padding));
            }
            text.push_str(line.trim_end());
            text.push('\n');
        }
        text
    }
}

/// The widths of columns that fit: the widest is made narrower until all do.
fn fitted(mut widths: Vec<usize>, width: Option<usize>) -> Vec<usize> {
    let Some(width) = width else { return widths };
    let gaps = GAP.len() * widths.len().saturating_sub(1);
    while widths.iter().sum::<usize>() + gaps > width {
        match widths.iter_mut().max() {
            Some(widest) if *widest > NARROWEST => *widest -= 1,
            _ => break,
        }
    }
    widths
}

fn length(text: &str) -> usize {
    text.chars().count()
}

/// What a store or an error says must not reach the terminal as an order to it.
fn visible(text: &str) -> String {
    text.chars().map(|sign| if sign.is_control() { ' ' } else { sign }).collect()
}

fn cut(text: &str, width: usize) -> String {
    if length(text) <= width {
        return text.to_owned();
    }
    text.chars().take(width.saturating_sub(1)).chain(['…']).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn table() -> Table {
        let mut table = Table::new(&["JOB", "NOTE"]);
        table.row(vec!["größer".into(), Cell::styled("a rather long remark", Style::Bad)]);
        table.row(vec!["b".into(), "".into()]);
        table
    }

    #[test]
    fn columns_are_as_wide_as_their_widest_cell_and_nothing_trails() {
        assert_eq!(table().render(None, false), "JOB     NOTE\ngrößer  a rather long remark\nb\n");
    }

    #[test]
    fn the_widest_columns_are_cut_first_and_say_so() {
        assert_eq!(table().render(Some(16), false), "JOB     NOTE\ngrößer  a rathe…\nb\n");
        let narrow = table().render(Some(3), false);
        assert_eq!(narrow, "JOB   NOTE\ngrö…  a r…\nb\n", "there is a width below which nothing is said any more");
    }

    #[test]
    fn colours_do_not_count_and_are_there_only_when_wanted() {
        let coloured = table().render(Some(16), true);
        assert!(coloured.contains("\u{1b}[31ma rathe…\u{1b}[0m"), "{coloured:?}");
        assert!(!table().render(None, false).contains('\u{1b}'));
    }

    #[test]
    fn control_characters_do_not_reach_the_terminal() {
        assert_eq!(Line::text("a\u{1b}[2Jb\nc").render(None, false), "a [2Jb c\n");
    }
}
