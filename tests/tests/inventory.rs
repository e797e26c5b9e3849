//! Holds `tests/INVENTORY.md` against the code: each line names tests that there are, or says why none applies.

use std::collections::BTreeSet;
use std::path::Path;

const TABLE: &str = include_str!("../INVENTORY.md");

/// The names of all functions and files below a folder.
fn functions(folder: &Path, found: &mut BTreeSet<String>) {
    for entry in std::fs::read_dir(folder).expect("a folder of the repository").flatten() {
        let path = entry.path();
        if path.is_dir() {
            functions(&path, found);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            let text = std::fs::read_to_string(&path).expect("a source file");
            let names = text.split("fn ").skip(1).filter_map(|rest| rest.split(['(', '<']).next());
            found.extend(names.map(str::to_owned));
            found.extend(path.file_stem().map(|stem| stem.to_string_lossy().into_owned()));
        }
    }
}

/// Words that look like the name of a test: small letters and digits, with two underscores or more.
fn names(cell: &str) -> impl Iterator<Item = &str> {
    let inner = |char: char| char.is_ascii_lowercase() || char.is_ascii_digit() || char == '_';
    let words = cell.split(move |char| !inner(char));
    words.filter(|word| word.matches('_').count() >= 2 && !word.starts_with('_'))
}

#[test]
fn every_line_names_tests_that_there_are_or_says_why_none_applies() {
    let host = Path::new(env!("CARGO_MANIFEST_DIR")).join("../host");
    let mut functions_of_host = BTreeSet::new();
    functions(&host, &mut functions_of_host);
    let rows = TABLE.lines().filter(|line| line.starts_with("| "));
    let rows: Vec<&str> =
        rows.filter(|line| !line.starts_with("| client-go") && !line.starts_with("| ---")).collect();
    assert!(rows.len() > 200, "{} lines are not all of client-go's tests", rows.len());
    let mut seen = BTreeSet::new();
    for row in rows {
        let cells: Vec<&str> = row.trim_matches('|').split(" | ").map(str::trim).collect();
        let [theirs, ours, ..] = cells.as_slice() else { panic!("not a line of the table: {row}") };
        assert!(seen.insert((*theirs).to_owned()), "twice in the table: {theirs}");
        let named: Vec<&str> = names(ours).collect();
        let reason = ours.split_once("does not apply, because ").map(|(_, reason)| reason);
        assert!(
            !named.is_empty() || reason.is_some_and(|reason| !reason.is_empty()),
            "no test and no reason: {row}"
        );
        for name in named {
            assert!(functions_of_host.contains(name), "{theirs}: there is no test {name}");
        }
    }
}
