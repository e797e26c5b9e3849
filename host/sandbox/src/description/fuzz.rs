//! Targets `describe` and `edges`: answers of guests at all their extremes, held against the bounds that are documented.

mod edges;

use std::collections::HashSet;
use std::time::Duration;

use hark_fuzz::{Target, odd_text};
use hark_informer::filter::{
    Filter, IndexPointer, MAX_CONDITIONS, MAX_POINTER, MAX_POINTERS, MAX_VALUE, MAX_VALUES,
};
use proptest::prelude::*;

use super::*;

/// Bytes of one problem: what it says of the guest's words is cut, what it says itself is short.
const PROBLEM: usize = 1400;

/// A text at the edge of some bound, an odd one, or one that may be right.
fn text(right: &'static [&'static str]) -> BoxedStrategy<String> {
    let sizes = vec![
        0_usize, 1, 62, 63, 64, 127, 128, 129, 255, 256, 257, 1023, 1024, 1025, 4095, 4096, 4097, 20_000,
    ];
    let long =
        (prop::sample::select(sizes), prop::sample::select(vec!["a", "/", "/a", ",", "é", "\n", "a=b,"]));
    prop_oneof![
        24 => prop::sample::select(right).prop_map(str::to_owned),
        1 => long.prop_map(|(size, piece): (usize, &str)| piece.repeat(size.div_ceil(piece.len()))),
        1 => odd_text(12),
    ]
    .boxed()
}

/// So many as are right, or around a bound, or thousands.
fn list<T: std::fmt::Debug + Clone + 'static>(
    one: impl Strategy<Value = T> + Clone + 'static,
    bound: usize,
) -> impl Strategy<Value = Vec<T>> {
    let few = prop::collection::vec(one.clone(), 0..3);
    let around = prop::sample::select(vec![bound, bound, bound + 1, 1200]);
    let many = (prop::collection::vec(one, 1..4), around)
        .prop_map(|(some, count)| some.iter().cycle().take(count).cloned().collect());
    prop_oneof![40 => few, 1 => many]
}

const NAMES: &[&str] = &["a", "b", "c", "pods", "my pods", "日本"];
const VERSIONS: &[&str] = &["v1", "apps/v1", "example.com/v1beta1"];
const KINDS: &[&str] = &["Pod", "pods", "ConfigMap"];
const NAMESPACES_: &[&str] = &["default", "kube-system", "a"];
const SELECTORS: &[&str] = &["", "", "a=b", "a in (x,y)", "!a"];
const FIELDS: &[&str] = &["", "", "metadata.name=a", "spec.nodeName!=b"];
const POINTERS: &[&str] = &["/spec", "/metadata/labels/app", "/spec/containers/*/image", "/a~1b", "/data"];
const VALUES: &[&str] = &["1", "2.5", "x", ""];

fn condition() -> impl Strategy<Value = wit::Condition> + Clone {
    use wit::Comparison as C;
    let comparison =
        prop::sample::select(vec![C::Exists, C::Absent, C::OneOf, C::NoneOf, C::Greater, C::Less]);
    let values =
        prop_oneof![prop::collection::vec(text(VALUES), 0..3), list(text(VALUES), MAX_VALUES)].boxed();
    let any = (text(POINTERS), comparison, values).prop_map(|(pointer, comparison, values)| wit::Condition {
        pointer,
        comparison,
        values,
    });
    // One that is right, most often.
    let right = (text(POINTERS), prop::bool::ANY).prop_map(|(pointer, exists)| {
        let (comparison, values) =
            if exists { (C::Exists, vec![]) } else { (C::OneOf, vec!["x\u{1b}".to_owned()]) };
        wit::Condition { pointer, comparison, values }
    });
    prop_oneof![4 => right, 1 => any].boxed()
}

fn subscription() -> impl Strategy<Value = wit::Subscription> {
    let index = (text(NAMES), text(POINTERS))
        .prop_map(|(name, pointer)| wit::IndexDefinition { name, pointer })
        .boxed();
    let narrowing = (
        list(condition(), MAX_CONDITIONS),
        list(text(POINTERS), MAX_POINTERS),
        list(text(POINTERS), MAX_POINTERS),
        list(index, INDEXES),
    );
    let selecting = (list(text(NAMESPACES_), NAMESPACES), text(SELECTORS), text(SELECTORS), text(FIELDS));
    let extra = list((text(NAMES), text(NAMES)).boxed(), EXTRAS);
    let seconds = prop_oneof![Just(0), 1_u32..20, any::<u32>()];
    (text(NAMES), text(VERSIONS), text(KINDS), selecting, narrowing, seconds, extra).prop_map(
        |(name, api_version, kind, selecting, narrowing, resync_seconds, extra)| {
            let (namespaces, namespace_selector, label_selector, field_selector) = selecting;
            let (conditions, changed, fields, indexes) = narrowing;
            wit::Subscription {
                name,
                api_version,
                kind,
                namespaces,
                namespace_selector,
                label_selector,
                field_selector,
                conditions,
                changed,
                fields,
                indexes,
                resync_seconds,
                extra,
            }
        },
    )
}

/// A subscription of which many fit the memory of a test.
fn short(mut from: wit::Subscription) -> wit::Subscription {
    const FEW: usize = 3;
    from.namespaces.truncate(FEW);
    from.conditions.truncate(FEW);
    from.conditions.iter_mut().for_each(|condition| condition.values.truncate(FEW));
    from.changed.truncate(FEW);
    from.fields.truncate(FEW);
    from.indexes.truncate(FEW);
    from.extra.truncate(FEW);
    from
}

fn description() -> impl Strategy<Value = wit::Description> {
    let policy =
        || prop::option::of(prop::sample::select(vec![wit::QueuePolicy::Replay, wit::QueuePolicy::Keep]));
    let delivery =
        prop::option::of(prop::sample::select(vec![wit::DeliveryMode::All, wit::DeliveryMode::Latest]));
    let concurrency =
        prop_oneof![6 => Just(None), 2 => (1..=64_u32).prop_map(Some), 1 => any::<u32>().prop_map(Some)];
    let proposal = (policy(), policy(), delivery, concurrency).prop_map(
        |(on_reload, on_restart, delivery, concurrency)| wit::Proposal {
            on_reload,
            on_restart,
            delivery,
            concurrency,
        },
    );
    let subscriptions = prop_oneof![
        9 => prop::collection::vec(subscription(), 1..4),
        1 => (subscription(), 0_usize..2000).prop_map(|(one, count)| vec![short(one); count]),
        1 => (subscription(), 60_usize..68).prop_map(|(one, count)| {
            let one = short(one);
            (0..count).map(|n| wit::Subscription { name: format!("s{n}"), ..one.clone() }).collect()
        }),
    ];
    let extra = list((text(NAMES), text(NAMES)).boxed(), EXTRAS);
    (text(NAMES), text(VERSIONS), subscriptions, proposal, extra).prop_map(
        |(name, version, subscriptions, proposal, extra)| wit::Description {
            name,
            version,
            subscriptions,
            proposal,
            extra,
        },
    )
}

#[test]
fn fuzz_describe() {
    let target = Target { name: "describe", cases: 600, within: Duration::from_secs(2) };
    hark_fuzz::values(target, description, |from| match check(from.clone()) {
        Ok(taken) => {
            has_the_sizes_of(from, &taken)?;
            keeps_the_bounds(&taken)
        }
        Err(problems) => are_said_well(&problems),
    });
}

fn is_shown(text: &str, most: usize) -> bool {
    !text.is_empty() && text.len() <= most && text::clean(text, most) == text
}

/// Nothing that the guest asked for is lost, but for namespaces that it named twice.
fn has_the_sizes_of(from: &wit::Description, taken: &Description) -> Result<(), TestCaseError> {
    prop_assert_eq!(from.subscriptions.len(), taken.subscriptions.len());
    for (from, taken) in from.subscriptions.iter().zip(&taken.subscriptions) {
        prop_assert_eq!(&from.name, &taken.name);
        prop_assert_eq!(from.conditions.len(), taken.filter.conditions.len());
        prop_assert_eq!(from.indexes.len(), taken.indexes.len());
        prop_assert_eq!((&from.changed, &from.fields), (&taken.filter.changed, &taken.filter.fields));
        let namespaces: HashSet<_> = from.namespaces.iter().collect();
        prop_assert_eq!(namespaces, taken.namespaces.iter().collect());
    }
    Ok(())
}

fn keeps_the_bounds(taken: &Description) -> Result<(), TestCaseError> {
    for label in [&taken.name, &taken.version] {
        prop_assert!(label.len() <= LABEL_BYTES + 32, "{} bytes", label.len());
        prop_assert_eq!(&text::clean(label, usize::MAX), label);
    }
    prop_assert!((1..=SUBSCRIPTIONS).contains(&taken.subscriptions.len()));
    prop_assert!(taken.proposal.concurrency.is_none_or(|count| (1..=64).contains(&count)));
    is_bounded(&taken.extra)?;
    let names: HashSet<_> = taken.subscriptions.iter().map(|one| &one.name).collect();
    prop_assert_eq!(names.len(), taken.subscriptions.len());
    taken.subscriptions.iter().try_for_each(subscription_keeps_the_bounds)
}

fn subscription_keeps_the_bounds(taken: &Subscription) -> Result<(), TestCaseError> {
    prop_assert!(is_shown(&taken.name, NAME_BYTES), "{:?}", taken.name);
    prop_assert!(is_shown(&taken.api_version, LABEL_BYTES) && is_shown(&taken.kind, LABEL_BYTES));
    let namespaces: HashSet<_> = taken.namespaces.iter().collect();
    prop_assert!(namespaces.len() == taken.namespaces.len() && namespaces.len() <= NAMESPACES);
    prop_assert!(taken.namespaces.iter().all(|name| is_shown(name, 63)));
    prop_assert!(taken.namespaces.is_empty() || taken.namespace_selector.is_empty());
    for selector in [&taken.namespace_selector, &taken.label_selector, &taken.field_selector] {
        prop_assert!(selector.is_empty() || is_shown(selector, SELECTOR_BYTES), "{selector:?}");
    }
    let filter = &taken.filter;
    prop_assert!(filter.conditions.len() <= MAX_CONDITIONS);
    for condition in &filter.conditions {
        prop_assert!(condition.values.len() <= MAX_VALUES);
        prop_assert!(condition.values.iter().all(|value| value.len() <= MAX_VALUE));
    }
    prop_assert!(filter.changed.len() <= MAX_POINTERS && filter.fields.len() <= MAX_POINTERS);
    let pointers =
        filter.conditions.iter().map(|one| &one.pointer).chain(&filter.changed).chain(&filter.fields);
    for pointer in pointers.chain(taken.indexes.iter().map(|(_, pointer)| pointer)) {
        prop_assert!(pointer.len() <= MAX_POINTER);
    }
    prop_assert!(Filter::compile(filter.clone()).is_ok());
    let names: HashSet<_> = taken.indexes.iter().map(|(name, _)| name).collect();
    prop_assert!(names.len() == taken.indexes.len() && names.len() <= INDEXES);
    prop_assert!(names.iter().all(|name| is_shown(name, NAME_BYTES)));
    prop_assert!(taken.indexes.iter().all(|(_, pointer)| pointer.parse::<IndexPointer>().is_ok()));
    prop_assert!(taken.resync.is_none_or(|resync| resync >= MIN_RESYNC));
    is_bounded(&taken.extra)
}

fn is_bounded(extra: &[(String, String)]) -> Result<(), TestCaseError> {
    prop_assert!(extra.len() <= EXTRAS);
    prop_assert!(extra.iter().all(|(name, value)| name.len() + value.len() <= EXTRA_BYTES));
    Ok(())
}

/// There are some, not too many, each one short line.
fn are_said_well(problems: &[String]) -> Result<(), TestCaseError> {
    prop_assert!((1..=PROBLEMS + 1).contains(&problems.len()), "{} problems", problems.len());
    for problem in problems {
        prop_assert!(is_shown(problem, PROBLEM), "{} bytes: {problem:?}", problem.len());
    }
    Ok(())
}
