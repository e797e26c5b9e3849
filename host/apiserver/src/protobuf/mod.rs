//! Kubernetes' protobuf, read only: Go clients (kubectl too) send built-in kinds in it unless told otherwise.
//!
//! Used by the request handler, which goes on with the JSON document made here; answers are JSON always.
//! `fields.txt` is the table of messages, made from the API's Go types by `make_fields.py`: the message, then
//! its fields as number, JSON name, type and flags (`*` may be absent, so a zero is meant; `<` belongs to the
//! message around it). Invariant: whatever the bytes, decoding ends, in an error at worst.

use std::collections::HashMap;
use std::sync::LazyLock;

use base64::Engine as _;
use jiff::Timestamp;
use serde_json::{Map, Number, Value, json};

/// Why bytes are no Kubernetes object.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
pub(crate) enum DecodeError {
    #[error("the body does not start with the prefix of Kubernetes protobuf")]
    NoPrefix,
    #[error("the message ends too early")]
    Truncated,
    #[error("the message is not well formed")]
    Malformed,
    #[error("the message is nested too deep")]
    TooDeep,
    #[error("{0} is not known in protobuf form; send JSON")]
    UnknownKind(String),
}

const PREFIX: &[u8] = b"k8s\0";
const MAX_DEPTH: usize = 64;

/// Media type of such bodies.
pub(crate) const MEDIA_TYPE: &str = "application/vnd.kubernetes.protobuf";

struct Field {
    name: &'static str,
    wire: &'static str,
    optional: bool,
    inline: bool,
}

type Message = HashMap<u64, Field>;

static MESSAGES: LazyLock<HashMap<&'static str, Message>> = LazyLock::new(|| {
    let lines = include_str!("fields.txt").lines();
    lines
        .filter_map(|line| {
            let mut parts = line.split('|').map(str::trim);
            let name = parts.next()?;
            Some((name, parts.filter_map(field).collect()))
        })
        .collect()
});

fn field(text: &'static str) -> Option<(u64, Field)> {
    let mut words = text.split(' ');
    let number = words.next()?.parse().ok()?;
    let (name, wire) = (words.next()?, words.next()?);
    let flags = words.next().unwrap_or_default();
    Some((number, Field { name, wire, optional: flags.contains('*'), inline: flags.contains('<') }))
}

/// The table's name for the package of a group.
fn package(api_version: &str) -> &str {
    match api_version {
        "v1" => "core",
        "meta.k8s.io/v1" => "meta",
        "autoscaling/v1" => "autoscaling1",
        other => other.split(['.', '/']).next().unwrap_or_default(),
    }
}

/// The JSON document of a body.
pub(crate) fn decode(body: &[u8]) -> Result<Value, DecodeError> {
    let mut unknown = Reader(body.strip_prefix(PREFIX).ok_or(DecodeError::NoPrefix)?);
    let (mut api_version, mut kind, mut raw) = (String::new(), String::new(), &[][..]);
    while let Some((number, data)) = unknown.next()? {
        match (number, data) {
            (1, Data::Bytes(meta)) => {
                let mut meta = Reader(meta);
                while let Some((number, data)) = meta.next()? {
                    match number {
                        1 => api_version = data.text()?,
                        2 => kind = data.text()?,
                        _ => {}
                    }
                }
            }
            (2, Data::Bytes(bytes)) => raw = bytes,
            _ => {}
        }
    }
    let own = format!("{}.{kind}", package(&api_version));
    let name = if kind == "DeleteOptions" { "meta.DeleteOptions" } else { own.as_str() };
    let message =
        MESSAGES.get(name).ok_or_else(|| DecodeError::UnknownKind(format!("{api_version} {kind}")))?;
    let mut object = Map::new();
    fill(message, raw, &mut object, 0)?;
    object.insert("apiVersion".into(), json!(api_version));
    object.insert("kind".into(), json!(kind));
    Ok(Value::Object(object))
}

/// Reads a message into a map.
fn fill(
    message: &Message,
    bytes: &[u8],
    into: &mut Map<String, Value>,
    depth: usize,
) -> Result<(), DecodeError> {
    if depth > MAX_DEPTH {
        return Err(DecodeError::TooDeep);
    }
    let mut reader = Reader(bytes);
    while let Some((number, data)) = reader.next()? {
        let Some(field) = message.get(&number) else { continue };
        if field.inline {
            if let (Data::Bytes(bytes), Some(inner)) = (data, MESSAGES.get(field.wire)) {
                fill(inner, bytes, into, depth + 1)?;
            }
        } else if let Some(item) = field.wire.strip_prefix("[]") {
            let item = value(item, data, depth)?;
            let list = into.entry(field.name).or_insert_with(|| json!([]));
            if let Some(list) = list.as_array_mut() {
                list.push(item);
            }
        } else if let Some(item) = field.wire.strip_prefix("{}") {
            let (key, item) = entry(item, data, depth)?;
            let map = into.entry(field.name).or_insert_with(|| json!({}));
            map[key] = item;
        } else {
            let value = value(field.wire, data, depth)?;
            if field.optional || !is_zero(&value) {
                into.insert(field.name.to_owned(), value);
            }
        }
    }
    Ok(())
}

/// Go writes fields that are not pointers whether they are set or not.
fn is_zero(value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::Bool(b) => !b,
        Value::Number(n) => n.as_f64() == Some(0.0),
        Value::String(s) => s.is_empty(),
        Value::Array(a) => a.is_empty(),
        Value::Object(o) => o.is_empty(),
    }
}

fn entry(wire: &str, data: Data<'_>, depth: usize) -> Result<(String, Value), DecodeError> {
    let mut reader = Reader(data.bytes()?);
    let (mut key, mut item) = (String::new(), value_of_absent(wire));
    while let Some((number, data)) = reader.next()? {
        match number {
            1 => key = data.text()?,
            2 => item = value(wire, data, depth)?,
            _ => {}
        }
    }
    Ok((key, item))
}

fn value_of_absent(wire: &str) -> Value {
    match wire {
        "s" | "y" | "quantity" => json!(""),
        "b" => json!(false),
        "i" => json!(0),
        _ => json!({}),
    }
}

fn value(wire: &str, data: Data<'_>, depth: usize) -> Result<Value, DecodeError> {
    match wire {
        "s" => data.text().map(Value::String),
        "b" => data.number().map(|n| Value::Bool(n != 0)),
        "i" => data.number().map(|n| json!(n.cast_signed())),
        "d" => data.number().map(|n| Number::from_f64(f64::from_bits(n)).map_or(Value::Null, Value::Number)),
        "f" => {
            let bits = u32::try_from(data.number()?).map_err(|_| DecodeError::Malformed)?;
            Ok(Number::from_f64(f64::from(f32::from_bits(bits))).map_or(Value::Null, Value::Number))
        }
        "y" => Ok(json!(base64::engine::general_purpose::STANDARD.encode(data.bytes()?))),
        "quantity" => {
            Ok(first(data.bytes()?, 1)?.map(|d| d.text()).transpose()?.map_or(Value::Null, Value::String))
        }
        "raw" => match first(data.bytes()?, 1)? {
            Some(raw) => serde_json::from_slice(raw.bytes()?).map_err(|_| DecodeError::Malformed),
            None => Ok(Value::Null),
        },
        "time" => time(data.bytes()?, false),
        "microtime" => time(data.bytes()?, true),
        "duration" => Ok(json!(format!("{}ns", number(data.bytes()?, 1)?))),
        "intorstring" => {
            let bytes = data.bytes()?;
            if number(bytes, 1)? == 0 {
                return Ok(json!(number(bytes, 2)?));
            }
            first(bytes, 3)?.map_or(Ok(json!("")), |d| d.text().map(Value::String))
        }
        _ => match wire.strip_prefix("items:") {
            Some(inner) => items(inner, data.bytes()?, depth),
            None => {
                let mut object = Map::new();
                if let Some(message) = MESSAGES.get(wire) {
                    fill(message, data.bytes()?, &mut object, depth + 1)?;
                }
                Ok(Value::Object(object))
            }
        },
    }
}

/// A list that is a message of its own, as values of maps are.
fn items(wire: &str, bytes: &[u8], depth: usize) -> Result<Value, DecodeError> {
    let mut reader = Reader(bytes);
    let mut items = Vec::new();
    while let Some((number, data)) = reader.next()? {
        if number == 1 {
            items.push(value(wire, data, depth + 1)?);
        }
    }
    Ok(Value::Array(items))
}

fn time(bytes: &[u8], micros: bool) -> Result<Value, DecodeError> {
    if bytes.is_empty() {
        return Ok(Value::Null);
    }
    let nanos = i32::try_from(number(bytes, 2)?).map_err(|_| DecodeError::Malformed)?;
    let time = Timestamp::new(number(bytes, 1)?, nanos).map_err(|_| DecodeError::Malformed)?;
    // Go's zero time, in the year 1, is no time.
    if time.as_second() <= -62_135_596_800 {
        return Ok(Value::Null);
    }
    let form = if micros { "%Y-%m-%dT%H:%M:%S.%6fZ" } else { "%Y-%m-%dT%H:%M:%SZ" };
    Ok(json!(time.strftime(form).to_string()))
}

/// The last field of a number, as in all of protobuf.
fn first(bytes: &[u8], wanted: u64) -> Result<Option<Data<'_>>, DecodeError> {
    let mut reader = Reader(bytes);
    let mut found = None;
    while let Some((number, data)) = reader.next()? {
        if number == wanted {
            found = Some(data);
        }
    }
    Ok(found)
}

fn number(bytes: &[u8], wanted: u64) -> Result<i64, DecodeError> {
    first(bytes, wanted)?.map_or(Ok(0), |data| data.number().map(u64::cast_signed))
}

/// What a field holds on the wire.
#[derive(Clone, Copy)]
enum Data<'a> {
    Number(u64),
    Bytes(&'a [u8]),
}

impl<'a> Data<'a> {
    fn number(self) -> Result<u64, DecodeError> {
        if let Data::Number(n) = self { Ok(n) } else { Err(DecodeError::Malformed) }
    }

    fn bytes(self) -> Result<&'a [u8], DecodeError> {
        if let Data::Bytes(bytes) = self { Ok(bytes) } else { Err(DecodeError::Malformed) }
    }

    fn text(self) -> Result<String, DecodeError> {
        String::from_utf8(self.bytes()?.to_vec()).map_err(|_| DecodeError::Malformed)
    }
}

/// Fields one after the other.
struct Reader<'a>(&'a [u8]);

impl<'a> Reader<'a> {
    fn next(&mut self) -> Result<Option<(u64, Data<'a>)>, DecodeError> {
        if self.0.is_empty() {
            return Ok(None);
        }
        let tag = self.varint()?;
        let data = match tag & 7 {
            0 => Data::Number(self.varint()?),
            1 => Data::Number(u64::from_le_bytes(self.array()?)),
            2 => {
                let length = usize::try_from(self.varint()?).map_err(|_| DecodeError::Truncated)?;
                Data::Bytes(self.take(length)?)
            }
            5 => Data::Number(u64::from(u32::from_le_bytes(self.array()?))),
            _ => return Err(DecodeError::Malformed),
        };
        Ok(Some((tag >> 3, data)))
    }

    fn take(&mut self, length: usize) -> Result<&'a [u8], DecodeError> {
        let (taken, rest) = self.0.split_at_checked(length).ok_or(DecodeError::Truncated)?;
        self.0 = rest;
        Ok(taken)
    }

    fn array<const N: usize>(&mut self) -> Result<[u8; N], DecodeError> {
        self.take(N)?.try_into().map_err(|_| DecodeError::Truncated)
    }

    fn varint(&mut self) -> Result<u64, DecodeError> {
        let mut value = 0;
        for shift in (0..64).step_by(7) {
            let [byte] = self.array()?;
            value |= u64::from(byte & 0x7f) << shift;
            if byte & 0x80 == 0 {
                return Ok(value);
            }
        }
        Err(DecodeError::Malformed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bytes(number: u8, content: &[u8]) -> Vec<u8> {
        let length = u8::try_from(content.len()).expect("short");
        [&[number << 3 | 2, length], content].concat()
    }

    fn wrapped(api_version: &str, kind: &str, raw: &[u8]) -> Vec<u8> {
        let meta = [bytes(1, api_version.as_bytes()), bytes(2, kind.as_bytes())].concat();
        [PREFIX, &bytes(1, &meta), &bytes(2, raw), &bytes(3, b""), &bytes(4, b"")].concat()
    }

    #[test]
    fn a_config_map_is_read() {
        let meta = [
            bytes(1, b"cm"),
            bytes(2, b""),
            bytes(8, b""),
            bytes(11, &[bytes(1, b"a"), bytes(2, b"b")].concat()),
        ]
        .concat();
        let entry = [bytes(1, b"k"), bytes(2, b"v")].concat();
        let raw = [bytes(1, &meta), bytes(2, &entry)].concat();
        assert_eq!(
            decode(&wrapped("v1", "ConfigMap", &raw)),
            Ok(
                json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "cm", "labels": {"a": "b"}}, "data": {"k": "v"}})
            )
        );
    }

    #[test]
    fn a_zero_counts_where_absence_would_mean_something_else() {
        let spec = [&[1 << 3, 0][..], &[5 << 3, 0], &[7 << 3, 0]].concat();
        let decoded = decode(&wrapped("apps/v1", "Deployment", &bytes(2, &spec))).expect("decodes");
        assert_eq!(decoded["spec"], json!({"replicas": 0}));
    }

    #[test]
    fn every_message_of_the_table_is_in_the_table() {
        for (name, message) in MESSAGES.iter() {
            for field in message.values().filter(|f| f.wire.contains('.')) {
                let wire =
                    field.wire.trim_start_matches("[]").trim_start_matches("{}").trim_start_matches("items:");
                assert!(MESSAGES.contains_key(wire), "{name}.{} is a {wire}", field.name);
            }
        }
    }

    #[test]
    fn damaged_bytes_are_errors() {
        let good = wrapped("v1", "ConfigMap", &bytes(1, &bytes(1, b"cm")));
        assert!(decode(&good).is_ok());
        assert_eq!(decode(b"{}"), Err(DecodeError::NoPrefix));
        assert!(matches!(decode(&wrapped("x/v1", "Y", b"")), Err(DecodeError::UnknownKind(_))));
        for end in PREFIX.len() + 1..good.len() {
            // A cut between two fields leaves a shorter message, anywhere else an error; never a panic.
            let _ = decode(&good[..end]);
        }
        assert_eq!(decode(&[PREFIX, &[0x0b]].concat()), Err(DecodeError::Malformed));
        assert_eq!(decode(&[PREFIX, &[0xff; 12]].concat()), Err(DecodeError::Malformed));
    }
}
