//! A table of text, for people and for copying into a page.
//!
//! Invariant: every row has as many cells as the head; numbers stand right.

use std::fmt;

/// See the file's head.
#[derive(Debug, Clone)]
pub struct Table {
    head: Vec<String>,
    rows: Vec<Vec<String>>,
}

impl Table {
    /// An empty table.
    pub fn new(head: &[&str]) -> Self {
        Self { head: head.iter().map(ToString::to_string).collect(), rows: Vec::new() }
    }

    /// Adds a row; cells beyond the head are cut off, missing ones are empty.
    pub fn row(&mut self, mut cells: Vec<String>) {
        cells.resize(self.head.len(), String::new());
        self.rows.push(cells);
    }
}

impl fmt::Display for Table {
    /// As Markdown has it.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let width = |column: usize| {
            let cells = self.rows.iter().chain([&self.head]).map(|row| row[column].chars().count());
            cells.max().unwrap_or_default().max(4)
        };
        let widths: Vec<usize> = (0..self.head.len()).map(width).collect();
        let line = |f: &mut fmt::Formatter<'_>, row: &[String]| {
            let cells = row.iter().zip(&widths).map(|(cell, width)| format!(" {cell:>width$} "));
            writeln!(f, "|{}|", cells.collect::<Vec<_>>().join("|"))
        };
        line(f, &self.head)?;
        let rules = widths.iter().map(|width| format!("-{}:", "-".repeat(*width)));
        writeln!(f, "|{}|", rules.collect::<Vec<_>>().join("|"))?;
        self.rows.iter().try_for_each(|row| line(f, row))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_are_as_wide_as_their_widest_cell() {
        let mut table = Table::new(&["plugins", "KiB"]);
        table.row(vec!["1".into(), "12,345".into(), "cut off".into()]);
        table.row(vec!["1000".into()]);
        let want = "| plugins |    KiB |\n|--------:|-------:|\n|       1 | 12,345 |\n|    1000 |        |\n";
        assert_eq!(table.to_string(), want);
    }
}
