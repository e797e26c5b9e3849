//! Dead letters for people: a table, and one letter whole.
//!
//! Used by `hark dead-letters`. Invariant: what is shown has no control characters, whatever is in the file.

use super::letter::Letter;

/// Characters of a message in the table.
const MESSAGE: usize = 60;

/// Characters of any other cell: more than a kind, a namespace and a name have together. Somebody else may have
/// written the file, and the width of a cell must be below 65,536.
const CELL: usize = 512;

/// A letter and the cluster that it belongs to.
pub(crate) struct Row<'a> {
    pub(crate) cluster: &'a str,
    pub(crate) letter: &'a Letter,
}

/// One line each, with a heading; the cluster only if there are several.
pub(crate) fn table(rows: &[Row<'_>]) -> String {
    let several = rows.windows(2).any(|pair| pair[0].cluster != pair[1].cluster);
    let heading = ["ID", "TIME", "CLUSTER", "PLUGIN", "SUBSCRIPTION", "OP", "OBJECT", "OUTCOME", "MESSAGE"];
    let mut lines = vec![heading.map(str::to_owned)];
    lines.extend(rows.iter().map(|Row { cluster, letter }| {
        let object = format!("{} {}", letter.kind, letter.key);
        [
            cell(&letter.id, CELL),
            cell(&letter.time, CELL),
            cell(cluster, CELL),
            cell(&letter.plugin, CELL),
            cell(&letter.subscription, CELL),
            letter.op.as_str().to_owned(),
            cell(&object, CELL),
            cell(&outcome(letter), CELL),
            cell(letter.message.as_deref().unwrap_or("-"), MESSAGE),
        ]
    }));
    let shown: Vec<usize> = (0..heading.len()).filter(|column| several || *column != 2).collect();
    let width = |column: usize| lines.iter().map(|line| line[column].chars().count()).max().unwrap_or(0);
    let widths: Vec<usize> = (0..heading.len()).map(width).collect();
    let mut text = String::new();
    for line in &lines {
        let cells: Vec<String> =
            shown.iter().map(|column| format!("{:1$}", line[*column], widths[*column])).collect();
        text.push_str(cells.join("  ").trim_end());
        text.push('\n');
    }
    text
}

/// The outcome of the last attempt, and how many there were; of what was too large to be handed over there was none.
fn outcome(letter: &Letter) -> String {
    let outcome = safe(&letter.outcome);
    if letter.attempts == 0 { outcome } else { format!("{outcome} x{}", letter.attempts) }
}

/// At most so many characters of a text, safe to show.
fn cell(text: &str, most: usize) -> String {
    let text = safe(text);
    let short: String = text.chars().take(most).collect();
    if short.len() < text.len() { short + "…" } else { short }
}

/// Text without control characters, and without those that change the direction or hide.
pub(crate) fn safe(text: &str) -> String {
    let is_hidden = |char: char| {
        char.is_control()
            || matches!(char, '\u{61c}' | '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{206f}' | '\u{feff}')
    };
    let mut shown = String::with_capacity(text.len());
    for char in text.chars() {
        if is_hidden(char) { shown.extend(char.escape_unicode()) } else { shown.push(char) }
    }
    shown
}

#[cfg(test)]
mod tests {
    use super::*;

    fn letter(message: &str) -> Letter {
        let text = r#"{"id":"00000000000a","time":"2026-01-01T00:00:00.000Z","plugin":"p\u001b[2J","plugin_sha256":"h",
            "generation":1,"subscription":"s","api_version":"v1","kind":"Pod","op":"delete","key":"n/a","uid":"u",
            "rv":"1","reason":"deleted","attempts":3,"outcome":"trap","message":null,"object":{}}"#;
        let mut letter: Letter = serde_json::from_str(text).expect("a letter");
        letter.message = Some(message.to_owned());
        letter
    }

    #[test]
    fn a_cell_of_any_length_is_cut() {
        let long = Letter { key: "k".repeat(70_000), ..letter("boom") };
        let text = table(&[Row { cluster: "a", letter: &long }]);
        assert!(text.contains(&format!(" Pod {}…  ", "k".repeat(CELL - 4))), "{text}");
    }

    #[test]
    fn a_table_names_clusters_if_there_are_several_and_hides_no_control_characters() {
        let (one, two) = (letter("boom\n\u{202e}"), letter(&"é".repeat(70)));
        let rows = [Row { cluster: "a", letter: &one }, Row { cluster: "a", letter: &two }];
        let text = table(&rows);
        let want = [
            "ID            TIME                      PLUGIN      SUBSCRIPTION  OP      OBJECT   OUTCOME  MESSAGE",
            "00000000000a  2026-01-01T00:00:00.000Z  p\\u{1b}[2J  s             delete  Pod n/a  trap x3  boom\\u{a}\\u{202e}",
        ];
        assert_eq!(text.lines().take(2).collect::<Vec<_>>(), want);
        assert!(text.ends_with(&format!("{}…\n", "é".repeat(60))), "{text}");
        let rows = [Row { cluster: "a", letter: &one }, Row { cluster: "b", letter: &one }];
        assert!(table(&rows).starts_with("ID            TIME                      CLUSTER  PLUGIN"));
    }

    #[test]
    fn what_was_never_attempted_has_no_number_of_attempts() {
        let tried = letter("boom");
        let oversized = Letter { outcome: "oversized".into(), attempts: 0, ..tried.clone() };
        assert_eq!((outcome(&tried), outcome(&oversized)), ("trap x3".into(), "oversized".into()));
    }
}
