//! Target `names`: the names of files that somebody put into the plugins folder.

use std::ffi::OsString;
use std::os::unix::ffi::OsStringExt;
use std::time::Duration;

use hark_fuzz::{Target, odd_text};
use proptest::prelude::*;

use super::scan::{MAX_STEM, Place, scan};

fn name() -> impl Strategy<Value = Vec<u8>> {
    let sizes = vec![0, 1, 63, 64, 65, 200];
    let stem = prop_oneof![
        4 => prop::sample::select(vec!["a", "b", "pod-audit", "A.b_c", "-x", "_x", ".x", "ä", "a b", "9"])
            .prop_map(|stem| stem.as_bytes().to_vec()),
        2 => odd_text(5).prop_map(String::into_bytes),
        1 => prop::collection::vec(any::<u8>(), 0..8),
        1 => prop::sample::select(sizes).prop_map(|size: usize| vec![b'a'; size]),
    ];
    let extension = prop::sample::select(vec![".wasm", ".wat", ".WASM", ".wasm.swp", "", ".wasm\n", "."]);
    (stem, extension).prop_map(|(stem, extension)| [stem, extension.as_bytes().to_vec()].concat())
}

/// The rule as it is documented.
fn is_stem(stem: &[u8]) -> bool {
    let fits = |byte: &u8| byte.is_ascii_alphanumeric() || b"-_.".contains(byte);
    (1..=MAX_STEM).contains(&stem.len()) && stem[0].is_ascii_alphanumeric() && stem.iter().all(fits)
}

#[test]
fn fuzz_names() {
    let target = Target { name: "names", cases: 150, within: Duration::from_secs(1) };
    let input = || (prop::collection::btree_set(name(), 0..8), any::<bool>());
    hark_fuzz::values(target, input, |(names, text)| {
        let folder = tempfile::tempdir().expect("a folder");
        // Not every name can be a file's.
        let written = |name: &&Vec<u8>| {
            std::fs::write(folder.path().join(OsString::from_vec((*name).clone())), "").is_ok()
        };
        let legal = |name: &&Vec<u8>| !name.is_empty() && !name.contains(&b'/') && !name.contains(&0);
        let there: Vec<&Vec<u8>> = names.iter().filter(legal).filter(written).collect();
        let place = Place { folder: folder.path().to_owned(), text: *text, own: vec![] };
        let scan = scan(&place, None).expect("readable");
        let mut claims: Vec<&[u8]> = Vec::new();
        let mut refused = 0;
        for name in there.iter().filter(|name| name[0] != b'.') {
            let stem = name.strip_suffix(b".wasm").or_else(|| name.strip_suffix(b".wat").filter(|_| *text));
            match stem {
                Some(stem) if is_stem(stem) => claims.push(stem),
                Some(_) => refused += 1,
                None => refused += usize::from(name.ends_with(b".WASM")),
            }
        }
        claims.sort_unstable();
        let twice = |stem: &[u8]| claims.iter().filter(|other| **other == stem).count() > 1;
        let (disputed, files): (Vec<&[u8]>, Vec<&[u8]>) = claims.iter().partition(|stem| twice(stem));
        prop_assert_eq!(scan.plugins.keys().map(|stem| stem.as_bytes()).collect::<Vec<_>>(), files);
        prop_assert_eq!(scan.disputed.len() * 2, disputed.len());
        prop_assert_eq!(scan.refused.len(), refused, "{:?}", scan.refused);
        Ok(())
    });
}
