//! The host's copy of the objects of this plugin's own subscriptions, typed. Used by plugin authors.
//! Invariant: at least as new as the event being handled, and read-only: only list and watch write it.
//!
//! The functions here give whole objects; those of [`Fields`] give parts of them, which is cheaper for both
//! sides: `cache::fields(["/spec/nodeName"]).list(PODS, "default")`.

use std::collections::VecDeque;
use std::fmt;

use serde::de::DeserializeOwned;

use crate::host;

/// How many objects one call to the host asks for; the host cuts a page earlier at 4 MiB.
const PAGE: u32 = 500;
/// How many values of an index one call asks for.
const VALUES: u32 = 1000;
/// Every field.
static WHOLE: Fields = Fields(Vec::new());

/// One object, or none. `namespace` is empty for a cluster-scoped kind.
pub fn get<T: DeserializeOwned>(subscription: u32, namespace: &str, name: &str) -> Result<Option<T>, Error> {
    WHOLE.get(subscription, namespace, name)
}

/// All objects of one namespace, or of all if `namespace` is empty, ordered by namespace and name.
pub fn list<T: DeserializeOwned>(subscription: u32, namespace: &str) -> Result<Vec<T>, Error> {
    objects(subscription, namespace).collect()
}

/// The same, one by one: at most a page of objects is held as text at a time. Each page is one consistent
/// state of the cache; the next one is read from the state of its own moment.
pub fn objects<T: DeserializeOwned>(subscription: u32, namespace: &str) -> Objects<'_, T> {
    WHOLE.objects(subscription, namespace)
}

/// The objects that an index of the subscription files under `value`, one by one, as for [`objects`]. The index
/// is one that [`Subscription::index`](crate::Subscription::index) asked for.
pub fn by_index<'a, T: DeserializeOwned>(
    subscription: u32,
    index: &'a str,
    value: &'a str,
) -> Objects<'a, T> {
    WHOLE.by_index(subscription, index, value)
}

/// The values under which an index of the subscription files at least one object, ordered, each once.
pub fn index_values(subscription: u32, index: &str) -> Result<Vec<String>, Error> {
    let (mut values, mut after) = (Vec::new(), String::new());
    loop {
        let (page, next) = host::cache_values(subscription, index, &after, VALUES)?;
        values.extend(page);
        if next.is_empty() {
            return Ok(values);
        }
        after = next;
    }
}

/// Questions whose answers have only the values at these pointers, each at its place, whatever the
/// subscription's own [`fields`](crate::Subscription::fields) are.
pub fn fields<P: Into<String>>(pointers: impl IntoIterator<Item = P>) -> Fields {
    Fields(pointers.into_iter().map(Into::into).collect())
}

/// The pointers of [`fields`]; none: whole objects. May be kept: the same list in a row is prepared by the
/// host once.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Fields(Vec<String>);

impl Fields {
    /// As [`get`].
    pub fn get<T: DeserializeOwned>(
        &self,
        subscription: u32,
        namespace: &str,
        name: &str,
    ) -> Result<Option<T>, Error> {
        let object = host::cache_get(subscription, namespace, name, &self.0)?;
        object.map(|json| serde_json::from_str(&json).map_err(Error::Decode)).transpose()
    }

    /// As [`list`].
    pub fn list<T: DeserializeOwned>(&self, subscription: u32, namespace: &str) -> Result<Vec<T>, Error> {
        self.objects(subscription, namespace).collect()
    }

    /// As [`objects`].
    pub fn objects<'a, T: DeserializeOwned>(
        &'a self,
        subscription: u32,
        namespace: &'a str,
    ) -> Objects<'a, T> {
        Objects::new(subscription, Question::Namespace(namespace), &self.0)
    }

    /// As [`by_index`].
    pub fn by_index<'a, T: DeserializeOwned>(
        &'a self,
        subscription: u32,
        index: &'a str,
        value: &'a str,
    ) -> Objects<'a, T> {
        Objects::new(subscription, Question::Index { index, value }, &self.0)
    }
}

/// Iterator over cached objects; see [`objects`] and [`by_index`]. Ends after the first error of the host.
#[derive(Debug)]
pub struct Objects<'a, T> {
    subscription: u32,
    question: Question<'a>,
    fields: &'a [String],
    page: VecDeque<String>,
    /// Where the next page begins; none once the last one is here.
    after: Option<String>,
    decoded: std::marker::PhantomData<fn() -> T>,
}

/// Which objects.
#[derive(Debug, Clone, Copy)]
enum Question<'a> {
    Namespace(&'a str),
    Index { index: &'a str, value: &'a str },
}

impl<'a, T> Objects<'a, T> {
    fn new(subscription: u32, question: Question<'a>, fields: &'a [String]) -> Self {
        Self {
            subscription,
            question,
            fields,
            page: VecDeque::new(),
            after: Some(String::new()),
            decoded: std::marker::PhantomData,
        }
    }

    fn ask(&self, after: &str) -> Result<(Vec<String>, String), Error> {
        let Self { subscription, fields, .. } = *self;
        match self.question {
            Question::Namespace(namespace) => host::cache_page(subscription, namespace, fields, after, PAGE),
            Question::Index { index, value } => {
                host::cache_by_index(subscription, index, value, fields, after, PAGE)
            }
        }
    }
}

impl<T: DeserializeOwned> Iterator for Objects<'_, T> {
    type Item = Result<T, Error>;

    fn next(&mut self) -> Option<Self::Item> {
        // A page may be empty without being the last one.
        while self.page.is_empty() {
            let after = self.after.take()?;
            match self.ask(&after) {
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
    /// The subscription has no index of this name.
    UnknownIndex,
    /// The question itself is wrong, for instance a field that is not a pointer.
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
            Self::UnknownIndex => f.write_str("cache: no such index"),
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
