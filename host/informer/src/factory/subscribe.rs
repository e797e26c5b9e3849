//! From what a handler asks for to the informers and views that serve it.
//!
//! Used by the host for each subscription of a plugin, and by any program that wants several namespaces, conditions
//! or live namespaces. Invariant: what a subscription is told does not depend on which informer serves it: one of
//! its own, or a wider one that runs already and is narrowed here.

use std::sync::Arc;
use std::time::Duration;

use super::{Factory, ShutDown};
use crate::filter::{Filter, FilterError, FilterSpec};
use crate::listener::{Reach, Registration, Subscription};
use crate::resource::Selector;
use crate::shared_informer::SharedInformer;
use crate::view::ViewSpec;

/// What a handler wants to be told.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct SubscriptionSpec {
    /// The name by which a reload finds it again.
    pub name: String,
    /// Index in the handler's own list.
    pub number: u32,
    /// The kind, and the selectors that the API server evaluates. Its namespace is not used.
    pub selector: Selector,
    /// Namespaces by name; none: all.
    pub namespaces: Vec<String>,
    /// Namespaces by their labels, followed live; empty: as `namespaces` says.
    pub namespace_selector: String,
    /// Conditions, `changed` and `fields`. Its selectors and namespaces are not used.
    pub filter: FilterSpec,
    /// What the cache can be asked by: name and pointer.
    pub indexes: Vec<(String, String)>,
    /// Hand every object over again after each such period.
    pub resync: Option<Duration>,
}

/// An informer, and what is left to evaluate of a selector.
struct Served {
    informer: Arc<SharedInformer>,
    rest: FilterSpec,
}

/// Why a subscription cannot be served.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub enum SubscribeError {
    /// Everything that is wrong with its pointers and selectors.
    #[error("{}", .0.iter().map(ToString::to_string).collect::<Vec<_>>().join("; "))]
    Filter(Vec<FilterError>),
    /// The factory starts nothing any more.
    #[error(transparent)]
    ShutDown(#[from] ShutDown),
}

impl From<Vec<FilterError>> for SubscribeError {
    fn from(errors: Vec<FilterError>) -> Self {
        Self::Filter(errors)
    }
}

impl Factory {
    /// Joins the informers that a subscription needs, starting those that nobody uses yet. A selector that an
    /// informer in use includes, healthy and with its list in the cache, is served from there: that saves a watch.
    ///
    /// # Errors
    /// [`SubscribeError`], with everything that is wrong with the subscription's pointers and selectors.
    pub fn subscribe(&self, spec: &SubscriptionSpec) -> Result<Vec<Subscription>, SubscribeError> {
        self.subscribe_again(spec, &[])
    }

    /// As [`Factory::subscribe`], for a listener that has these registrations: a subscription of the same name that asks
    /// for the same objects stays with the informers that serve it, though others might by now, so that a swap keeps it.
    /// (But not with a wider one that the API server does not let it list any more.)
    ///
    /// # Errors
    /// As [`Factory::subscribe`].
    pub fn subscribe_again(
        &self,
        spec: &SubscriptionSpec,
        before: &[Registration],
    ) -> Result<Vec<Subscription>, SubscribeError> {
        let reach = Arc::new(spec.reach());
        let served = match served_before(&spec.name, &reach, before) {
            Some(served) => served,
            None => self.serve(spec)?,
        };
        let mut subscriptions: Vec<Subscription> = Vec::new();
        for Served { informer, rest } in served {
            let filter = FilterSpec {
                conditions: spec.filter.conditions.clone(),
                changed: spec.filter.changed.clone(),
                fields: spec.filter.fields.clone(),
                ..rest
            };
            let view = ViewSpec { filter, namespace_selector: spec.namespace_selector.clone() };
            subscriptions.push(Subscription {
                name: spec.name.clone(),
                number: spec.number,
                reach: reach.clone(),
                view: informer.view(view, || self.namespaces(&spec.namespace_selector))?,
                indexes: informer.indexes(&spec.indexes)?,
                informer,
                resync: spec.resync,
            });
        }
        Ok(subscriptions)
    }

    /// The informer of the namespaces with certain labels.
    fn namespaces(&self, label_selector: &str) -> Result<Arc<SharedInformer>, ShutDown> {
        self.informer(&Selector::new("v1", "Namespace").with_labels(label_selector))
    }

    fn serve(&self, spec: &SubscriptionSpec) -> Result<Vec<Served>, ShutDown> {
        let everywhere = Selector { namespace: String::new(), ..spec.selector.clone() };
        if spec.namespaces.is_empty() {
            return Ok(vec![self.serve_selector(&everywhere)?]);
        }
        let mut all: Vec<Served> = Vec::new();
        for namespace in &spec.namespaces {
            let served = self.serve_selector(&everywhere.clone().in_namespace(namespace))?;
            // Several namespaces out of one wider informer are one view of it.
            match all.iter_mut().find(|one| Arc::ptr_eq(&one.informer, &served.informer)) {
                Some(one) => one.rest.namespaces.extend(served.rest.namespaces),
                None => all.push(served),
            }
        }
        Ok(all)
    }

    fn serve_selector(&self, selector: &Selector) -> Result<Served, ShutDown> {
        let running = self.informers();
        let is_own = running.iter().any(|informer| informer.selector() == selector);
        let wider =
            running.into_iter().filter(|informer| !is_own && informer.is_healthy()).find_map(|informer| {
                let rest = informer.selector().rest_of(selector)?;
                Filter::compile(rest.clone()).is_ok().then_some(Served { informer, rest })
            });
        match wider {
            Some(wider) => Ok(wider),
            None => Ok(Served { informer: self.informer(selector)?, rest: FilterSpec::default() }),
        }
    }
}

impl SubscriptionSpec {
    fn reach(&self) -> Reach {
        Reach {
            selector: Selector { namespace: String::new(), ..self.selector.clone() },
            namespaces: self.namespaces.iter().cloned().collect(),
            namespace_selector: self.namespace_selector.clone(),
            conditions: self.filter.conditions.clone(),
        }
    }
}

/// What serves the subscription of this name already, if it asks for these objects.
fn served_before(name: &str, reach: &Reach, before: &[Registration]) -> Option<Vec<Served>> {
    let same: Vec<_> = before.iter().filter(|one| one.name == name && *one.reach == *reach).collect();
    let stays = |one: &&Registration| one.is_its_own() || !one.informer.is_excused();
    let served =
        |one: &Registration| Served { informer: one.informer.clone(), rest: one.view.spec().filter.clone() };
    (!same.is_empty() && same.iter().all(stays)).then(|| same.into_iter().map(served).collect())
}

impl Selector {
    /// What is left to evaluate of `narrower` on the objects of this selector; none if they are not all there.
    fn rest_of(&self, narrower: &Self) -> Option<FilterSpec> {
        let left = |wide: &str, narrow: &str| match wide {
            _ if wide == narrow => Some(String::new()),
            "" => Some(narrow.to_owned()),
            _ => None,
        };
        if (&self.api_version, &self.kind) != (&narrower.api_version, &narrower.kind) {
            return None;
        }
        let namespace = left(&self.namespace, &narrower.namespace)?;
        Some(FilterSpec {
            label_selector: left(&self.label_selector, &narrower.label_selector)?,
            field_selector: left(&self.field_selector, &narrower.field_selector)?,
            namespaces: Some(namespace).filter(|name| !name.is_empty()).into_iter().collect(),
            ..FilterSpec::default()
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_left_of_a_selector_is_what_the_wider_one_does_not_say() {
        let pods = Selector::new("v1", "Pod");
        let narrow = pods.clone().in_namespace("n").with_labels("a=b").with_fields("metadata.name=x");
        let rest = |namespaces: &[&str], labels: &str, fields: &str| {
            Some(FilterSpec {
                namespaces: namespaces.iter().map(ToString::to_string).collect(),
                label_selector: labels.into(),
                field_selector: fields.into(),
                ..FilterSpec::default()
            })
        };
        assert_eq!(pods.rest_of(&pods), rest(&[], "", ""));
        assert_eq!(pods.rest_of(&narrow), rest(&["n"], "a=b", "metadata.name=x"));
        assert_eq!(pods.clone().in_namespace("n").rest_of(&narrow), rest(&[], "a=b", "metadata.name=x"));
        assert_eq!(pods.clone().with_labels("a=b").rest_of(&narrow), rest(&["n"], "", "metadata.name=x"));
        for other in [
            narrow.clone(),
            pods.clone().in_namespace("m"),
            pods.clone().with_labels("a"),
            Selector::new("v1", "Node"),
        ] {
            assert_eq!(other.rest_of(&pods.clone().in_namespace("n")), None, "{other}");
        }
    }
}
