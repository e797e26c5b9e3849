//! Targets `token` and `fields`: what a guest asks the cache with.

use std::time::Duration;

use hark_fuzz::{Target, odd_text};
use hark_informer::filter::{Fields, MAX_POINTERS};
use hark_informer::object::{Ingest, Object};
use proptest::prelude::*;

use super::fields::AskedFields;
use super::token;

fn odd_token() -> impl Strategy<Value = (String, String)> {
    let name = || prop_oneof![Just(String::new()), Just("n".to_owned()), odd_text(4)];
    let joint = prop::sample::select(vec!["/", "", "=", "//"]);
    (name(), joint, name(), name())
        .prop_map(|(one, joint, other, namespace)| (format!("{one}{joint}{other}"), namespace))
}

#[test]
fn fuzz_token() {
    let target = Target { name: "token", cases: 5000, within: Duration::from_millis(100) };
    hark_fuzz::values(target, odd_token, |(text, namespace)| {
        match token::key(text, namespace) {
            Ok(None) => prop_assert!(text.is_empty()),
            Ok(Some(key)) => {
                prop_assert_eq!(&token::of_key(&key), text, "one text for one place");
                prop_assert!(namespace.is_empty() || key.namespace() == namespace);
                prop_assert!(!key.name().is_empty() && !key.name().contains('/'));
            }
            Err(_) => {
                let (before, name) = text.split_once('/').unwrap_or(("", ""));
                let elsewhere = !namespace.is_empty() && before != namespace;
                prop_assert!(name.is_empty() || name.contains('/') || elsewhere);
            }
        }
        match token::value(text) {
            Ok(None) => prop_assert!(text.is_empty()),
            Ok(Some(value)) => prop_assert_eq!(&token::of_value(value), text),
            Err(_) => prop_assert!(!text.is_empty() && !text.starts_with('=')),
        }
        Ok(())
    });
}

fn asked() -> impl Strategy<Value = Vec<Vec<String>>> {
    let right = prop::sample::select(vec!["/a", "/b/c", "/l/*/x", "/none"]).prop_map(str::to_owned);
    let odd = (prop::bool::ANY, odd_text(6))
        .prop_map(|(slash, text)| if slash { format!("/{text}") } else { text });
    let pointer = prop_oneof![8 => right, 1 => odd];
    let many =
        (pointer.clone(), MAX_POINTERS - 1..MAX_POINTERS + 2).prop_map(|(one, count)| vec![one; count]);
    let list = prop_oneof![8 => prop::collection::vec(pointer, 0..4), 1 => many];
    prop::collection::vec(list, 1..6)
}

/// However a guest mixes its lists, each is answered as if it were the only one.
#[test]
fn fuzz_fields() {
    let text = r#"{"metadata":{"name":"a"},"a":1,"b":{"c":[2],"d":3},"l":[{"x":1,"y":2},{"y":3}]}"#;
    let object = Object::parse(text, None, Ingest::default()).expect("an object");
    let target = Target { name: "fields", cases: 2000, within: Duration::from_millis(200) };
    hark_fuzz::values(target, asked, |lists| {
        let mut asked = AskedFields::default();
        for list in lists {
            let fresh = Fields::compile(list).ok().filter(|_| list.len() <= MAX_POINTERS);
            let got = asked.compile(list.clone());
            prop_assert_eq!(got.is_some(), fresh.is_some(), "{:?}", list);
            if let (Some(got), Some(fresh)) = (got, fresh) {
                prop_assert_eq!(got.project(&object), fresh.project(&object));
            }
        }
        Ok(())
    });
}
