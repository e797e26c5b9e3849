//! What of a guest's answer is taken over, and what is refused in which words.

use hark_informer::filter::Operator;

use super::*;

fn pods() -> wit::Subscription {
    wit::Subscription {
        name: "pods".into(),
        api_version: "v1".into(),
        kind: "Pod".into(),
        namespaces: vec![],
        namespace_selector: String::new(),
        label_selector: String::new(),
        field_selector: String::new(),
        conditions: vec![],
        changed: vec![],
        fields: vec![],
        indexes: vec![],
        resync_seconds: 0,
        extra: vec![],
    }
}

fn plugin(subscriptions: Vec<wit::Subscription>) -> wit::Description {
    let proposal = wit::Proposal { on_reload: None, on_restart: None, delivery: None, concurrency: None };
    wit::Description { name: "p".into(), version: "1".into(), subscriptions, proposal, extra: vec![] }
}

fn problems(subscription: wit::Subscription) -> Vec<String> {
    check(plugin(vec![subscription])).err().unwrap_or_default()
}

#[test]
fn a_plain_description_is_taken_over() {
    let mut from = plugin(vec![pods(), wit::Subscription { name: "other".into(), ..pods() }]);
    from.name = "evil\x1b[2J\nname".into();
    from.extra = vec![("a".into(), "b".into())];
    from.subscriptions[0].namespaces = vec!["a".into(), "b".into(), "a".into()];
    let description = check(from).expect("right");
    assert_eq!(description.name, "evil\\nname");
    assert_eq!(description.subscriptions[0].namespaces, ["a", "b"]);
    assert_eq!(description.extra, [("a".to_owned(), "b".to_owned())]);
}

#[test]
fn resync_is_never_or_at_least_ten_seconds() {
    let cases = [(0, None), (1, Some(10)), (9, Some(10)), (10, Some(10)), (600, Some(600))];
    for (seconds, want) in cases {
        let from = plugin(vec![wit::Subscription { resync_seconds: seconds, ..pods() }]);
        let resync = check(from).expect("right").subscriptions[0].resync;
        assert_eq!(resync, want.map(Duration::from_secs), "{seconds}");
    }
}

#[test]
fn all_that_is_wrong_is_said_at_once() {
    let wrong = wit::Subscription { api_version: String::new(), kind: "Pod/log".into(), ..pods() };
    let found = check(plugin(vec![pods(), wrong])).expect_err("wrong");
    assert_eq!(found.len(), 3, "{found:?}");
    assert!(found.iter().all(|problem| problem.starts_with("subscription 1 (`pods`): ")), "{found:?}");
    assert!(found[2].ends_with("another subscription has this name"), "{found:?}");
}

#[test]
fn the_number_of_subscriptions_is_bounded() {
    assert!(check(plugin(vec![])).is_err());
    let named = |n: usize| wit::Subscription { name: format!("s{n}"), ..pods() };
    assert!(check(plugin((0..SUBSCRIPTIONS).map(named).collect())).is_ok());
    let found = check(plugin((0..=SUBSCRIPTIONS).map(named).collect())).expect_err("too many");
    assert_eq!(found, ["it has 65 subscriptions, more than 64"]);
}

#[test]
fn names_and_types_are_checked() {
    let wrong = [
        wit::Subscription { name: String::new(), ..pods() },
        wit::Subscription { name: "x".repeat(NAME_BYTES + 1), ..pods() },
        wit::Subscription { name: "a\nb".into(), ..pods() },
        wit::Subscription { api_version: "apps/v1/x".into(), ..pods() },
        wit::Subscription { api_version: "/v1".into(), ..pods() },
        wit::Subscription { api_version: "v1?watch=1".into(), ..pods() },
        wit::Subscription { kind: "../pods".into(), ..pods() },
        wit::Subscription { namespaces: vec!["Default".into()], ..pods() },
        wit::Subscription { namespaces: vec![String::new()], ..pods() },
        wit::Subscription { namespaces: vec!["a/b".into()], ..pods() },
        wit::Subscription { extra: vec![("k".into(), "v".repeat(EXTRA_BYTES))], ..pods() },
    ];
    for subscription in wrong {
        let shown = format!("{subscription:?}");
        assert_eq!(problems(subscription).len(), 1, "{shown}");
    }
}

#[test]
fn label_selectors() {
    let right = [
        "app=web",
        "app==web,tier!=test",
        "app",
        "!app",
        "a in (x, y),b notin (z)",
        "a in ()",
        "n>3",
        "n < 3",
        "example.com/part-of=x",
        "empty=",
        " a = b , c ",
    ];
    let wrong =
        ["=", "a=b,", ",", "a=b c", "a in x", "a in (x", "a)(", "a=$x", "a ~ b", "a&b", "!a=b", "a=b\n"];
    for selector in right {
        assert_eq!(
            problems(wit::Subscription { label_selector: selector.into(), ..pods() }).len(),
            0,
            "{selector}"
        );
    }
    for selector in wrong {
        assert_eq!(
            problems(wit::Subscription { label_selector: selector.into(), ..pods() }).len(),
            1,
            "{selector}"
        );
    }
}

#[test]
fn field_selectors() {
    let right = [
        "metadata.name=a",
        "spec.nodeName!=n,status.phase==Running",
        "spec.nodeName=",
        r"spec.x=a\,b\\,spec.y=c",
    ];
    for selector in right {
        assert_eq!(
            problems(wit::Subscription { field_selector: selector.into(), ..pods() }).len(),
            0,
            "{selector}"
        );
    }
    for selector in ["metadata.name", "=a", "a=b,", "a in (b)", "a b=c", "a=\u{1}"] {
        assert_eq!(
            problems(wit::Subscription { field_selector: selector.into(), ..pods() }).len(),
            1,
            "{selector}"
        );
    }
}

fn condition(pointer: &str, comparison: wit::Comparison, values: &[&str]) -> wit::Condition {
    let values = values.iter().map(|value| (*value).to_owned()).collect();
    wit::Condition { pointer: pointer.into(), comparison, values }
}

fn index(name: &str, pointer: &str) -> wit::IndexDefinition {
    wit::IndexDefinition { name: name.into(), pointer: pointer.into() }
}

#[test]
fn what_the_host_evaluates_is_taken_over_as_the_filter_takes_it() {
    use wit::Comparison as O;
    let operators = [
        (O::Exists, Operator::Exists, vec![]),
        (O::Absent, Operator::NotExists, vec![]),
        (O::OneOf, Operator::In, vec!["x"]),
        (O::NoneOf, Operator::NotIn, vec!["x", "y"]),
        (O::Greater, Operator::Gt, vec!["1"]),
        (O::Less, Operator::Lt, vec!["-2.5e3"]),
    ];
    let mut from = pods();
    from.namespace_selector = "team in (a,b)".into();
    from.label_selector = "app=web".into();
    from.conditions =
        operators.iter().map(|(operator, _, values)| condition("/a", *operator, values)).collect();
    from.changed = vec!["/b".into()];
    from.fields = vec!["/c/*/d".into(), "/e".into()];
    from.indexes = vec![index("node", "/spec/nodeName")];
    let taken = check(plugin(vec![from])).expect("right").subscriptions.remove(0);
    assert_eq!(
        (taken.namespace_selector.as_str(), taken.label_selector.as_str()),
        ("team in (a,b)", "app=web")
    );
    let FilterSpec { label_selector, field_selector, namespaces, conditions, changed, fields } = taken.filter;
    assert_eq!((label_selector.as_str(), field_selector.as_str(), namespaces.len()), ("", "", 0));
    assert_eq!((changed.join(" "), fields.join(" ")), ("/b".into(), "/c/*/d /e".into()));
    assert_eq!(conditions.len(), operators.len());
    for (got, (_, operator, values)) in conditions.into_iter().zip(operators) {
        assert_eq!(
            (got.pointer.as_str(), got.operator, got.values),
            ("/a", operator, values.iter().map(|value| (*value).to_owned()).collect())
        );
    }
    assert_eq!(taken.indexes, [("node".to_owned(), "/spec/nodeName".to_owned())]);
}

#[test]
fn a_proposal_is_taken_over_and_its_concurrency_bounded() {
    let proposing = |concurrency| {
        let mut from = plugin(vec![pods()]);
        from.proposal = wit::Proposal {
            on_reload: Some(wit::QueuePolicy::Keep),
            on_restart: Some(wit::QueuePolicy::Replay),
            delivery: Some(wit::DeliveryMode::Latest),
            concurrency,
        };
        check(from)
    };
    let want = |concurrency| Proposal {
        on_reload: Some(OnSwap::Continue),
        on_restart: Some(OnRestart::Replay),
        delivery: Some(Merge::Latest),
        concurrency,
    };
    for (count, taken) in [(None, None), (Some(1), Some(1)), (Some(64), Some(64))] {
        assert_eq!(proposing(count).map(|description| description.proposal), Ok(want(taken)));
    }
    for count in [0, 65, u32::MAX] {
        let said = format!("it proposes a concurrency of {count}, which is not from 1 to 64");
        assert_eq!(proposing(Some(count)).err(), Some(vec![said]));
    }
    assert_eq!(check(plugin(vec![pods()])).expect("right").proposal, Proposal::default());
}

#[test]
fn each_problem_names_its_place_and_what_stands_there() {
    use wit::Comparison as O;
    let index_place = "a place in an array cannot be named: use \"*\" for all of them";
    let numbers = |count: usize| (0..count).map(|n| format!("/f{n}")).collect::<Vec<_>>();
    let cases = [
        (
            wit::Subscription { namespaces: vec!["a".into()], namespace_selector: "b".into(), ..pods() },
            "it has both `namespaces` and `namespace-selector`".to_owned(),
        ),
        (
            wit::Subscription { namespace_selector: "a in".into(), ..pods() },
            "`namespace-selector` is `a in`: found the end, expected \"(\"".to_owned(),
        ),
        (
            wit::Subscription { conditions: vec![condition("/a", O::OneOf, &[])], ..pods() },
            "`conditions` has one-of on `/a`: it needs at least one value".to_owned(),
        ),
        (
            wit::Subscription { conditions: vec![condition("/a", O::Absent, &["x"])], ..pods() },
            "`conditions` has absent on `/a`: it takes no values".to_owned(),
        ),
        (
            wit::Subscription { conditions: vec![condition("/a", O::Greater, &["x"])], ..pods() },
            "`conditions` has greater on `/a`: it takes exactly one value, a number as JSON writes it"
                .to_owned(),
        ),
        (
            wit::Subscription { changed: vec!["/a".into(), "b".into()], ..pods() },
            "`changed` has `b`: it does not begin with \"/\"".to_owned(),
        ),
        (
            wit::Subscription { fields: vec!["/a/0".into()], ..pods() },
            format!("`fields` has `/a/0`: {index_place}"),
        ),
        (
            wit::Subscription { indexes: vec![index("i", "/a/0")], ..pods() },
            format!("`indexes` has `i` on `/a/0`: {index_place}"),
        ),
        (
            wit::Subscription { indexes: vec![index("i", "/a"), index("i", "/b")], ..pods() },
            "`indexes` has `i` twice".to_owned(),
        ),
        (
            wit::Subscription { indexes: vec![index("", "/a")], ..pods() },
            "`indexes` has ``: a name has 1 to 128 bytes and no control characters".to_owned(),
        ),
        (
            wit::Subscription { fields: numbers(65), ..pods() },
            "`fields` has 65 entries, more than 64".to_owned(),
        ),
        (
            wit::Subscription { changed: numbers(65), ..pods() },
            "`changed` has 65 entries, more than 64".to_owned(),
        ),
        (
            wit::Subscription { conditions: vec![condition("/a", O::Exists, &[]); 33], ..pods() },
            "`conditions` has 33 entries, more than 32".to_owned(),
        ),
        (
            wit::Subscription {
                indexes: numbers(17).iter().map(|pointer| index(pointer, pointer)).collect(),
                ..pods()
            },
            "`indexes` has 17 entries, more than 16".to_owned(),
        ),
    ];
    for (subscription, said) in cases {
        assert_eq!(problems(subscription), [format!("subscription 0 (`pods`): {said}")]);
    }
}

#[test]
fn all_that_is_wrong_with_pointers_is_said_at_once_and_safe_to_show() {
    let from = wit::Subscription {
        conditions: vec![condition("a\x1b[2J", wit::Comparison::OneOf, &[])],
        changed: vec!["b".into()],
        fields: vec!["c".into(), "/d".into(), "/e/-".into()],
        indexes: vec![index("i", "f")],
        ..pods()
    };
    let found = problems(from);
    assert_eq!(found.len(), 5, "{found:?}");
    assert!(found.iter().all(|problem| !problem.contains('\x1b')), "{found:?}");
}

#[test]
fn the_number_of_problems_is_bounded() {
    let from = wit::Subscription { fields: vec!["no pointer".into(); 100_000], ..pods() };
    assert_eq!(problems(from).len(), 65);
    let named = |n: usize| wit::Subscription {
        name: format!("s{n}"),
        changed: vec!["no pointer".into(); 10],
        ..pods()
    };
    let found = check(plugin((0..64).map(named).collect())).expect_err("wrong");
    assert_eq!((found.len(), found[100].as_str()), (101, "and 540 more"));
}
