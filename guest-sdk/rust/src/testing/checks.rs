//! The rules of the contract's `description` that can be checked without a cluster. Used by the fake host.
//! Invariant: what is refused here the real host refuses too. Selectors' grammar and namespaces' names are left
//! to the real host.

use std::collections::HashSet;

use super::filter::Filter;
use super::pointer::Pointer;
use crate::condition::{Comparison, Condition};
use crate::{Description, Subscription};

/// Checks a description; an error says what is wrong first.
pub(super) fn check(description: &Description) -> Result<(), String> {
    let subscriptions = description.subscriptions();
    if subscriptions.is_empty() || subscriptions.len() > 64 {
        return Err(format!("{} subscriptions, where 1 to 64 are allowed", subscriptions.len()));
    }
    if description.proposal.concurrency.is_some_and(|instances| !(1..=64).contains(&instances)) {
        return Err("the proposed concurrency is not from 1 to 64".to_owned());
    }
    let mut names = HashSet::new();
    for one in subscriptions {
        subscription(one).map_err(|problem| format!("subscription `{}`: {problem}", one.name()))?;
        if !names.insert(one.name()) {
            return Err(format!("two subscriptions are named `{}`", one.name()));
        }
    }
    Ok(())
}

fn subscription(one: &Subscription) -> Result<(), String> {
    if one.name.is_empty() || one.api_version.is_empty() || one.kind.is_empty() {
        return Err("it lacks its name, api-version or kind".to_owned());
    }
    if !one.namespaces.is_empty() && !one.namespace_selector.is_empty() {
        return Err("it has namespaces by name and by labels".to_owned());
    }
    bound("conditions", one.conditions.len(), 32)?;
    bound("pointers in `changed`", one.changed.len(), 64)?;
    bound("pointers in `fields`", one.fields.len(), 64)?;
    bound("indexes", one.indexes.len(), 16)?;
    one.conditions.iter().try_for_each(condition)?;
    one.changed.iter().try_for_each(|text| Pointer::parse(text).map(drop))?;
    let mut names = HashSet::new();
    if let Some((name, _)) = one.indexes.iter().find(|(name, _)| name.is_empty() || !names.insert(name)) {
        return Err(format!("an index is named `{name}`, which is empty or another one's name"));
    }
    Filter::of(one).map(drop)
}

fn bound(what: &str, count: usize, most: usize) -> Result<(), String> {
    if count > most { Err(format!("it has {count} {what}, more than {most}")) } else { Ok(()) }
}

fn condition(one: &Condition) -> Result<(), String> {
    let Condition { pointer, comparison, values } = one;
    let right = match comparison {
        Comparison::Exists | Comparison::Absent => values.is_empty(),
        Comparison::OneOf | Comparison::NoneOf => (1..=64).contains(&values.len()),
        Comparison::Greater | Comparison::Less => {
            matches!(values.as_slice(), [number] if serde_json::from_str::<serde_json::Number>(number).is_ok())
        }
    };
    if !right || values.iter().any(|value| value.len() > 256) {
        return Err(format!(
            "the condition on `{pointer}` has the wrong values for {comparison:?}: {values:?}"
        ));
    }
    Pointer::parse(pointer).map(drop)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pods() -> Subscription {
        Subscription::new("pods", "v1", "Pod")
    }

    fn described(subscriptions: impl IntoIterator<Item = Subscription>) -> Description {
        Description::new("p", "1").watch_all(subscriptions)
    }

    #[test]
    fn a_description_that_asks_for_everything_is_right() {
        let full = pods()
            .namespaces_with("team=a")
            .when(Condition::one_of("/status/phase", ["Failed"]))
            .when(Condition::greater("/spec/n", -0.5))
            .changed(["/status"])
            .fields(["/spec/containers/*/image"])
            .index("node", "/spec/nodeName");
        assert_eq!(check(&described([full]).concurrency(64)), Ok(()));
    }

    #[test]
    fn what_the_real_host_refuses_is_refused() {
        let many = |count: usize| (0..count).map(|n| format!("/f{n}")).collect::<Vec<_>>();
        let wrong = [
            described([]),
            described([pods()]).concurrency(0),
            described([pods()]).concurrency(65),
            described([pods(), pods()]),
            described([Subscription::new("", "v1", "Pod")]),
            described([pods().namespace("a").namespaces_with("team=a")]),
            described([pods().when(Condition::exists("status"))]),
            described([pods().when(Condition::one_of("/a", [""; 0]))]),
            described([pods().when(Condition::one_of("/a", many(65)))]),
            described([pods().when(Condition::equals("/a", "x".repeat(257)))]),
            described([pods().when(Condition::greater("/a", "many"))]),
            described([pods().changed(["/a/0"])]),
            described([pods().fields(["/~"])]),
            described([pods().fields(many(65))]),
            described([pods().changed(many(65))]),
            described([pods().index("", "/a")]),
            described([pods().index("a", "a")]),
            described([pods().index("a", "/a").index("a", "/b")]),
        ];
        for description in wrong {
            assert!(check(&description).is_err(), "{description:?}");
        }
    }
}
