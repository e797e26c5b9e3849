//! The families as a whole: their names, and the table of them in the README.

use std::collections::HashSet;
use std::path::Path;

use super::*;
use crate::admin::exposition::Kind;

/// The lines around the README's table.
const BEGIN: &str = "<!-- metrics: checked by a test against host/hark/src/admin/metrics -->\n\n";
const END: &str = "\n<!-- end of metrics -->";

fn families() -> Vec<&'static Family> {
    fn of<T>(metrics: &'static [Metric<T>]) -> impl Iterator<Item = &'static Family> {
        metrics.iter().map(|metric| &metric.family)
    }
    of(informer::METRICS)
        .chain(of(plugin::METRICS))
        .chain(of(host::METRICS))
        .chain(of(folder::METRICS))
        .chain(of(output::METRICS))
        .chain(of(reload::METRICS))
        .chain(of(compile::METRICS))
        .chain(of(process::METRICS))
        .collect()
}

#[test]
fn names_say_unit_and_type_as_prometheus_users_expect() {
    let mut names = HashSet::new();
    for Family { name, kind, labels, help } in families() {
        assert!(names.insert(*name), "{name} twice");
        assert!(name.starts_with("hark_") || name.starts_with("process_"), "{name}");
        assert_eq!(*kind == Kind::Counter, name.ends_with("_total"), "{name}");
        let timed = matches!(kind, Kind::Histogram | Kind::Summary);
        assert!(!timed || name.ends_with("_seconds"), "{name}");
        let lower =
            |text: &str| text.bytes().all(|byte| byte.is_ascii_lowercase() || b"_0123456789".contains(&byte));
        assert!(lower(name) && labels.iter().all(|label| lower(label)), "{name} {labels:?}");
        assert!(help.ends_with('.') && !help.contains(['\n', '\\', '|']), "{name}: {help}");
    }
}

#[test]
fn the_readme_has_the_table_of_all_metrics() {
    let mut table = String::from("| metric | type | labels | |\n| --- | --- | --- | --- |\n");
    for Family { name, kind, labels, help } in families() {
        let labels: Vec<String> = labels.iter().map(|label| format!("`{label}`")).collect();
        table.push_str(&format!("| `{name}` | {} | {} | {help} |\n", kind.as_str(), labels.join(", ")));
    }
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../README.md");
    let readme = std::fs::read_to_string(path).expect("the README");
    let (_, after) = readme.split_once(BEGIN).expect("the table's beginning");
    let (found, _) = after.split_once(END).expect("the table's end");
    assert!(found == table, "the README's table of metrics should be:\n\n{table}");
}
