//! The host's copy of the objects of this plugin's own subscriptions, typed. Used by plugin authors.
//! Invariant: at least as new as the event being handled, and read-only: only list and watch write it.

use std::collections::VecDeque;
use std::fmt;

use serde::de::DeserializeOwned;

use crate::host;

/// How many objects one call to the host asks for; the host cuts a page earlier at 4 MiB.
const PAGE: u32 = 500;

/// One object, or none. `namespace` is empty for a cluster-scoped kind.
pub fn get<T: DeserializeOwned>(subscription: u32, namespace: &str, name: &str) -> Result<Option<T>, Error> {
    let object = host::cache_get(subscription, namespace, name)?;
    object.map(|json| serde_json::from_str(&json).map_err(Error::Decode)).transpose()
}

/// All objects of one namespace, or of all if `namespace` is empty, ordered by namespace and name.
pub fn list<T: DeserializeOwned>(subscription: u32, namespace: &str) -> Result<Vec<T>, Error> {
    objects(subscription, namespace).collect()
}

/// The same, one by one: at most a page of objects is held as text at a time. Each page is one consistent
/// state of the cache; the next one is read from the state of its own moment.
pub fn objects<T: DeserializeOwned>(subscription: u32, namespace: &str) -> Objects<'_, T> {
    Objects {
        subscription,
        namespace,
        page: VecDeque::new(),
        after: Some(String::new()),
        decoded: std::marker::PhantomData,
    }
}

/// Iterator over cached objects; see [`objects`]. Ends after the first error of the host.
#[derive(Debug)]
pub struct Objects<'a, T> {
    subscription: u32,
    namespace: &'a str,
    page: VecDeque<String>,
    /// Where the next page begins; none once the last one is here.
    after: Option<String>,
    decoded: std::marker::PhantomData<fn() -> T>,
}

impl<T: DeserializeOwned> Iterator for Objects<'_, T> {
    type Item = Result<T, Error>;

    fn next(&mut self) -> Option<Self::Item> {
        while self.page.is_empty() {
            let after = self.after.take()?;
            match host::cache_page(self.subscription, self.namespace, &after, PAGE) {
                Ok((objects, next)) => {
                    self.page = objects.into();
                    self.after = Some(next).filter(|token| !token.is_empty());
                }
                Err(error) => return Some(Err(error)),
            }
        }
        let json = self.page.pop_front()?;
        Some(serde_json::from_str(&json).map_err(Error::Decode))
    }
}

/// Why the cache has no answer.
#[derive(Debug)]
#[non_exhaustive]
pub enum Error {
    /// The subscription's first list is not in the cache yet.
    NotSynced,
    /// The plugin has no subscription of this number.
    UnknownSubscription,
    /// The question itself is wrong.
    Invalid,
    /// A problem newer than this SDK.
    Other,
    /// The object is there, and is not what the type wants.
    Decode(serde_json::Error),
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NotSynced => f.write_str("cache: the first list is not here yet"),
            Self::UnknownSubscription => f.write_str("cache: no such subscription"),
            Self::Invalid => f.write_str("cache: invalid question"),
            Self::Other => f.write_str("cache: unknown problem"),
            Self::Decode(error) => write!(f, "cache: cannot decode the object: {error}"),
        }
    }
}

impl std::error::Error for Error {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::Decode(error) => Some(error),
            _ => None,
        }
    }
}
