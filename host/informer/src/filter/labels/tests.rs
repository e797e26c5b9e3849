//! Tables after apimachinery's own tests of label selectors (`TestSelectorParse`, `TestSetSelectorParser`,
//! `TestSelectorMatches`, `TestRequirementSelectorMatching`), and the corners they leave out.

use proptest::prelude::*;

use super::*;

fn rules(text: &str) -> Vec<Rule> {
    LabelSelector::parse(text).unwrap_or_else(|error| panic!("{text}: {error}")).rules
}

fn one_of(values: &[&str]) -> Rule {
    Rule::In(values.iter().map(|value| (*value).to_owned()).collect())
}

fn none_of(values: &[&str]) -> Rule {
    Rule::NotIn(values.iter().map(|value| (*value).to_owned()).collect())
}

#[test]
fn every_form_is_read_as_apimachinery_does() {
    let cases = [
        ("", vec![]),
        (" \t\r\n", vec![]),
        ("x", vec![Rule::Exists]),
        ("\rx", vec![Rule::Exists]),
        ("a ", vec![Rule::Exists]),
        ("!x", vec![Rule::Absent]),
        (" ! x ", vec![Rule::Absent]),
        ("x=a", vec![one_of(&["a"])]),
        ("x == a", vec![one_of(&["a"])]),
        ("x!=a", vec![none_of(&["a"])]),
        ("x=", vec![one_of(&[""])]),
        ("x= ,z= ", vec![one_of(&[""]), one_of(&[""])]),
        ("x!=", vec![none_of(&[""])]),
        ("x>1", vec![Rule::Above(1)]),
        ("x<9223372036854775807", vec![Rule::Below(i64::MAX)]),
        ("x>1,z<5", vec![Rule::Above(1), Rule::Below(5)]),
        ("x in (abc,def)", vec![one_of(&["abc", "def"])]),
        ("foo  in\t (abc)", vec![one_of(&["abc"])]),
        ("x notin\n (abc)", vec![none_of(&["abc"])]),
        ("x in(a)", vec![one_of(&["a"])]),
        ("x in ()", vec![one_of(&[""])]),
        ("x notin ( )", vec![none_of(&[""])]),
        ("x in (abc,)", vec![one_of(&["", "abc"])]),
        ("x notin (, a)", vec![none_of(&["", "a"])]),
        ("x in (,)", vec![one_of(&[""])]),
        ("x in (a,,b)", vec![one_of(&["", "a", "b"])]),
        ("x in (,,b)", vec![one_of(&["", "b"])]),
        ("x in (a,,,b)", vec![one_of(&["", "a", "b"])]),
        ("x notin (abc,def),bar,z in (),w", {
            vec![none_of(&["abc", "def"]), Rule::Exists, one_of(&[""]), Rule::Exists]
        }),
        ("a in (x,y,notin, z,in)", vec![one_of(&["in", "notin", "x", "y", "z"])]),
        ("notin=in", vec![one_of(&["in"])]),
        ("in in (in)", vec![one_of(&["in"])]),
        ("in,notin", vec![Rule::Exists, Rule::Exists]),
        ("0.1.2.domain/99 notin (10.10.100.1, tick.tack.clock)", {
            vec![none_of(&["10.10.100.1", "tick.tack.clock"])]
        }),
        ("this-is-a-dns.domain.com/key-with-dash", vec![Rule::Exists]),
        ("app.kubernetes.io/name=web,tier in (a,b),!x", {
            vec![one_of(&["web"]), one_of(&["a", "b"]), Rule::Absent]
        }),
    ];
    for (text, want) in cases {
        assert_eq!(rules(text), want, "{text}");
    }
}

#[test]
fn what_apimachinery_refuses_is_refused() {
    let long_name = "a".repeat(64);
    let long_prefix = format!("{}/x", "a".repeat(254));
    let cases = [
        "x=a||y=b",
        "x==a==b",
        "!x=a",
        "x<a",
        "x>",
        "x>-1",
        "x>1.5",
        "x>9223372036854775808",
        ",x,y",
        "x,",
        "x,,y",
        "x nott in (y)",
        "a in (xyz),",
        "a in (xyz)b notin ()",
        "a in (xyz abc)",
        "a notin(",
        "a (",
        "(",
        ")",
        "=",
        "!",
        "!!x",
        "!=a",
        "x y",
        "x=a b",
        "x=!a",
        "x===a",
        "x in a",
        "x in",
        "x in (a,,)",
        "x in (,,)",
        "x in (a",
        "x in (a,",
        "x in (=)",
        "x in (!a)",
        "x in ((a))",
        "!x in (a)",
        "x=(a)",
        "-x",
        "x-",
        "x=-a",
        "x=a.",
        "x=ä",
        "ä",
        "a/b/c",
        "/x",
        "x/",
        "A.b/x",
        "a..b/x",
        "a_b/x",
        "-a/x",
        "x=a/b",
        "x=\"a\"",
        "x\0",
        &long_name,
        &long_prefix,
    ];
    for text in cases {
        assert!(LabelSelector::parse(text).is_err(), "{text}");
    }
    assert!(LabelSelector::parse(&format!("x={long_name}")).is_err());
    assert!(LabelSelector::parse(&format!("{}/{}", "a".repeat(253), "b".repeat(63))).is_ok());
}

#[test]
fn an_error_says_what_stands_where_something_else_should() {
    let cases = [
        ("x in a", "found \"a\", expected \"(\""),
        ("x=a=b", "found \"=\", expected \",\" or the end"),
        ("x,", "found the end, expected a label's name or \"!\""),
        ("x>a", "\"a\" is not a 64-bit integer, which > and < need"),
    ];
    for (text, want) in cases {
        assert_eq!(LabelSelector::parse(text).expect_err(text).to_string(), want);
    }
}

#[test]
fn labels_are_matched_as_the_server_matches_them() {
    let cases = [
        ("", r#"{"x":"y"}"#, true),
        ("x=y", r#"{"x":"y"}"#, true),
        ("x=y,z=w", r#"{"z":"w","x":"y"}"#, true),
        ("x=y,z=w", r#"{"x":"w","z":"w"}"#, false),
        ("x!=y,z!=w", r#"{"x":"z","z":"a"}"#, true),
        ("x!=y,z!=w", r#"{"x":"z","z":"w"}"#, false),
        ("x!=y", "{}", true),
        ("notin=in", r#"{"notin":"in"}"#, true),
        ("x", r#"{"x":""}"#, true),
        ("x=", r#"{"x":""}"#, true),
        ("x=", "{}", false),
        ("x", r#"{"y":"z"}"#, false),
        ("!x", r#"{"y":"z"}"#, true),
        ("!x", r#"{"x":"z"}"#, false),
        ("x in (a,b)", r#"{"x":"b"}"#, true),
        ("x in (a,b)", r#"{"x":"c"}"#, false),
        ("x in (a,b)", "{}", false),
        ("x in ()", r#"{"x":""}"#, true),
        ("x notin (a,b)", r#"{"x":"b"}"#, false),
        ("x notin (a,b)", r#"{"x":"c"}"#, true),
        ("x notin (a,b)", "{}", true),
        ("x notin ()", r#"{"x":""}"#, false),
        ("x>1", r#"{"x":"2"}"#, true),
        ("x>1", r#"{"x":"1"}"#, false),
        ("x<1", r#"{"x":"0"}"#, true),
        ("x<1", r#"{"x":"1"}"#, false),
        ("z>1", r#"{"z":"v2"}"#, false),
        ("z<9", r#"{"z":"v2"}"#, false),
        ("x>1", "{}", false),
        ("x<1", "{}", false),
        ("x,x=a,x!=b", r#"{"x":"a"}"#, true),
        ("a.b/c=d", r#"{"a.b\/c":"\u0064"}"#, true),
        ("1234=x", r#"{"1234":"x"}"#, true),
    ];
    for (text, labels, want) in cases {
        let selector = LabelSelector::parse(text).expect(text);
        let object = format!(r#"{{"kind":"A","metadata":{{"name":"a","labels":{labels},"uid":"u"}}}}"#);
        assert_eq!(selector.selects(&object), Ok(want), "{text} {labels}");
    }
}

#[test]
fn an_object_without_labels_has_none() {
    for object in [r#"{"metadata":{"name":"a"}}"#, r#"{"metadata":{"labels":null}}"#, "{}"] {
        assert_eq!(
            LabelSelector::parse("!x,y!=z").expect("a selector").selects(object),
            Ok(true),
            "{object}"
        );
        assert_eq!(LabelSelector::parse("x").expect("a selector").selects(object), Ok(false), "{object}");
    }
}

#[test]
fn a_label_that_is_no_string_cannot_be_judged() {
    let object = r#"{"metadata":{"labels":{"x":1}}}"#;
    assert_eq!(LabelSelector::parse("x=1").expect("a selector").selects(object), Err(ScanError::Malformed));
    assert_eq!(LabelSelector::parse("y!=1").expect("a selector").selects(object), Ok(true));
}

proptest! {
    #[test]
    fn no_text_panics(text in "([a-z/.]{1,3}|[=!(),<> 0-9é]){0,12}") {
        let _ = LabelSelector::parse(&text);
    }
}
