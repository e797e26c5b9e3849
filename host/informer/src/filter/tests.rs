//! Tables: what each part of a filter decides. Random documents against a model are in `model`.

use super::*;
use crate::object::Ingest;

fn object(rest: &str) -> Arc<Object> {
    let metadata = r#""metadata":{"name":"a","namespace":"n","uid":"u","resourceVersion":"7"}"#;
    Object::parse(&format!("{{{metadata},{rest}}}"), None, Ingest::default()).expect("an object")
}

fn strings(list: &[&str]) -> Vec<String> {
    list.iter().map(|text| (*text).to_owned()).collect()
}

fn condition(pointer: &str, operator: Operator, values: &[&str]) -> Condition {
    Condition { pointer: pointer.into(), operator, values: strings(values) }
}

fn compile(spec: FilterSpec) -> Filter {
    Filter::compile(spec).unwrap_or_else(|errors| panic!("{errors:?}"))
}

fn fields(pointers: &[&str]) -> Filter {
    compile(FilterSpec { fields: strings(pointers), ..FilterSpec::default() })
}

fn changed(pointers: &[&str]) -> Filter {
    compile(FilterSpec { changed: strings(pointers), ..FilterSpec::default() })
}

/// Whether the condition lets the object through, and whether that is because it cannot be judged.
fn judge(pointer: &str, operator: Operator, values: &[&str], rest: &str) -> (bool, bool) {
    let conditions = vec![condition(pointer, operator, values)];
    let filter = compile(FilterSpec { conditions, ..FilterSpec::default() });
    (filter.satisfies(&object(rest)), filter.failures() == 1)
}

const YES: (bool, bool) = (true, false);
const NO: (bool, bool) = (false, false);
const UNJUDGED: (bool, bool) = (true, true);

#[test]
fn exists_asks_for_a_value_and_null_is_one() {
    for (rest, there) in [
        (r#""a":1"#, true),
        (r#""a":null"#, true),
        (r#""a":{}"#, true),
        (r#""b":1"#, false),
        (r#""b":{"a":1}"#, false),
    ] {
        assert_eq!(judge("/a", Operator::Exists, &[], rest), (there, false), "{rest}");
        assert_eq!(judge("/a", Operator::NotExists, &[], rest), (!there, false), "{rest}");
    }
    assert_eq!(judge("/a/*/b", Operator::Exists, &[], r#""a":[{},{"b":0}]"#), YES);
    assert_eq!(judge("/a/*/b", Operator::NotExists, &[], r#""a":[{},{"c":0}]"#), YES);
    assert_eq!(judge("/a/*", Operator::Exists, &[], r#""a":[]"#), NO);
}

#[test]
fn in_compares_strings_by_content_and_numbers_by_value() {
    let cases: [(&str, &str, bool); 24] = [
        (r#""x""#, "x", true),
        (r#""\u0078""#, "x", true),
        (r#""a\n\"b""#, "a\n\"b", true),
        (r#""x""#, "X", false),
        (r#""""#, "", true),
        (r#""1""#, "1", true),
        (r#""1""#, "1.0", false),
        ("1", "1", true),
        ("1.0", "1", true),
        ("1", "1.0", true),
        ("1e3", "1000", true),
        ("-0", "0", true),
        ("18446744073709551615", "18446744073709551615", true),
        ("18446744073709551615", "18446744073709551616", false),
        ("9007199254740993", "9007199254740992", false),
        ("-9223372036854775808", "-9223372036854775808", true),
        ("1", "01", false),
        ("1", "", false),
        ("true", "true", true),
        ("true", "false", false),
        ("null", "null", true),
        (r#""null""#, "null", true),
        ("{}", "{}", false),
        ("[1]", "1", false),
    ];
    for (value, listed, want) in cases {
        let rest = format!(r#""a":{value}"#);
        assert_eq!(judge("/a", Operator::In, &["other", listed], &rest), (want, false), "{value} {listed}");
        assert_eq!(
            judge("/a", Operator::NotIn, &[listed, "other"], &rest),
            (!want, false),
            "{value} {listed}"
        );
    }
}

#[test]
fn with_several_values_in_needs_one_and_not_in_all() {
    let list = r#""a":[{"b":"x"},{"b":"y"},{}]"#;
    assert_eq!(judge("/a/*/b", Operator::In, &["y"], list), YES);
    assert_eq!(judge("/a/*/b", Operator::In, &["z"], list), NO);
    assert_eq!(judge("/a/*/b", Operator::NotIn, &["y"], list), NO);
    assert_eq!(judge("/a/*/b", Operator::NotIn, &["z"], list), YES);
    assert_eq!(judge("/c", Operator::In, &["z"], list), NO, "absent");
    assert_eq!(judge("/c", Operator::NotIn, &["z"], list), YES, "absent, as in Kubernetes' selectors");
    assert_eq!(judge("/c", Operator::In, &["null"], list), NO, "absence is not null");
}

#[test]
fn gt_and_lt_compare_numbers_and_let_through_what_they_cannot_judge() {
    for (rest, bound, gt, lt) in [
        (r#""a":2"#, "1", YES, NO),
        (r#""a":1"#, "1", NO, NO),
        (r#""a":1.0"#, "1", NO, NO),
        (r#""a":0.5"#, "1", NO, YES),
        (r#""a":9007199254740993"#, "9007199254740992", YES, NO),
        (r#""a":18446744073709551614"#, "18446744073709551615", NO, YES),
        (r#""a":-1e400"#, "0", NO, YES),
        (r#""b":2"#, "1", NO, NO),
        (r#""a":"2""#, "1", UNJUDGED, UNJUDGED),
        (r#""a":"1Gi""#, "1", UNJUDGED, UNJUDGED),
        (r#""a":null"#, "1", UNJUDGED, UNJUDGED),
        (r#""a":[2]"#, "1", UNJUDGED, UNJUDGED),
    ] {
        assert_eq!(judge("/a", Operator::Gt, &[bound], rest), gt, "{rest} > {bound}");
        assert_eq!(judge("/a", Operator::Lt, &[bound], rest), lt, "{rest} < {bound}");
    }
    assert_eq!(judge("/a/*", Operator::Gt, &["1"], r#""a":[0,"x",2]"#), YES, "one is enough");
    assert_eq!(judge("/a/*", Operator::Gt, &["1"], r#""a":[0,"x"]"#), UNJUDGED);
    assert_eq!(judge("/a/*", Operator::Gt, &["1"], r#""a":[0,1]"#), NO);
}

#[test]
fn all_conditions_must_hold_and_a_plain_no_outweighs_what_cannot_be_judged() {
    let both = |first: Condition, second: Condition| {
        let filter = compile(FilterSpec { conditions: vec![first, second], ..FilterSpec::default() });
        (filter.satisfies(&object(r#""a":1,"b":"x""#)), filter.failures())
    };
    let holds = || condition("/a", Operator::In, &["1"]);
    let fails = || condition("/a", Operator::In, &["2"]);
    let refuted = || condition("/a", Operator::NotIn, &["1"]);
    let unjudged = || condition("/b", Operator::Gt, &["1"]);
    assert_eq!(both(holds(), holds()), (true, 0));
    assert_eq!(both(holds(), fails()), (false, 0));
    assert_eq!(both(refuted(), holds()), (false, 0));
    assert_eq!(both(holds(), unjudged()), (true, 1));
    assert_eq!(both(fails(), unjudged()), (false, 0));
    assert_eq!(both(unjudged(), refuted()), (false, 0));
}

#[test]
fn selection_is_by_namespace_name_and_labels() {
    let text = r#"{"metadata":{"name":"a","namespace":"n","labels":{"app":"web"}}}"#;
    let pod = Object::parse(text, None, Ingest::default()).expect("an object");
    let node = Object::parse(r#"{"metadata":{"name":"a"}}"#, None, Ingest::default()).expect("an object");
    let cases = [
        (&[][..], "", "", true, true),
        (&["m", "n"], "", "", true, true),
        (&["m", "o"], "", "", false, true),
        (&["m", ""], "", "", true, true),
        (&[], "app=web", "", true, false),
        (&[], "app!=web", "", false, true),
        (&["n"], "app", "metadata.name=a", true, false),
        (&["n"], "app", "metadata.name=b", false, false),
        (&[], "", "metadata.namespace!=n", false, true),
    ];
    for (namespaces, labels, by_field, want_pod, want_node) in cases {
        let spec = FilterSpec {
            namespaces: strings(namespaces),
            label_selector: labels.into(),
            field_selector: by_field.into(),
            ..FilterSpec::default()
        };
        let filter = compile(spec);
        assert_eq!(filter.selects(&pod), want_pod, "{:?}", filter.spec());
        assert_eq!(filter.selects(&node), want_node, "{:?}", filter.spec());
        let all =
            labels.is_empty() && by_field.is_empty() && (namespaces.is_empty() || namespaces.contains(&""));
        assert_eq!(filter.passes_all(), all, "{:?}", filter.spec());
        assert_eq!(filter.failures(), 0);
    }
}

#[test]
fn a_projection_holds_the_named_values_at_their_paths_and_nothing_else() {
    let rest =
        r#""spec":{"a":1,"b":{"c":[1, 2],"d":"\u0041"},"e":[{"f":1,"g":2},{"g":3},4,[5],{"f":null}],"h":{}}"#;
    let cases: [(&[&str], &str); 18] = [
        (&["/spec/a"], r#"{"spec":{"a":1}}"#),
        (&["/spec/b"], r#"{"spec":{"b":{"c":[1, 2],"d":"\u0041"}}}"#),
        (&["/spec/b/c", "/spec/a"], r#"{"spec":{"a":1,"b":{"c":[1, 2]}}}"#),
        (&["/spec/b", "/spec/b/c"], r#"{"spec":{"b":{"c":[1, 2],"d":"\u0041"}}}"#),
        (&["/spec/b/c", "/spec/b"], r#"{"spec":{"b":{"c":[1, 2],"d":"\u0041"}}}"#),
        (&["/metadata/name", "/spec/b/d"], r#"{"metadata":{"name":"a"},"spec":{"b":{"d":"\u0041"}}}"#),
        (&["/spec/e/*/f"], r#"{"spec":{"e":[{"f":1},{},null,null,{"f":null}]}}"#),
        (&["/spec/e/*/*"], r#"{"spec":{"e":[{"f":1,"g":2},{"g":3},null,[5],{"f":null}]}}"#),
        (&["/spec/e/*"], r#"{"spec":{"e":[{"f":1,"g":2},{"g":3},4,[5],{"f":null}]}}"#),
        (&["/spec/e/*/x"], r#"{"spec":{"e":[{},{},null,null,{}]}}"#),
        (&["/spec/e/f"], "{}"),
        (&["/spec/*/d"], r#"{"spec":{"b":{"d":"\u0041"}}}"#),
        (&["/spec/*/*/f"], r#"{"spec":{"e":[{"f":1},{},null,null,{"f":null}]}}"#),
        (&["/spec/h"], r#"{"spec":{"h":{}}}"#),
        (&["/spec/h/x", "/spec/a/x", "/nothing"], "{}"),
        (&["/spec/a/*"], "{}"),
        (&["/spec/*/d", "/spec/b/c"], r#"{"spec":{"b":{"c":[1, 2],"d":"\u0041"}}}"#),
        (&["/spec/a", "/spec/a"], r#"{"spec":{"a":1}}"#),
    ];
    let whole = object(rest);
    for (pointers, want) in cases {
        let filter = fields(pointers);
        let projected = filter.project(&whole);
        assert_eq!(projected.json(), want, "{pointers:?}");
        assert_eq!(filter.project(&projected).json(), want, "twice: {pointers:?}");
        assert_eq!(projected.key(), whole.key());
        assert_eq!((projected.uid(), projected.resource_version()), ("u", "7"));
        let compiled = Fields::compile(&strings(pointers)).expect("pointers");
        assert_eq!(compiled.project(&whole), want, "{pointers:?}");
    }
}

#[test]
fn a_projection_reads_no_further_than_the_last_value_that_it_holds() {
    // `!` would be an error, were it read.
    for (pointers, text, want) in [
        (&["/a"][..], r#"{"a":1,!"#, r#"{"a":1}"#),
        (&["/a/b", "/a/c"], r#"{"x":0,"a":{"c":1,"x":[],"b":2,!"#, r#"{"a":{"c":1,"b":2}}"#),
        (&["/a/b", "/c"], r#"{"c":1,"a":{"b":2,!"#, r#"{"c":1,"a":{"b":2}}"#),
        (&["/a/b"], r#"{"a":[!"#, "{}"),
    ] {
        let compiled = Fields::compile(&strings(pointers)).expect("pointers");
        assert_eq!(compiled.try_project(text).expect(text), want);
    }
}

#[test]
fn without_fields_the_object_itself_is_handed_over() {
    let whole = object(r#""a":1"#);
    assert!(Arc::ptr_eq(&fields(&[]).project(&whole), &whole));
    let none = Fields::compile(&[]).expect("nothing");
    assert!(none.is_whole());
    assert_eq!(none.project(&whole), whole.json());
}

#[test]
fn the_same_object_gives_the_same_projection() {
    let filter = fields(&["/a"]);
    let (one, two) = (object(r#""a":1"#), object(r#""a":1"#));
    let first = filter.project(&one);
    assert!(Arc::ptr_eq(&filter.project(&one), &first));
    assert!(!Arc::ptr_eq(&filter.project(&two), &first), "known by identity, not by content");
}

#[test]
fn a_change_is_a_difference_in_what_is_named() {
    let cases = [
        ("/a", r#""a":1"#, r#""a":1"#, false),
        ("/a", r#""a":1,"b":1"#, r#""a":1,"b":2"#, false),
        ("/a", r#""a":1"#, r#""a":2"#, true),
        ("/a", r#""a":1"#, r#""a":1.0"#, false),
        ("/a", r#""a":18446744073709551615"#, r#""a":18446744073709551616"#, true),
        ("/a", r#""a":1"#, r#""a":"1""#, true),
        ("/a", r#""a":null"#, r#""b":1"#, true),
        ("/a", r#""a":null"#, r#""a":false"#, true),
        ("/a", r#""a":{"b":1,"c":[1,2]}"#, r#""a": {"c":[ 1,2 ], "\u0062":1e0}"#, false),
        ("/a", r#""a":{"b":{"c":1,"d":2},"e":3}"#, r#""a":{"e":3,"b":{"d":2,"c":1}}"#, false),
        ("/a", r#""a":{"b":{"c":1,"d":2},"e":3}"#, r#""a":{"e":3,"b":{"d":2,"c":2}}"#, true),
        ("/a", r#""a":{"b":1}"#, r#""a":{"b":1,"c":null}"#, true),
        ("/a", r#""a":[1,2]"#, r#""a":[2,1]"#, true),
        ("/a", r#""a":[1,2]"#, r#""a":[1,2,3]"#, true),
        ("/a", r#""a":[]"#, r#""a":{}"#, true),
        ("/a", r#""a":"\u00e9\/""#, r#""a":"é/""#, false),
        ("/a", r#""a":"x""#, r#""a":"y""#, true),
        ("/a/*/b", r#""a":[{"b":1,"c":1}]"#, r#""a":[{"b":1,"c":2}]"#, false),
        ("/a/*/b", r#""a":[{"b":1},{"b":2}]"#, r#""a":[{"b":2},{"b":1}]"#, true),
        ("/a/*/b", r#""a":[{"b":1}]"#, r#""a":[{"b":1},{}]"#, true),
        ("/a/*", r#""a":{"b":1}"#, r#""a":{"c":1}"#, true),
        ("/a/*", r#""a":{"b":1,"c":2}"#, r#""a":{"c":2,"b":1}"#, false),
        ("/a/b", r#""a":{}"#, r#""c":1"#, false),
    ];
    for (pointer, old, new, want) in cases {
        let (old, new) = (object(old), object(new));
        for filter in [changed(&[pointer]), fields(&[pointer])] {
            assert_eq!(
                filter.is_change(&old, &new),
                want,
                "{pointer} {old:?}: {} {}",
                old.json(),
                new.json()
            );
            assert_eq!(filter.is_change(&new, &old), want, "{pointer}: {} {}", new.json(), old.json());
            assert_eq!(filter.failures(), 0);
        }
    }
}

#[test]
fn changed_defaults_to_fields_and_to_everything() {
    let (old, new) = (object(r#""a":1,"b":1"#), object(r#""a":1,"b":2"#));
    assert!(fields(&[]).is_change(&old, &new));
    assert!(fields(&[]).is_change(&old, &old), "nothing is named: never dropped");
    assert!(!fields(&["/a"]).is_change(&old, &new));
    let spec = FilterSpec { fields: strings(&["/a"]), changed: strings(&["/b"]), ..FilterSpec::default() };
    assert!(compile(spec).is_change(&old, &new), "changed outweighs fields");
    let spec = FilterSpec { fields: strings(&["/a"]), changed: strings(&["/a"]), ..FilterSpec::default() };
    let filter = compile(spec);
    assert!(!filter.is_change(&old, &new));
    assert!(filter.changed.is_none(), "one projection serves both");
}

#[test]
fn what_cannot_be_judged_is_delivered_whole_and_counted() {
    let deep = |value: u32| {
        let (open, close) = ("[".repeat(130), "]".repeat(130));
        object(&format!(r#""a":{open}{value}{close}"#))
    };
    let filter = changed(&["/a"]);
    assert!(filter.is_change(&deep(1), &deep(2)), "nested deeper than the bound");
    assert_eq!(filter.failures(), 1);
    assert!(!filter.is_change(&deep(1), &deep(1)), "the same bytes need no look inside");
    let broken = Arc::new(object("\"a\":1").with_json(r#"{"b":[,"a":"#));
    let spec = FilterSpec {
        label_selector: "x".into(),
        conditions: vec![condition("/a", Operator::Exists, &[])],
        fields: strings(&["/a"]),
        ..FilterSpec::default()
    };
    let filter = compile(spec);
    assert!(filter.selects(&broken));
    assert!(filter.satisfies(&broken));
    assert!(filter.is_change(&broken, &object(r#""a":1"#)));
    assert!(!filter.is_change(&broken, &broken), "the same bytes are no change, whatever they are");
    assert!(Arc::ptr_eq(&filter.project(&broken), &broken));
    assert_eq!(filter.failures(), 4);
}

#[test]
fn a_filter_is_refused_with_every_error_by_name() {
    let spec = FilterSpec {
        label_selector: "a=b=c".into(),
        field_selector: "spec.x=y".into(),
        conditions: vec![
            condition("/a/0", Operator::Exists, &[]),
            condition("/a", Operator::Exists, &["x"]),
            condition("/a", Operator::In, &[]),
            condition("/a", Operator::Gt, &["1Gi"]),
            condition("/a", Operator::Lt, &["1", "2"]),
        ],
        changed: strings(&["/ok", "b"]),
        fields: strings(&["/~x"]),
        ..FilterSpec::default()
    };
    let errors = Filter::compile(spec).expect_err("all of it is wrong");
    let texts: Vec<String> = errors.iter().map(ToString::to_string).collect();
    let index = "a place in an array cannot be named: use \"*\" for all of them";
    assert_eq!(
        texts,
        [
            "label selector \"a=b=c\": found \"=\", expected \",\" or the end".to_owned(),
            "field selector \"spec.x=y\": a selector on field \"spec.x\" cannot be evaluated here: only on \
             metadata.name and metadata.namespace"
                .to_owned(),
            format!("where /a/0 exists: pointer \"/a/0\": {index}"),
            "where /a exists: it takes no values".to_owned(),
            "where /a in: it needs at least one value".to_owned(),
            "where /a gt: it takes exactly one value, a number as JSON writes it".to_owned(),
            "where /a lt: it takes exactly one value, a number as JSON writes it".to_owned(),
            "changed: pointer \"b\": it does not begin with \"/\"".to_owned(),
            "fields: pointer \"/~x\": \"~\" is written ~0 (\"/\" is ~1, a name \"*\" is ~2)".to_owned(),
        ]
    );
}

#[test]
fn the_bounds_of_a_filter_hold_and_are_themselves_allowed() {
    let with = |conditions: usize, values: usize, length: usize, pointers: usize| {
        let value = "x".repeat(length);
        let condition = condition("/a", Operator::In, &vec![value.as_str(); values]);
        Filter::compile(FilterSpec {
            conditions: vec![condition; conditions],
            changed: vec!["/a".into(); pointers],
            fields: vec!["/b".into(); pointers],
            ..FilterSpec::default()
        })
        .map(|_| ())
        .map_err(|errors| errors.iter().map(ToString::to_string).collect::<Vec<_>>())
    };
    assert_eq!(with(MAX_CONDITIONS, MAX_VALUES, MAX_VALUE, MAX_POINTERS), Ok(()));
    assert_eq!(with(33, 1, 1, 1), Err(vec!["where: 33 entries, more than 32".to_owned()]));
    assert_eq!(with(1, 65, 1, 1), Err(vec!["where /a in: it has more than 64 values".to_owned()]));
    assert_eq!(with(1, 1, 257, 1), Err(vec!["where /a in: value 1 is longer than 256 bytes".to_owned()]));
    assert_eq!(
        with(1, 1, 1, 65),
        Err(vec![
            "changed: 65 entries, more than 64".to_owned(),
            "fields: 65 entries, more than 64".to_owned()
        ])
    );
    let long = format!("a={}", ",a".repeat(MAX_SELECTOR));
    let spec = FilterSpec { label_selector: long.clone(), field_selector: long, ..FilterSpec::default() };
    assert_eq!(Filter::compile(spec).expect_err("too long").len(), 2);
}

#[test]
fn operators_have_words() {
    for operator in
        [Operator::Exists, Operator::NotExists, Operator::In, Operator::NotIn, Operator::Gt, Operator::Lt]
    {
        assert_eq!(operator.as_str().parse(), Ok(operator));
    }
    assert_eq!("equals".parse::<Operator>(), Err(UnknownOperator("equals".into())));
}

#[test]
fn an_index_files_scalars_by_content() {
    let long = "x".repeat(MAX_INDEX_VALUE + 1);
    let rest = format!(
        r#""a":[{{"b":"z"}},{{"b":"\u0061"}},{{"b":"a"}},{{"b":{{}}}},{{"b":"{long}"}},{{"b":1.50}}]"#
    );
    let whole = object(&rest);
    let index: IndexPointer = "/a/*/b".parse().expect("a pointer");
    assert_eq!(index.values(&whole), ["1.50", "a", "z"]);
    assert_eq!(index.skipped(), 1, "the long one");
    assert_eq!(index.pointer().to_string(), "/a/*/b");
    let kinds: IndexPointer = "/*".parse().expect("a pointer");
    assert_eq!(kinds.values(&object(r#""a":true,"b":false,"c":null,"d":[1],"e":"""#)), ["", "false", "true"]);
    assert_eq!(kinds.skipped(), 0);
    assert!("/a/1".parse::<IndexPointer>().is_err());
}
