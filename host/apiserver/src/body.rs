//! Response bodies: whole ones, streams of events, and their indented form for people.
//!
//! Used by the request handler.

use std::io;

use bytes::Bytes;
use futures::{Stream, StreamExt as _};
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt as _, Full, StreamBody};
use hyper::body::Frame;

/// Any body. An error breaks the connection off, which only injected faults do.
pub(crate) type Body = UnsyncBoxBody<Bytes, io::Error>;

/// A whole body with its length; a large one goes out in chunks without, as from a kube-apiserver.
pub(crate) fn whole(bytes: Bytes) -> Body {
    const CHUNKED_FROM: usize = 2048;
    const CHUNK: usize = 32 * 1024;
    if bytes.len() < CHUNKED_FROM {
        return Full::new(bytes).map_err(|never| match never {}).boxed_unsync();
    }
    stream(futures::stream::unfold(bytes, |mut rest| async move {
        let size = rest.len().min(CHUNK);
        let chunk = rest.split_to(size);
        (!chunk.is_empty()).then_some((Ok(chunk), rest))
    }))
}

/// One chunk for each item.
pub(crate) fn stream(items: impl Stream<Item = io::Result<Bytes>> + Send + 'static) -> Body {
    StreamBody::new(items.map(|item| item.map(Frame::data))).boxed_unsync()
}

/// JSON with two spaces of indentation; the order of keys stays as it is.
pub(crate) fn indent(json: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(json.len() * 2);
    let (mut depth, mut in_string, mut escaped) = (0usize, false, false);
    let newline = |out: &mut Vec<u8>, depth: usize| {
        out.push(b'\n');
        out.extend(std::iter::repeat_n(b' ', depth * 2));
    };
    for (i, &byte) in json.iter().enumerate() {
        if in_string {
            out.push(byte);
            in_string = escaped || byte != b'"';
            escaped = !escaped && byte == b'\\';
            continue;
        }
        match byte {
            b'{' | b'[' => {
                out.push(byte);
                depth += 1;
                if !matches!(json.get(i + 1), Some(b'}' | b']')) {
                    newline(&mut out, depth);
                }
            }
            b'}' | b']' => {
                depth = depth.saturating_sub(1);
                if !matches!(json.get(i.wrapping_sub(1)), Some(b'{' | b'[')) {
                    newline(&mut out, depth);
                }
                out.push(byte);
            }
            b',' => {
                out.push(byte);
                newline(&mut out, depth);
            }
            b':' => out.extend_from_slice(b": "),
            b'"' => {
                in_string = true;
                out.push(byte);
            }
            b'\n' => {}
            _ => out.push(byte),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::indent;

    #[test]
    fn indented_json_is_what_people_expect() {
        let json = br#"{"a":[],"b":{},"c":[1,{"d":"x:,{\"y\\"}]}"#;
        let expected = "{\n  \"a\": [],\n  \"b\": {},\n  \"c\": [\n    1,\n    {\n      \"d\": \"x:,{\\\"y\\\\\"\n    }\n  ]\n}";
        assert_eq!(String::from_utf8(indent(json)).expect("utf-8"), expected);
    }
}
