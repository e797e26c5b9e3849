//! Target `letters`: a dead-letters file that somebody else wrote to.

use std::collections::HashSet;
use std::time::Duration;

use hark_fuzz::{Bytes, Target};
use hark_informer::filter::Fields;
use hark_informer::listener::LostEvent;
use proptest::prelude::*;

use super::file::LetterFile;
use super::table::{Row, table};

/// A letter, with an object.
const LINE: &str = r#"{"id":"00000000000a","time":"t","plugin":"p","plugin_sha256":"h","generation":1,"subscription":"s","api_version":"v1","kind":"Pod","op":"delete","key":"n/a","uid":"u","rv":"1","reason":"filtered","attempts":1,"outcome":"trap","message":"m","object":{"a":{"b":[1,{"c":2}]}}}"#;

fn line() -> impl Strategy<Value = Vec<u8>> {
    let right = any::<u32>().prop_map(|id| LINE.replace("00000000000a", &format!("{id:012x}")).into_bytes());
    let changed = prop::collection::vec(hark_fuzz::edit(), 1..4)
        .prop_map(|edits| edits.iter().fold(LINE.as_bytes().to_vec(), hark_fuzz::edited));
    let text = hark_fuzz::odd_text(8).prop_map(|text| {
        let text = serde_json::to_string(&text).unwrap_or_default();
        LINE.replace("\"m\"", &text).replace("\"n/a\"", &text).replace("\"Pod\"", &text).into_bytes()
    });
    let deep = (prop::sample::select(vec!["[", "{\"a\":"]), 1_usize..40_000).prop_map(|(open, count)| {
        let close = if open == "[" { "]" } else { "}" };
        LINE.replace("{\"c\":2}", &format!("{}1{}", open.repeat(count), close.repeat(count))).into_bytes()
    });
    prop_oneof![8 => right, 8 => changed, 4 => text, 1 => deep, 1 => prop::collection::vec(any::<u8>(), 0..20)]
}

fn content() -> impl Strategy<Value = Bytes> {
    let lines = prop::collection::vec(line(), 0..6).prop_map(|lines| lines.join(&b'\n'));
    (lines, any::<bool>())
        .prop_map(|(lines, ended)| Bytes(if ended { [lines, b"\n".to_vec()].concat() } else { lines }))
}

#[test]
fn fuzz_letters() {
    let target = Target { name: "letters", cases: 250, within: Duration::from_secs(2) };
    hark_fuzz::files(target, content, |content| {
        let folder = tempfile::tempdir().expect("a folder");
        let file = LetterFile::in_folder(folder.path());
        std::fs::write(file.path(), content).expect("written");
        let found = file.read().expect("read");
        let whole = content.strip_suffix(b"\n").unwrap_or(content);
        let lines: Vec<&[u8]> = whole.split(|byte| *byte == b'\n').filter(|_| !content.is_empty()).collect();
        prop_assert_eq!(found.letters.len() + found.damaged.len(), lines.len());
        let rows: Vec<_> = found.letters.iter().map(|letter| Row { cluster: "c", letter }).collect();
        let shown = table(&rows);
        prop_assert_eq!(shown.lines().count(), rows.len() + 1);
        prop_assert!(!shown.replace('\n', "").contains(char::is_control), "{shown:?}");
        for letter in &found.letters {
            // A replay makes an object of it, which is cut to the plugin's fields.
            if let Ok(lost) = letter.lost()
                && let LostEvent::Delete { object, .. } = lost.event
            {
                let pointers = ["/a/b/*/c".to_owned(), "/a/b/*/*/a".to_owned()];
                let cut = Fields::compile(&pointers).expect("pointers").project(&object);
                prop_assert!(serde_json::from_str::<serde::de::IgnoredAny>(&cut).is_ok());
            }
        }
        // Without the letters, the damaged lines are left as they were.
        let ids: HashSet<String> = found.letters.iter().map(|letter| letter.id.clone()).collect();
        let count = file.remove(&ids).expect("removed");
        prop_assert_eq!(count, found.letters.len());
        let damaged: Vec<&[u8]> = found.damaged.iter().map(|damage| lines[damage.line - 1]).collect();
        let left = std::fs::read(file.path()).expect("read");
        let want = if count == 0 {
            content.to_vec()
        } else {
            damaged.iter().flat_map(|line| [line, &b"\n"[..]].concat()).collect()
        };
        prop_assert_eq!(left, want);
        Ok(())
    });
}
