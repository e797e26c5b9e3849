//! Reads a list's body while it arrives: each item becomes an object as soon as its last byte is there.
//!
//! Used by [`ListWatch`](super::ListWatch). A list at resourceVersion "0" ignores `limit`, so its body can be
//! hundreds of megabytes; what is kept of it is one item and the little that is not items. Invariants: memory
//! beyond the objects themselves is bounded by the two limits below; the result does not depend on where the
//! chunks end, nor on whether `metadata` comes before or after `items` (custom resources put it after).

use std::sync::Arc;

use super::ListPage;
use super::decode::{Decoder, ListHead, undecodable_list};
use crate::frame::DEFAULT_MAX_LINE;
use crate::object::{Object, TypeMeta};
use crate::status::ApiError;

/// Most that a list may say outside of its items.
const MAX_OUTER: usize = 1024 * 1024;

/// See the file's head.
pub(super) struct PageReader<'a> {
    decoder: &'a Decoder,
    at: At,
    nesting: Nesting,
    /// The text without the items: a list with an empty `items`.
    outer: Vec<u8>,
    /// Where in `outer` the last string of the top level begins.
    last_string: usize,
    /// The value to come is that of the top level's `items`.
    at_items_value: bool,
    /// The beginning of an item whose end has not come yet.
    item: Vec<u8>,
    item_type: Option<TypeMeta>,
    items: Vec<Arc<Object>>,
}

/// Which part of the text comes next.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum At {
    /// Outside of the items.
    Outer,
    /// Before an item; `first` until there was one.
    Gap { first: bool, comma: bool },
    /// Within an item.
    Item,
}

/// How deep in brackets, and whether in a string: all that is needed to see where a JSON value ends.
#[derive(Debug, Clone, Copy, Default)]
struct Nesting {
    depth: usize,
    in_string: bool,
    escaped: bool,
}

impl Nesting {
    /// Takes in one byte.
    fn see(&mut self, byte: u8) {
        if self.in_string {
            self.in_string = self.escaped || byte != b'"';
            self.escaped = !self.escaped && byte == b'\\';
            return;
        }
        match byte {
            b'"' => self.in_string = true,
            b'{' | b'[' => self.depth += 1,
            b'}' | b']' => self.depth = self.depth.saturating_sub(1),
            _ => {}
        }
    }

    /// How many of `bytes` belong to the value that has begun, and whether it ends with them.
    fn see_value(&mut self, bytes: &[u8]) -> (usize, bool) {
        let mut seen = 0;
        while let Some(&byte) = bytes.get(seen) {
            if self.in_string && !self.escaped {
                // The long way through a string, with nothing to look at but its end.
                let rest = bytes.get(seen..).unwrap_or_default();
                let plain = rest.iter().position(|byte| matches!(byte, b'"' | b'\\')).unwrap_or(rest.len());
                if plain > 0 {
                    seen += plain;
                    continue;
                }
            }
            self.see(byte);
            seen += 1;
            if self.depth == 0 && !self.in_string {
                return (seen, true);
            }
        }
        (seen, false)
    }
}

impl<'a> PageReader<'a> {
    pub(super) fn new(decoder: &'a Decoder) -> Self {
        Self {
            decoder,
            at: At::Outer,
            nesting: Nesting::default(),
            outer: Vec::new(),
            last_string: 0,
            at_items_value: false,
            item: Vec::new(),
            item_type: None,
            items: Vec::new(),
        }
    }

    /// Takes in the next bytes of the body.
    ///
    /// # Errors
    /// An item does not decode, or this is no list.
    pub(super) fn push(&mut self, mut bytes: &[u8]) -> Result<(), ApiError> {
        while !bytes.is_empty() {
            let used = match self.at {
                At::Outer => self.push_outer(bytes)?,
                At::Gap { first, comma } => self.push_gap(bytes, first, comma)?,
                At::Item => self.push_item(bytes)?,
            };
            bytes = bytes.get(used..).unwrap_or_default();
        }
        Ok(())
    }

    fn push_outer(&mut self, bytes: &[u8]) -> Result<usize, ApiError> {
        for (index, &byte) in bytes.iter().enumerate() {
            let before = self.nesting;
            self.nesting.see(byte);
            let at_top = before.depth == 1 && !before.in_string;
            if at_top {
                match byte {
                    b'"' => self.last_string = self.outer.len(),
                    b':' => self.at_items_value = self.last_member_is_items(),
                    _ => {}
                }
            }
            self.outer.push(byte);
            if at_top && byte == b'[' && self.at_items_value {
                self.at = At::Gap { first: true, comma: false };
                return Ok(index + 1);
            }
        }
        if self.outer.len() > MAX_OUTER {
            return Err(undecodable_list("it is no list, or one with too much besides its items"));
        }
        Ok(bytes.len())
    }

    fn last_member_is_items(&self) -> bool {
        self.outer.get(self.last_string..).is_some_and(|text| text.trim_ascii_end() == b"\"items\"")
    }

    fn push_gap(&mut self, bytes: &[u8], first: bool, mut comma: bool) -> Result<usize, ApiError> {
        for (index, &byte) in bytes.iter().enumerate() {
            match byte {
                b' ' | b'\t' | b'\r' | b'\n' => {}
                b',' if !first && !comma => comma = true,
                b']' if !comma => {
                    self.nesting = Nesting { depth: 1, ..Nesting::default() };
                    self.at_items_value = false;
                    self.outer.push(b']');
                    self.at = At::Outer;
                    return Ok(index + 1);
                }
                b'{' if first || comma => {
                    self.nesting = Nesting::default();
                    self.at = At::Item;
                    return Ok(index);
                }
                _ => return Err(undecodable_list(&format!("item {}: it is no object", self.items.len()))),
            }
        }
        self.at = At::Gap { first, comma };
        Ok(bytes.len())
    }

    fn push_item(&mut self, bytes: &[u8]) -> Result<usize, ApiError> {
        let (seen, is_whole) = self.nesting.see_value(bytes);
        let piece = bytes.get(..seen).unwrap_or_default();
        if self.item.len() + piece.len() > DEFAULT_MAX_LINE {
            return Err(undecodable_list(&format!("item {}: it is too long", self.items.len())));
        }
        if !is_whole {
            self.item.extend_from_slice(piece);
            return Ok(seen);
        }
        if self.item.is_empty() {
            self.take_item(piece)?;
        } else {
            let mut item = std::mem::take(&mut self.item);
            item.extend_from_slice(piece);
            self.take_item(&item)?;
            item.clear();
            self.item = item;
        }
        self.at = At::Gap { first: false, comma: false };
        Ok(seen)
    }

    fn take_item(&mut self, text: &[u8]) -> Result<(), ApiError> {
        let item_type = match self.item_type.take() {
            Some(known) => known,
            None => self.decoder.item_type(&self.outer),
        };
        let object = self.decoder.item(self.items.len(), text, &item_type)?;
        self.item_type = Some(item_type);
        self.items.push(object);
        Ok(())
    }

    /// The page, the whole body having been pushed.
    ///
    /// # Errors
    /// The body was no list, or not all of one.
    pub(super) fn finish(self) -> Result<ListPage, ApiError> {
        if self.at != At::Outer {
            return Err(undecodable_list(&format!("it ends after {} items", self.items.len())));
        }
        let head = ListHead::read(&self.outer)?;
        Ok(ListPage {
            items: self.items,
            resource_version: head.resource_version,
            continue_token: head.continue_token,
        })
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::{Value, json};

    use super::*;
    use crate::object::Ingest;
    use crate::resource::Resource;

    fn decoder_of(group: &str, kind: &str) -> Decoder {
        let resource = Resource {
            group: group.into(),
            version: "v1".into(),
            plural: "things".into(),
            kind: kind.into(),
            namespaced: true,
        };
        Decoder::new(&resource, Ingest::default())
    }

    fn page_of(decoder: &Decoder, chunks: &[&[u8]]) -> Result<ListPage, ApiError> {
        let mut reader = PageReader::new(decoder);
        for chunk in chunks {
            reader.push(chunk)?;
        }
        reader.finish()
    }

    fn page(body: &str) -> Result<ListPage, ApiError> {
        page_of(&decoder_of("", "ConfigMap"), &[body.as_bytes()])
    }

    fn problem(body: &str) -> String {
        page(body).expect_err("no list").to_string()
    }

    #[test]
    fn items_of_a_built_in_list_get_their_type_from_the_list() {
        let body = r#"{"kind":"ConfigMapList","apiVersion":"v1","metadata":{"resourceVersion":"228","continue":"abc","remainingItemCount":3},"items":[{"metadata":{"name":"cm-0","namespace":"wire"},"data":{"n":"0"}}]}"#;
        let page = page(body).expect("a page");
        assert_eq!((page.resource_version.as_str(), page.continue_token.as_str()), ("228", "abc"));
        let want = r#"{"kind":"ConfigMap","apiVersion":"v1","metadata":{"name":"cm-0","namespace":"wire"},"data":{"n":"0"}}"#;
        assert_eq!(page.items.first().map(|object| object.json()), Some(want));
    }

    #[test]
    fn a_custom_resource_list_has_its_metadata_last_and_an_odd_kind() {
        let body = r#"{"apiVersion":"x.io/v1","items":[{"apiVersion":"x.io/v1","kind":"Gadget","metadata":{"name":"g"}},{"metadata":{"name":"h"}}],"kind":"GadgetCollection","metadata":{"continue":"","resourceVersion":"9"}}"#;
        let page = page_of(&decoder_of("x.io", "Gadget"), &[body.as_bytes()]).expect("a page");
        assert_eq!((page.resource_version.as_str(), page.continue_token.as_str()), ("9", ""));
        let texts: Vec<&str> = page.items.iter().map(|object| object.json()).collect();
        let want = [
            r#"{"apiVersion":"x.io/v1","kind":"Gadget","metadata":{"name":"g"}}"#,
            r#"{"kind":"Gadget","apiVersion":"x.io/v1","metadata":{"name":"h"}}"#,
        ];
        assert_eq!(texts, want);
    }

    #[test]
    fn no_items_is_an_empty_list_only_if_the_server_says_so() {
        for items in ["[]", "[ \n ]", "null"] {
            let body =
                format!(r#"{{"kind":"ConfigMapList","metadata":{{"resourceVersion":"1"}},"items":{items}}}"#);
            let page = page(&body).expect("a page");
            assert_eq!((page.items.len(), page.resource_version.as_str()), (0, "1"), "{items}");
        }
        let table = r#"{"kind":"Table","apiVersion":"meta.k8s.io/v1","metadata":{},"rows":[]}"#;
        assert!(problem(table).contains("no list, but Table"), "R-LIST-8, TestIsUnsupportedTableObject");
        let hidden =
            r#"{"kind":"Table","rows":{"items":[{"metadata":{"name":"a"}}]},"x":"items","y":["items"]}"#;
        assert!(problem(hidden).contains("no list, but Table"), "only the top level's items are items");
        for bad in ["{}", "", "[]", "7", "<html>", "{\"items\":{}}", "{\"items\":\"[]\"}"] {
            assert!(page(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn half_a_list_is_none() {
        let body = r#"{"kind":"ConfigMapList","metadata":{"resourceVersion":"1"},"items":[{"metadata":{"name":"a"}}]}"#;
        assert!(page(body).is_ok());
        for end in 0..body.len() {
            assert!(page(&body[..end]).is_err(), "design 4.6: {}", &body[..end]);
        }
        assert!(page(&format!("{body}}}")).is_err() && page(&format!("{body} \n")).is_ok());
    }

    #[test]
    fn one_bad_item_fails_the_list_and_is_named() {
        let bad = r#"{"kind":"ConfigMapList","items":[{"metadata":{"name":"a"}},{"metadata":{"name":"b","namespace":"n","uid":7}}]}"#;
        assert!(problem(bad).contains("item 1 (n/b): object does not decode"), "{}", problem(bad));
        let nameless = r#"{"kind":"ConfigMapList","items":[{"metadata":{}}]}"#;
        assert!(problem(nameless).contains("item 0: object has no metadata.name"));
        let object = r#"{"metadata":{"name":"a"}}"#;
        let commas = ["O,", ",O", "O,,O", "OO"].map(|items| items.replace('O', object));
        for items in
            ["7", "null", "\"a\"", "[]", ",", "{]"].into_iter().chain(commas.iter().map(String::as_str))
        {
            let body = format!(r#"{{"kind":"ConfigMapList","items":[{items}]}}"#);
            assert!(page(&body).is_err(), "{body}");
        }
        let decoder = decoder_of("", "ConfigMap");
        let latin1: &[u8] = b"{\"items\":[{\"metadata\":{\"name\":\"a\"},\"x\":\"\xe9\"}]}";
        assert!(page_of(&decoder, &[latin1]).is_err());
    }

    #[test]
    fn what_is_too_long_is_refused_while_it_comes() {
        let decoder = decoder_of("", "ConfigMap");
        for beginning in ["{\"rows\":[", "{\"items\":[{\"x\":\""] {
            let mut reader = PageReader::new(&decoder);
            reader.push(beginning.as_bytes()).expect("so far so good");
            let chunk = [b'1'; 64 * 1024];
            let refused = (0..1000).find(|_| reader.push(&chunk).is_err());
            assert!(refused.is_some_and(|chunks| chunks * chunk.len() <= DEFAULT_MAX_LINE), "{beginning}");
        }
    }

    /// JSON with the characters that matter to a scanner, in names, strings and nesting.
    fn json_value() -> impl Strategy<Value = Value> {
        let text = "[a-z\"\\\\{}\\[\\],:é😀 \n]{0,8}";
        let leaf =
            prop_oneof![text.prop_map(Value::from), any::<i32>().prop_map(Value::from), Just(Value::Null)];
        leaf.prop_recursive(3, 24, 4, move |inner| {
            prop_oneof![
                prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
                prop::collection::hash_map(text, inner, 0..4).prop_map(|map| json!(map)),
            ]
        })
    }

    proptest! {
        #[test]
        fn a_list_reads_the_same_however_it_is_cut(
            values in prop::collection::vec(json_value(), 0..6),
            noise in json_value(),
            metadata_last in any::<bool>(),
            pretty in any::<bool>(),
            cuts in prop::collection::vec(any::<prop::sample::Index>(), 0..12),
        ) {
            let items: Vec<Value> = values
                .iter()
                .enumerate()
                .map(|(index, value)| json!({"kind": "ConfigMap", "apiVersion": "v1", "data": value, "metadata": {"name": format!("o{index}")}}))
                .collect();
            let show = |value: &Value| {
                if pretty { serde_json::to_string_pretty(value) } else { serde_json::to_string(value) }.expect("JSON")
            };
            let head = format!(r#""noise":{},"metadata":{{"resourceVersion":"7","continue":"c"}}"#, show(&noise));
            let items_text = format!(r#""items":{}"#, show(&json!(items)));
            let body = if metadata_last { format!("{{{items_text},{head}}}") } else { format!("{{{head},{items_text}}}") };
            let mut ends: Vec<usize> = cuts.iter().map(|cut| cut.index(body.len() + 1)).collect();
            ends.push(body.len());
            ends.sort_unstable();
            let mut from = 0;
            let mut chunks = Vec::new();
            for end in ends {
                chunks.push(&body.as_bytes()[from..end]);
                from = end;
            }
            let page = page_of(&decoder_of("", "ConfigMap"), &chunks).expect("a page");
            prop_assert_eq!((page.resource_version.as_str(), page.continue_token.as_str()), ("7", "c"));
            let got: Vec<Value> =
                page.items.iter().map(|object| serde_json::from_str(object.json()).expect("JSON")).collect();
            prop_assert_eq!(got, items);
        }
    }
}
