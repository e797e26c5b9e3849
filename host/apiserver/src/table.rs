//! Objects as `kubectl get` asks for them: as rows of a Table, or as their metadata only.
//!
//! Used by gets, lists and watches. Which columns a kind has is in `columns.rs` or in its definition.

use bytes::{BufMut, BytesMut};
use serde_json::{Value, json};

use crate::columns::{self, Column};
use crate::list::Page;
use crate::object::{Stored, View, put_metadata, put_value};

/// A PartialObjectMetadata.
pub(crate) fn put_partial(out: &mut BytesMut, object: &Stored) {
    out.extend_from_slice(
        b"{\"kind\":\"PartialObjectMetadata\",\"apiVersion\":\"meta.k8s.io/v1\",\"metadata\":",
    );
    match object.value.get("metadata").and_then(Value::as_object) {
        Some(meta) => put_metadata(out, meta),
        None => out.extend_from_slice(b"{}"),
    }
    out.put_u8(b'}');
}

/// A whole list as one Table.
pub(crate) fn put_list(out: &mut BytesMut, view: &View, page: &Page, include_object: &str) {
    put_head(out, |out| page.put_metadata(out));
    put_columns(out, columns_of(view));
    out.extend_from_slice(b",\"rows\":[");
    for (i, object) in page.items.iter().enumerate() {
        if i > 0 {
            out.put_u8(b',');
        }
        put_row(out, view, object, include_object);
    }
    out.extend_from_slice(b"]}");
}

/// One object as a Table of one row, with its columns or, on a watch after the first event, without.
pub(crate) fn put_one(out: &mut BytesMut, view: &View, object: &Stored, include: &str, head: bool) {
    put_head(out, |out| {
        out.extend_from_slice(
            format!("{{\"resourceVersion\":\"{}\"}}", object.meta("resourceVersion")).as_bytes(),
        );
    });
    if head {
        put_columns(out, columns_of(view));
    } else {
        out.extend_from_slice(b"null");
    }
    out.extend_from_slice(b",\"rows\":[");
    put_row(out, view, object, include);
    out.extend_from_slice(b"]}");
}

fn put_head(out: &mut BytesMut, metadata: impl FnOnce(&mut BytesMut)) {
    out.extend_from_slice(b"{\"kind\":\"Table\",\"apiVersion\":\"meta.k8s.io/v1\",\"metadata\":");
    metadata(out);
    out.extend_from_slice(b",\"columnDefinitions\":");
}

fn columns_of(view: &View) -> &[Column] {
    &view.version().columns
}

fn put_columns(out: &mut BytesMut, columns: &[Column]) {
    let definitions: Vec<Value> = columns
        .iter()
        .map(|c| json!({"name": c.name, "type": c.kind, "format": c.format, "description": c.description, "priority": c.priority}))
        .collect();
    put_value(out, &definitions);
}

fn put_row(out: &mut BytesMut, view: &View, object: &Stored, include_object: &str) {
    let now = jiff::Timestamp::now();
    let cells: Vec<Value> = columns_of(view).iter().map(|c| columns::cell(c, &object.value, now)).collect();
    out.extend_from_slice(b"{\"cells\":");
    put_value(out, &cells);
    out.extend_from_slice(b",\"object\":");
    match include_object {
        "None" => out.extend_from_slice(b"null"),
        "Object" => view.put(out, object),
        _ => put_partial(out, object),
    }
    out.put_u8(b'}');
}
