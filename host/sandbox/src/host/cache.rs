//! `cache`: the plugin's own objects, read through the informer's `CacheReader`.
//!
//! Invariant: a page is one answer of the reader, so it is one consistent state; it has at most `limits.page` of
//! text and [`PAGE_ENTRIES`] entries, and is cut out of at most [`PAGE_SOURCE`] bytes of objects, whatever the
//! guest asks for. The reader keeps to the number of entries; the bytes are counted here, and nowhere else.

use std::sync::Arc;

use hark_informer::cache::{CachePage, CacheProblem, CacheReader, ValuePage};
use hark_informer::filter::Fields;
use hark_informer::object::ObjectKey;

use super::token::{self, NoToken};
use crate::bindings::hark::plugin::cache::{Host, Page, Problem, ValuePage as Values};
use crate::cap::Cap;
use crate::state::GuestState;

/// Bytes of the objects that a page with `fields` is cut out of, unless the first alone is larger: about 10 ms of
/// work, the time between two breaks of a guest.
const PAGE_SOURCE: usize = 16 << 20;
/// Entries of one page: more than fit the usual 4 MiB in practice (the smallest objects have about 300 bytes).
const PAGE_ENTRIES: usize = 10_000;

impl Host for GuestState {
    fn get(
        &mut self,
        subscription: u32,
        namespace: String,
        name: String,
        fields: Vec<String>,
    ) -> Result<Option<String>, Problem> {
        let object = self.reader()?.get(subscription, &ObjectKey::new(&namespace, &name))?;
        let fields = self.fields(fields)?;
        Ok(object.map(|object| fields.project(&object).into_owned()))
    }

    fn list_objects(
        &mut self,
        subscription: u32,
        namespace: String,
        fields: Vec<String>,
        after: String,
        limit: u32,
    ) -> Result<Page, Problem> {
        let limit = entries(limit)?;
        let fields = self.fields(fields)?;
        let after = token::key(&after, &namespace)?;
        let found = self.reader()?.list(subscription, &namespace, after.as_ref(), limit)?;
        Ok(self.page(found, &fields))
    }

    fn by_index(
        &mut self,
        subscription: u32,
        index: String,
        value: String,
        fields: Vec<String>,
        after: String,
        limit: u32,
    ) -> Result<Page, Problem> {
        let limit = entries(limit)?;
        let fields = self.fields(fields)?;
        let after = token::key(&after, "")?;
        let found = self.reader()?.by_index(subscription, &index, &value, after.as_ref(), limit)?;
        Ok(self.page(found, &fields))
    }

    fn index_values(
        &mut self,
        subscription: u32,
        index: String,
        after: String,
        limit: u32,
    ) -> Result<Values, Problem> {
        let limit = entries(limit)?;
        let after = token::value(&after)?;
        let found = self.reader()?.index_values(subscription, &index, after, limit)?;
        Ok(self.values(found))
    }
}

impl GuestState {
    fn reader(&self) -> Result<&dyn CacheReader, Problem> {
        self.cache.as_deref().ok_or(Problem::NotSynced)
    }

    fn fields(&mut self, pointers: Vec<String>) -> Result<Arc<Fields>, Problem> {
        self.fields.compile(pointers).ok_or(Problem::Invalid)
    }

    fn page(&self, found: CachePage, fields: &Fields) -> Page {
        let (page, full) = page(found, fields, self.page_bytes);
        self.count(full);
        page
    }

    fn values(&self, found: ValuePage) -> Values {
        let (values, full) = values(found, self.page_bytes);
        self.count(full);
        values
    }

    fn count(&self, full: bool) {
        if full {
            self.usage.hit(Cap::Page);
        }
    }
}

/// How many entries a guest may be given that asks for so many.
fn entries(limit: u32) -> Result<usize, Problem> {
    let limit = usize::try_from(limit).unwrap_or(PAGE_ENTRIES).min(PAGE_ENTRIES);
    if limit == 0 { Err(Problem::Invalid) } else { Ok(limit) }
}

/// Cuts the fields out of a page, and ends it earlier where it has `most` bytes of text: says whether that was so.
fn page(found: CachePage, fields: &Fields, most: usize) -> (Page, bool) {
    let CachePage { objects, next } = found;
    let mut texts: Vec<String> = Vec::new();
    let (mut size, mut source) = (0, 0);
    for (place, object) in objects.iter().enumerate() {
        let text = fields.project(object);
        size += text.len();
        source += object.json().len();
        let last = place.checked_sub(1).and_then(|last| objects.get(last));
        if let Some(last) = last
            && (size > most || source > PAGE_SOURCE)
        {
            return (Page { objects: texts, next: token::of_key(last.key()) }, size > most);
        }
        texts.push(text.into_owned());
    }
    (Page { objects: texts, next: next.as_ref().map(token::of_key).unwrap_or_default() }, false)
}

/// Ends a page of values earlier where it has `most` bytes: says whether that was so.
fn values(found: ValuePage, most: usize) -> (Values, bool) {
    let ValuePage { mut values, next } = found;
    let mut size = 0;
    let fits = values.iter().take_while(|value| {
        size += value.len();
        size <= most
    });
    let count = fits.count().max(1);
    let cut = values.get(count).is_some();
    values.truncate(count);
    let next = if cut { values.last().cloned() } else { next };
    (Values { values, next: next.as_deref().map(token::of_value).unwrap_or_default() }, cut)
}

impl From<CacheProblem> for Problem {
    fn from(problem: CacheProblem) -> Self {
        match problem {
            CacheProblem::NotSynced => Self::NotSynced,
            CacheProblem::UnknownSubscription => Self::UnknownSubscription,
            CacheProblem::UnknownIndex => Self::UnknownIndex,
        }
    }
}

impl From<NoToken> for Problem {
    fn from(_: NoToken) -> Self {
        Self::Invalid
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_page_of_values_is_bounded_but_has_one() {
        let long = |count: usize, size: usize| ValuePage {
            values: (0..count).map(|n| format!("{n:04}{}", "x".repeat(size - 4))).collect(),
            next: None,
        };
        let (kib, cut) = values(long(5000, 1024), 4 << 20);
        assert_eq!((kib.values.len(), kib.next, cut), (4096, format!("=4095{}", "x".repeat(1020)), true));
        let (huge, cut) = values(long(2, 100), 99);
        assert_eq!((huge.values.len(), huge.next.len(), cut), (1, 101, true));
        let (few, cut) = values(ValuePage { next: Some("b".into()), ..long(2, 4) }, 99);
        assert_eq!((few.next.as_str(), cut), ("=b", false));
        assert_eq!(few.values, ["0000", "0001"]);
        let (none, _) = values(ValuePage::default(), 99);
        assert_eq!((none.values.len(), none.next.as_str()), (0, ""));
    }
}
