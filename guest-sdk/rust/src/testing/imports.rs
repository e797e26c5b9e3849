//! The fake host's half of [`host`](crate::host). Invariant: answers come from the state of the host whose
//! plugin runs on this thread, and from an empty one if none does.

use serde_json::Value;

use super::filter::pointers;
use super::pointer::{Pointer, project};
use super::{CURRENT, Line, State};
use crate::cache::Error;
use crate::log::Level;

pub(crate) fn log(level: Level, line: &str) {
    let line = Line { level, message: line.to_owned() };
    CURRENT.with_borrow_mut(|state| state.lines.push(line));
}

pub(crate) fn setting(key: &str) -> Option<String> {
    CURRENT.with_borrow(|state| {
        state.settings.get(key).map(|value| match value {
            Value::String(text) => text.clone(),
            other => other.to_string(),
        })
    })
}

pub(crate) fn settings() -> String {
    CURRENT.with_borrow(|state| Value::Object(state.settings.clone()).to_string())
}

pub(crate) fn sequence() -> u64 {
    CURRENT.with_borrow(|state| if state.aside { 0 } else { state.sequence })
}

pub(crate) fn attempt() -> u32 {
    CURRENT.with_borrow(|state| if state.aside { 0 } else { state.attempt })
}

pub(crate) fn arrived_ms() -> u64 {
    0
}

pub(crate) fn cache_get(
    subscription: u32,
    namespace: &str,
    name: &str,
    fields: &[String],
) -> Result<Option<String>, Error> {
    CURRENT.with_borrow(|state| {
        let fields = asked(state, subscription, fields)?;
        let object = state.cache.get(&(subscription, namespace.to_owned(), name.to_owned()));
        Ok(object.map(|object| project(object, &fields).to_string()))
    })
}

pub(crate) fn cache_page(
    subscription: u32,
    namespace: &str,
    fields: &[String],
    after: &str,
    limit: u32,
) -> Result<(Vec<String>, String), Error> {
    CURRENT.with_borrow(|state| {
        let fields = asked(state, subscription, fields)?;
        let wanted =
            objects(state, subscription).filter(|(space, _)| namespace.is_empty() || *space == namespace);
        page(wanted.map(|(_, object)| project(object, &fields).to_string()), after, limit)
    })
}

pub(crate) fn cache_by_index(
    subscription: u32,
    index: &str,
    value: &str,
    fields: &[String],
    after: &str,
    limit: u32,
) -> Result<(Vec<String>, String), Error> {
    CURRENT.with_borrow(|state| {
        let fields = asked(state, subscription, fields)?;
        let filed = filed(state, subscription, index)?;
        let wanted = filed.into_iter().filter(|(_, values)| values.iter().any(|one| one == value));
        page(wanted.map(|(object, _)| project(object, &fields).to_string()), after, limit)
    })
}

pub(crate) fn cache_values(
    subscription: u32,
    index: &str,
    after: &str,
    limit: u32,
) -> Result<(Vec<String>, String), Error> {
    CURRENT.with_borrow(|state| {
        asked(state, subscription, &[])?;
        let filed = filed(state, subscription, index)?;
        let mut values: Vec<String> = filed.into_iter().flat_map(|(_, values)| values).collect();
        values.sort();
        values.dedup();
        page(values.into_iter(), after, limit)
    })
}

/// The fields of a question to a subscription's cache, if it has one that is filled.
fn asked(state: &State, subscription: u32, fields: &[String]) -> Result<Vec<Pointer>, Error> {
    if state.cold || state.not_synced.contains(&subscription) {
        return Err(Error::NotSynced);
    }
    if state.filter(subscription).is_none() {
        return Err(Error::UnknownSubscription);
    }
    pointers(fields).map_err(|_| Error::Invalid)
}

/// A subscription's objects, each with its namespace, in order.
fn objects(state: &State, subscription: u32) -> impl Iterator<Item = (&str, &Value)> {
    let own = state.cache.iter().filter(move |((number, ..), _)| *number == subscription);
    own.map(|((_, namespace, _), object)| (namespace.as_str(), object))
}

/// A subscription's objects, each with the values under which an index files it.
fn filed<'a>(
    state: &'a State,
    subscription: u32,
    index: &str,
) -> Result<Vec<(&'a Value, Vec<String>)>, Error> {
    let filter =
        state.filter(subscription).filter(|filter| filter.has_index(index)).ok_or(Error::UnknownIndex)?;
    let values = |object| (object, filter.index(index, object).unwrap_or_default());
    Ok(objects(state, subscription).map(|(_, object)| values(object)).collect())
}

/// A part of an answer; its tokens count what came before.
fn page(all: impl Iterator<Item = String>, after: &str, limit: u32) -> Result<(Vec<String>, String), Error> {
    let skip: usize = if after.is_empty() { 0 } else { after.parse().map_err(|_| Error::Invalid)? };
    let limit = usize::try_from(limit).ok().filter(|limit| *limit > 0).ok_or(Error::Invalid)?;
    let mut rest = all.skip(skip).peekable();
    let texts = rest.by_ref().take(limit).collect();
    let next = rest.peek().map(|_| (skip + limit).to_string()).unwrap_or_default();
    Ok((texts, next))
}
