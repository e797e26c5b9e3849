//! Lists: which revision is answered, which objects are in it, and where the next page begins.
//!
//! Used by the request handler and by deletions of collections. Invariant: the pages of one list are all of the
//! revision of its first page, or the client is told (410) that they cannot be.

use std::sync::Arc;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use bytes::{BufMut, Bytes, BytesMut};
use serde::{Deserialize, Serialize};

use crate::accept::Form;
use crate::object::{Stored, View, put_value};
use crate::options::Options;
use crate::selectors::Selectors;
use crate::status::ApiError;
use crate::store::{State, Store};
use crate::table;

/// One page.
#[derive(Debug)]
pub(crate) struct Page {
    pub(crate) revision: u64,
    pub(crate) items: Vec<Arc<Stored>>,
    continue_token: Option<String>,
    remaining: Option<usize>,
}

/// What a continue token holds.
#[derive(Debug, Serialize, Deserialize)]
struct Token {
    v: String,
    /// -1 continues at whatever revision there is.
    rv: i64,
    start: String,
}

impl Token {
    fn encode(revision: i64, start: &str) -> String {
        let token = Token { v: "meta.k8s.io/v1".into(), rv: revision, start: start.into() };
        URL_SAFE_NO_PAD.encode(serde_json::to_string(&token).unwrap_or_default())
    }

    fn decode(text: &str) -> Result<Self, ApiError> {
        let bad = |why: String| {
            ApiError::BadRequest(format!("invalid continue token: continue key is not valid: {why}"))
        };
        let bytes = URL_SAFE_NO_PAD.decode(text.trim_end_matches('=')).map_err(|e| bad(e.to_string()))?;
        let token: Token = serde_json::from_slice(&bytes).map_err(|e| bad(e.to_string()))?;
        if token.v != "meta.k8s.io/v1" || token.rv == 0 || token.start.is_empty() {
            return Err(bad(format!("incorrect encoded start resourceVersion (version {})", token.v)));
        }
        Ok(token)
    }
}

/// Where a list reads.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum At {
    Now,
    Exactly(u64),
}

/// A list as it was asked for.
#[derive(Debug)]
pub(crate) struct Request<'a> {
    pub(crate) view: &'a View,
    pub(crate) namespace: &'a str,
    pub(crate) selectors: &'a Selectors,
    pub(crate) options: &'a Options,
}

impl Request<'_> {
    /// Waits for the revision asked for, then reads one page.
    pub(crate) async fn read(&self, store: &Store) -> Result<Page, ApiError> {
        self.options.check_list()?;
        let wanted = self.options.version()?;
        if wanted > store.revision() {
            store.reach(wanted).await?;
        }
        let mut state = store.lock();
        if self.options.continue_token.is_empty() {
            let at = self.at(wanted);
            return self.page(&mut state, at, "");
        }
        let token = Token::decode(&self.options.continue_token)?;
        let start = token.start.trim_start_matches('/');
        let at = u64::try_from(token.rv).map_or(At::Now, At::Exactly);
        self.page(&mut state, at, start).map_err(|error| match error {
            ApiError::Expired { .. } => expired_continue(start),
            other => other,
        })
    }

    fn at(&self, wanted: u64) -> At {
        let exact = match self.options.version_match.as_str() {
            "Exact" => true,
            "NotOlderThan" => false,
            _ => self.options.limit > 0,
        };
        if exact && wanted > 0 { At::Exactly(wanted) } else { At::Now }
    }

    /// How many objects a page holds; version 0 has never honoured a limit.
    fn limit(&self) -> usize {
        match (self.options.limit, self.options.resource_version.as_str()) {
            (0, _) | (_, "0") => usize::MAX,
            (limit, _) => limit,
        }
    }

    fn page(&self, state: &mut State, at: At, after: &str) -> Result<Page, ApiError> {
        let prefix = self.prefix();
        let start = format!("{prefix}{after}");
        let now = state.revision();
        let collection = state.collection(&self.view.resource.collection);
        match at {
            At::Now => Ok(self.cut(now, collection.range(&prefix, &start), prefix.len())),
            At::Exactly(revision) => {
                let then = collection.range_at(&prefix, &start, revision).map_err(|_| ApiError::Expired {
                    message: "The resourceVersion for the provided list is too old.".into(),
                    continue_token: None,
                })?;
                Ok(self.cut(revision, then.iter().map(|(k, o)| (k.as_str(), o)), prefix.len()))
            }
        }
    }

    fn prefix(&self) -> String {
        if self.namespace.is_empty() { String::new() } else { format!("{}/", self.namespace) }
    }

    /// Takes what the selectors let through until the page is full.
    fn cut<'a>(
        &self,
        revision: u64,
        objects: impl Iterator<Item = (&'a str, &'a Arc<Stored>)>,
        prefix: usize,
    ) -> Page {
        let limit = self.limit();
        let mut page = Page { revision, items: Vec::new(), continue_token: None, remaining: None };
        let mut last = "";
        let mut objects = objects.peekable();
        while page.items.len() < limit {
            let Some((key, object)) = objects.next() else { return page };
            last = &key[prefix..];
            if self.selects(object) {
                page.items.push(Arc::clone(object));
            }
        }
        if objects.peek().is_some() {
            let revision = i64::try_from(revision).unwrap_or(i64::MAX);
            page.continue_token = Some(Token::encode(revision, &format!("/{last}\0")));
            page.remaining = self.selectors.is_empty().then(|| objects.count());
        }
        page
    }

    fn selects(&self, object: &Stored) -> bool {
        !self.selectors.rules_out_namespace(&object.value) && self.selectors.matches(&object.value)
    }
}

fn expired_continue(start: &str) -> ApiError {
    ApiError::Expired {
        message: "The provided continue parameter is too old to display a consistent list result. You can start a new list without the continue parameter, or use the continue token in this response to retrieve the remainder of the results. Continuing with the provided token results in an inconsistent list - objects that were created, modified, or deleted between the time the first chunk was returned and now may show up in the list.".into(),
        continue_token: Some(Token::encode(-1, start)),
    }
}

impl Page {
    /// The answer's body.
    pub(crate) fn encode(&self, view: &View, form: Form, include_object: &str) -> Bytes {
        let mut out = BytesMut::new();
        match form {
            Form::Table => table::put_list(&mut out, view, self, include_object),
            Form::Partial => self.put_partial(&mut out),
            Form::Plain if view.resource.custom => self.put_custom(&mut out, view),
            Form::Plain => self.put_typed(&mut out, view),
        }
        out.put_u8(b'\n');
        out.freeze()
    }

    /// `{"resourceVersion":…}`, in the order a typed server writes it.
    pub(crate) fn put_metadata(&self, out: &mut BytesMut) {
        out.extend_from_slice(format!("{{\"resourceVersion\":\"{}\"", self.revision).as_bytes());
        if let Some(token) = &self.continue_token {
            out.extend_from_slice(b",\"continue\":");
            put_value(out, token);
        }
        if let Some(remaining) = self.remaining {
            out.extend_from_slice(format!(",\"remainingItemCount\":{remaining}").as_bytes());
        }
        out.put_u8(b'}');
    }

    fn put_typed(&self, out: &mut BytesMut, view: &View) {
        out.extend_from_slice(b"{\"kind\":");
        put_value(out, &view.resource.list_kind);
        out.extend_from_slice(b",\"apiVersion\":");
        put_value(out, &view.api_version);
        out.extend_from_slice(b",\"metadata\":");
        self.put_metadata(out);
        out.extend_from_slice(b",\"items\":");
        self.put_items(out, |out, object| view.put_item(out, object));
        out.put_u8(b'}');
    }

    /// Custom resource lists are written by key: the metadata comes after the items.
    fn put_custom(&self, out: &mut BytesMut, view: &View) {
        out.extend_from_slice(b"{\"apiVersion\":");
        put_value(out, &view.api_version);
        out.extend_from_slice(b",\"items\":");
        self.put_items(out, |out, object| view.put_item(out, object));
        out.extend_from_slice(b",\"kind\":");
        put_value(out, &view.resource.list_kind);
        out.extend_from_slice(b",\"metadata\":{\"continue\":");
        put_value(out, self.continue_token.as_deref().unwrap_or_default());
        if let Some(remaining) = self.remaining {
            out.extend_from_slice(format!(",\"remainingItemCount\":{remaining}").as_bytes());
        }
        out.extend_from_slice(format!(",\"resourceVersion\":\"{}\"}}}}", self.revision).as_bytes());
    }

    fn put_partial(&self, out: &mut BytesMut) {
        out.extend_from_slice(
            b"{\"kind\":\"PartialObjectMetadataList\",\"apiVersion\":\"meta.k8s.io/v1\",\"metadata\":",
        );
        self.put_metadata(out);
        out.extend_from_slice(b",\"items\":");
        self.put_items(out, table::put_partial);
        out.put_u8(b'}');
    }

    fn put_items(&self, out: &mut BytesMut, mut put: impl FnMut(&mut BytesMut, &Stored)) {
        out.put_u8(b'[');
        for (i, object) in self.items.iter().enumerate() {
            if i > 0 {
                out.put_u8(b',');
            }
            put(out, object);
        }
        out.put_u8(b']');
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn continue_tokens_are_the_real_servers() {
        let token = Token::encode(228, "/cm-1\0");
        assert_eq!(token, "eyJ2IjoibWV0YS5rOHMuaW8vdjEiLCJydiI6MjI4LCJzdGFydCI6Ii9jbS0xXHUwMDAwIn0");
        let inconsistent = Token::encode(-1, "cm-1\0");
        assert_eq!(inconsistent, "eyJ2IjoibWV0YS5rOHMuaW8vdjEiLCJydiI6LTEsInN0YXJ0IjoiY20tMVx1MDAwMCJ9");
        assert!(Token::decode("garbage").is_err());
    }
}
