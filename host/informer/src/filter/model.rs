//! Random documents and random pointers against a plain model on `serde_json::Value`.
//!
//! The model says what is meant in the fewest words; the documents are written out in every way that JSON allows
//! (white space, escapes, order of members, spelling of numbers), since the filter works on the text.

use std::collections::BTreeMap;
use std::sync::Arc;

use proptest::prelude::*;
use serde_json::{Map, Value as Json};

use super::condition::{Conditions, Verdict};
use super::trie::Trie;
use super::*;
use crate::object::Ingest;

/// Names in documents; all but the one with digits only also stand in pointers.
const NAMES: [&str; 7] = ["a", "b", "*", "", "é\"/", "~\\\n", "0"];

/// Values that conditions list.
const LISTED: [&str; 8] = ["x", "", "1", "-0.5", "1.0", "true", "null", "é\"\u{1F600}"];

fn scalar() -> impl Strategy<Value = Json> {
    prop_oneof![
        Just(Json::Null),
        any::<bool>().prop_map(Json::from),
        (-2_i32..4).prop_map(Json::from),
        (-3_i32..4).prop_map(|halves| Json::from(f64::from(halves) / 2.0)),
        prop::sample::select(&["x", "", "1", "null", "é\"\u{1F600}", "\\\u{1}{["][..]).prop_map(Json::from),
    ]
}

fn document() -> impl Strategy<Value = Json> {
    scalar().prop_recursive(4, 40, 5, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..4).prop_map(Json::from),
            prop::collection::btree_map(prop::sample::select(&NAMES[..]), inner, 0..5)
                .prop_map(|map| map.into_iter().map(|(name, value)| (name.to_owned(), value)).collect()),
        ]
    })
}

fn pointer() -> impl Strategy<Value = Pointer> {
    let segment = prop_oneof![
        2 => Just("*".to_owned()),
        5 => prop::sample::select(&NAMES[..6]).prop_map(|name| {
            if name == "*" { "~2".to_owned() } else { name.replace('~', "~0").replace('/', "~1") }
        }),
    ];
    prop::collection::vec(segment, 1..5)
        .prop_map(|segments| format!("/{}", segments.join("/")).parse().expect("a pointer within the bounds"))
}

/// A stream of small random numbers, for the spelling of documents.
struct Dice(u64);

impl Dice {
    fn roll(&mut self, sides: usize) -> usize {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        usize::try_from(self.0 >> 40).unwrap_or_default() % sides
    }
}

/// Writes `value` in one of the many ways; seed 0 stands for compact JSON.
fn spell(value: &Json, seed: u64) -> String {
    if seed == 0 {
        return value.to_string();
    }
    let mut out = String::new();
    write(value, &mut Dice(seed), &mut out);
    out
}

fn write(value: &Json, dice: &mut Dice, out: &mut String) {
    blank(dice, out);
    match value {
        Json::Array(elements) => {
            for (at, element) in elements.iter().enumerate() {
                out.push(if at == 0 { '[' } else { ',' });
                write(element, dice, out);
            }
            out.push_str(if elements.is_empty() { "[ ]" } else { "]" });
        }
        Json::Object(map) => {
            let mut members: Vec<_> = map.iter().collect();
            let turn = dice.roll(members.len().max(1));
            members.rotate_left(turn);
            for (at, (name, member)) in members.into_iter().enumerate() {
                out.push(if at == 0 { '{' } else { ',' });
                blank(dice, out);
                write_string(name, dice, out);
                blank(dice, out);
                out.push(':');
                write(member, dice, out);
            }
            out.push_str(if map.is_empty() { "{ }" } else { "}" });
        }
        Json::String(text) => write_string(text, dice, out),
        Json::Number(number) => {
            let plain = number.to_string();
            let zeros = if plain.contains('.') { "00" } else { ".0" };
            out.push_str(&match dice.roll(3) {
                0 => plain,
                1 => plain + zeros,
                _ => plain + zeros + "e+0",
            });
        }
        other => out.push_str(&other.to_string()),
    }
    blank(dice, out);
}

fn write_string(text: &str, dice: &mut Dice, out: &mut String) {
    if dice.roll(2) == 0 {
        out.push_str(&Json::from(text).to_string());
        return;
    }
    out.push('"');
    for unit in text.encode_utf16() {
        out.push_str(&format!("\\u{unit:04X}"));
    }
    out.push('"');
}

fn blank(dice: &mut Dice, out: &mut String) {
    if dice.roll(4) == 0 {
        out.push_str([" ", "\n", "\t \r"][dice.roll(3)]);
    }
}

/// The same document with all numbers as floats, so that equal means equal. Exactness has its own tests.
fn canonical(value: &Json) -> Json {
    match value {
        Json::Number(number) => Json::from(number.as_f64().map(|number| number + 0.0)),
        Json::Array(elements) => elements.iter().map(canonical).collect(),
        Json::Object(map) => map.iter().map(|(name, value)| (name.clone(), canonical(value))).collect(),
        other => other.clone(),
    }
}

fn parsed(text: &str) -> Json {
    canonical(&serde_json::from_str(text).unwrap_or_else(|error| panic!("{error}: {text}")))
}

/// Every value that a pointer reaches, by its concrete path.
fn reach<'j>(value: &'j Json, segments: &[Segment]) -> BTreeMap<Vec<String>, &'j Json> {
    let Some((segment, rest)) = segments.split_first() else {
        return BTreeMap::from([(Vec::new(), value)]);
    };
    let steps: Vec<(String, &Json)> = match (value, segment) {
        (Json::Object(map), Segment::Member(name)) => {
            map.get(name).map(|value| (name.clone(), value)).into_iter().collect()
        }
        (Json::Object(map), Segment::Every) => {
            map.iter().map(|(name, value)| (name.clone(), value)).collect()
        }
        (Json::Array(elements), Segment::Every) => {
            elements.iter().enumerate().map(|(at, value)| (at.to_string(), value)).collect()
        }
        _ => Vec::new(),
    };
    let deeper = |(step, value)| {
        let prefixed = move |(mut path, value): (Vec<String>, _)| {
            path.insert(0, String::clone(&step));
            (path, value)
        };
        reach(value, rest).into_iter().map(prefixed)
    };
    steps.into_iter().flat_map(deeper).collect()
}

/// The projection as the head of `fields` describes it; None: nothing is selected.
fn cut(value: &Json, paths: &[&[Segment]]) -> Option<Json> {
    if paths.iter().any(|path| path.is_empty()) {
        return Some(value.clone());
    }
    let after = |step: Option<&str>| -> Vec<&[Segment]> {
        let leads = |segment: &Segment| match segment {
            Segment::Every => true,
            Segment::Member(name) => step == Some(name),
        };
        paths.iter().filter(|path| leads(&path[0])).map(|path| &path[1..]).collect()
    };
    match value {
        Json::Object(map) => {
            let kept =
                |(name, value): (&String, &Json)| Some((name.clone(), cut(value, &after(Some(name)))?));
            let kept: Map<String, Json> = map.iter().filter_map(kept).collect();
            (!kept.is_empty()).then_some(Json::Object(kept))
        }
        Json::Array(elements) if !after(None).is_empty() => {
            let blank =
                |element: &Json| if element.is_object() { Json::Object(Map::new()) } else { Json::Null };
            let kept = |element| cut(element, &after(None)).unwrap_or_else(|| blank(element));
            Some(elements.iter().map(kept).collect())
        }
        _ => None,
    }
}

fn projection(value: &Json, pointers: &[Pointer]) -> Json {
    let paths: Vec<_> = pointers.iter().map(Pointer::segments).collect();
    canonical(&cut(value, &paths).unwrap_or_else(|| Json::Object(Map::new())))
}

/// Whether a condition holds; None: it cannot be judged.
fn holds(value: &Json, pointer: &Pointer, operator: Operator, listed: &[&str]) -> Option<bool> {
    let number = |text: &str| text.parse::<f64>().ok();
    let is_listed = |value: &Json| {
        listed.iter().any(|listed| match value {
            Json::String(text) => text == listed,
            Json::Number(value) => value.as_f64() == number(listed),
            Json::Array(_) | Json::Object(_) => false,
            Json::Bool(value) => *listed == if *value { "true" } else { "false" },
            Json::Null => *listed == "null",
        })
    };
    let values = reach(value, pointer.segments());
    let mut values = values.values();
    let compare = |wanted: std::cmp::Ordering, values: Vec<&&Json>| {
        let bound = number(listed[0]).expect("a number");
        let order = |value: &&&Json| value.as_f64().map(|value| value.total_cmp(&(bound + 0.0)));
        let orders: Vec<_> = values.iter().map(order).collect();
        if orders.contains(&Some(wanted)) {
            return Some(true);
        }
        if orders.contains(&None) { None } else { Some(false) }
    };
    match operator {
        Operator::Exists => Some(values.len() > 0),
        Operator::NotExists => Some(values.len() == 0),
        Operator::In => Some(values.any(|value| is_listed(value))),
        Operator::NotIn => Some(!values.any(|value| is_listed(value))),
        Operator::Gt => compare(std::cmp::Ordering::Greater, values.collect()),
        Operator::Lt => compare(std::cmp::Ordering::Less, values.collect()),
    }
}

type Clause = (Pointer, Operator, Vec<&'static str>);

fn clause() -> impl Strategy<Value = Clause> {
    let bare = prop::sample::select(&[Operator::Exists, Operator::NotExists][..]).prop_map(|op| (op, vec![]));
    let listing = (
        prop::sample::select(&[Operator::In, Operator::NotIn][..]),
        prop::collection::vec(prop::sample::select(&LISTED[..]), 1..4),
    );
    let ordering = (
        prop::sample::select(&[Operator::Gt, Operator::Lt][..]),
        prop::sample::select(&["1", "0.5", "-1", "0"][..]).prop_map(|bound| vec![bound]),
    );
    (pointer(), prop_oneof![bare, listing, ordering])
        .prop_map(|(at, (operator, values))| (at, operator, values))
}

fn object(text: &str) -> Arc<Object> {
    let base = Object::parse(r#"{"metadata":{"name":"a"}}"#, None, Ingest::default()).expect("an object");
    Arc::new(base.with_json(text))
}

fn texts(pointers: &[Pointer]) -> Vec<String> {
    pointers.iter().map(ToString::to_string).collect()
}

fn conditions(clauses: &[Clause]) -> Vec<Condition> {
    let condition = |(pointer, operator, values): &Clause| Condition {
        pointer: pointer.to_string(),
        operator: *operator,
        values: values.iter().map(|value| (*value).to_owned()).collect(),
    };
    clauses.iter().map(condition).collect()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1024))]

    #[test]
    fn pointers_reach_what_the_model_reaches(
        document in document(),
        pointers in prop::collection::vec(pointer(), 1..6),
        seed in any::<u64>(),
    ) {
        let text = spell(&document, seed);
        let trie = Trie::new(pointers.iter().map(Pointer::segments));
        let mut got = vec![Vec::new(); pointers.len()];
        let scanned = trie.walk(&text, |number, value| {
            got[number].push(parsed(value).to_string());
            std::ops::ControlFlow::Continue(())
        });
        prop_assert_eq!(scanned, Ok(()));
        for (pointer, got) in pointers.iter().zip(&mut got) {
            let reached = reach(&document, pointer.segments());
            let mut want: Vec<_> = reached.values().map(|value| canonical(value).to_string()).collect();
            want.sort();
            got.sort();
            prop_assert_eq!(got, &want, "{} in {}", pointer, text);
        }
    }

    #[test]
    fn a_projection_is_the_models_and_stays_when_repeated(
        document in document(),
        pointers in prop::collection::vec(pointer(), 1..6),
        seed in any::<u64>(),
    ) {
        let text = spell(&document, seed);
        let fields = Fields::compile(&texts(&pointers)).expect("pointers");
        let once = fields.project(&object(&text)).into_owned();
        prop_assert_eq!(parsed(&once), projection(&document, &pointers), "{:?} of {}", pointers, text);
        let again = object(&once);
        prop_assert_eq!(fields.project(&again), once.as_str());
        let cut: Json = serde_json::from_str(&once).expect("JSON");
        for pointer in &pointers {
            let (before, after) = (reach(&document, pointer.segments()), reach(&cut, pointer.segments()));
            for (path, value) in before {
                let kept = after.get(&path).copied().map(canonical);
                prop_assert_eq!(kept, Some(canonical(value)), "{:?} of {}", path, text);
            }
        }
    }

    #[test]
    fn a_change_is_one_in_the_models_projection(
        old in document(),
        other in document(),
        from_other in prop::sample::select(&["all", "some", "none"][..]),
        pointers in prop::collection::vec(pointer(), 1..4),
        seeds in any::<[u64; 2]>(),
        as_fields in any::<bool>(),
    ) {
        let new = match (from_other, old.clone(), other) {
            ("none", old, _) => old,
            ("some", Json::Object(mut map), Json::Object(others)) => {
                map.extend(others.into_iter().take(1));
                Json::Object(map)
            }
            (_, _, other) => other,
        };
        let names = texts(&pointers);
        let spec = if as_fields {
            FilterSpec { fields: names, ..FilterSpec::default() }
        } else {
            FilterSpec { changed: names, ..FilterSpec::default() }
        };
        let filter = Filter::compile(spec).expect("a filter");
        let texts = [spell(&old, seeds[0]), spell(&new, seeds[1])];
        let want = projection(&old, &pointers) != projection(&new, &pointers);
        prop_assert_eq!(filter.is_change(&object(&texts[0]), &object(&texts[1])), want, "{:?}", texts);
        prop_assert_eq!(filter.failures(), 0);
    }

    #[test]
    fn conditions_hold_when_the_models_do(
        document in document(),
        clauses in prop::collection::vec(clause(), 1..4),
        seed in any::<u64>(),
    ) {
        let text = spell(&document, seed);
        let results: Vec<_> = clauses
            .iter()
            .map(|(pointer, operator, values)| holds(&document, pointer, *operator, values))
            .collect();
        let want = if results.contains(&Some(false)) {
            Verdict::Fails
        } else if results.contains(&None) {
            Verdict::Unknown
        } else {
            Verdict::Holds
        };
        let conditions = conditions(&clauses);
        let compiled = Conditions::compile(&conditions).expect("conditions");
        prop_assert_eq!(compiled.judge(&text), want, "{:?} of {}", conditions, text);
    }

    #[test]
    fn an_index_has_the_models_scalars(document in document(), pointer in pointer()) {
        let index: IndexPointer = pointer.to_string().parse().expect("a pointer");
        let text_of = |value: &Json| match value {
            Json::String(text) => Some(text.clone()),
            Json::Number(_) | Json::Bool(_) => Some(value.to_string()),
            _ => None,
        };
        let reached = reach(&document, pointer.segments());
        let mut want: Vec<_> = reached.values().filter_map(|value| text_of(value)).collect();
        want.sort();
        want.dedup();
        prop_assert_eq!(index.values(&object(&document.to_string())), want);
        prop_assert_eq!(index.skipped(), 0);
    }

    #[test]
    fn damaged_text_never_panics(
        document in document(),
        seed in any::<u64>(),
        damage in prop::collection::vec((any::<prop::sample::Index>(), "[\\[\\]{}:,\"\\\\u0é ]{0,2}"), 1..4),
        cut_off in any::<bool>(),
        clauses in prop::collection::vec(clause(), 1..4),
        pointers in prop::collection::vec(pointer(), 1..4),
    ) {
        let mut characters: Vec<String> = spell(&document, seed).chars().map(String::from).collect();
        for (at, instead) in damage {
            let at = at.index(characters.len());
            characters[at] = instead;
            if cut_off {
                characters.truncate(at + 1);
            }
        }
        use_every_part(&characters.concat(), &clauses, &pointers);
    }

    #[test]
    fn arbitrary_text_never_panics(
        text in any::<String>(),
        clauses in prop::collection::vec(clause(), 1..4),
        pointers in prop::collection::vec(pointer(), 1..4),
    ) {
        use_every_part(&text, &clauses, &pointers);
    }
}

fn use_every_part(text: &str, clauses: &[Clause], pointers: &[Pointer]) {
    let (damaged, sound) = (object(text), object("{}"));
    for changed in [Vec::new(), texts(pointers)] {
        let spec = FilterSpec {
            label_selector: "a=x,!b".into(),
            conditions: conditions(clauses),
            changed,
            fields: texts(pointers),
            ..FilterSpec::default()
        };
        let filter = Filter::compile(spec).expect("a filter");
        filter.selects(&damaged);
        filter.satisfies(&damaged);
        filter.is_change(&damaged, &sound);
        filter.project(&damaged);
    }
    let _ = equal::same(text, "{\"a\":[]}");
    let _ = equal::same(text, &format!("{text} "));
    for pointer in texts(pointers) {
        pointer.parse::<IndexPointer>().expect("a pointer").values(&damaged);
    }
}

#[test]
fn nesting_costs_no_stack() {
    let deep = format!(r#"{{"a":{}1{},"b":1}}"#, "[".repeat(200_000), "]".repeat(200_000));
    let pointers = ["/a/*/*/*/*".to_owned(), "/b".to_owned(), format!("/a{}", "/x".repeat(31))];
    let fields = Fields::compile(&pointers[1..]).expect("pointers");
    assert_eq!(fields.project(&object(&deep)), r#"{"b":1}"#);
    let filter = Filter::compile(FilterSpec { changed: pointers.to_vec(), ..FilterSpec::default() });
    let filter = filter.expect("a filter");
    assert!(filter.is_change(&object(&deep), &object(&deep.replace('1', "2"))));
    assert_eq!(filter.failures(), 1);
}
