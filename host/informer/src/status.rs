//! What the API server, or the way to it, answers instead of what was asked for.
//!
//! [`Status`] is Kubernetes' own error object and [`ApiError`] anything that can go wrong with a request; the
//! reflector decides by their classes (section 1.7 of the rules). Invariant: every failed answer becomes a
//! `Status`, also one whose body is a proxy's HTML or a plain sentence (rules of section 1.10).

use std::fmt;
use std::time::Duration;

use serde::Deserialize;

/// Longest message kept: an answer's text ends up in logs and on status pages.
const MAX_MESSAGE: usize = 512;

/// The reasons that kube-apiserver knows. Any other, or none, leaves the HTTP code to decide.
const KNOWN_REASONS: [&str; 19] = [
    "Unauthorized",
    "Forbidden",
    "NotFound",
    "AlreadyExists",
    "Conflict",
    "Gone",
    "Invalid",
    "ServerTimeout",
    "StoreReadError",
    "Timeout",
    "TooManyRequests",
    "BadRequest",
    "MethodNotAllowed",
    "NotAcceptable",
    "RequestEntityTooLarge",
    "UnsupportedMediaType",
    "InternalError",
    "Expired",
    "ServiceUnavailable",
];

/// A `Status` of the API server: why a request or a watch failed.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Status {
    /// The HTTP code, also of an in-stream error.
    pub code: u16,
    /// `Expired`, `Forbidden`, …; empty if the server gave none.
    pub reason: String,
    /// For people.
    pub message: String,
    /// How long the server asks to be left alone: the header, or `details.retryAfterSeconds`.
    pub retry_after: Option<Duration>,
    causes: Vec<Cause>,
    has_details: bool,
}

#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
struct Cause {
    #[serde(default)]
    reason: String,
    #[serde(default)]
    message: String,
}

/// The wire form. Every member is optional: a request time-out's Status has not even a kind.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Wire {
    #[serde(default)]
    kind: String,
    #[serde(default)]
    api_version: String,
    #[serde(default)]
    status: String,
    #[serde(default)]
    message: String,
    #[serde(default)]
    reason: String,
    details: Option<WireDetails>,
    #[serde(default)]
    code: u16,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct WireDetails {
    causes: Option<Vec<Cause>>,
    retry_after_seconds: Option<u64>,
}

impl Status {
    /// The Status of an answer other than 2xx: the one in the body, else one generated from the code
    /// (section 1.10).
    pub fn from_response(code: u16, retry_after: Option<Duration>, body: &[u8]) -> Self {
        let mut status = serde_json::from_slice::<Wire>(body)
            .ok()
            .filter(|wire| wire.kind == "Status" || (wire.kind.is_empty() && wire.status == "Failure"))
            .map_or_else(|| Self::generated(code, body), Self::from_wire);
        if status.code == 0 {
            status.code = code;
        }
        status.retry_after = retry_after.or(status.retry_after).filter(|wait| !wait.is_zero());
        status
    }

    /// The Status inside a watch's ERROR event. None if the event's object is something else: then the rules
    /// call it an unexpected object (section 1.7).
    pub fn from_watch_error(object: &str) -> Option<Self> {
        let wire: Wire = serde_json::from_str(object).ok()?;
        let known = wire.kind == "Status" && matches!(wire.api_version.as_str(), "v1" | "meta.k8s.io/v1");
        known.then(|| Self::from_wire(wire))
    }

    fn from_wire(wire: Wire) -> Self {
        let has_details = wire.details.is_some();
        let (causes, seconds) = wire.details.map_or((Vec::new(), None), |details| {
            (details.causes.unwrap_or_default(), details.retry_after_seconds)
        });
        Self {
            code: wire.code,
            reason: wire.reason,
            message: printable(&wire.message),
            retry_after: seconds.filter(|&seconds| seconds > 0).map(Duration::from_secs),
            causes,
            has_details,
        }
    }

    fn generated(code: u16, body: &[u8]) -> Self {
        let reason = match code {
            400 => "BadRequest",
            401 => "Unauthorized",
            403 => "Forbidden",
            404 => "NotFound",
            405 => "MethodNotAllowed",
            406 => "NotAcceptable",
            409 => "Conflict",
            410 => "Gone",
            415 => "UnsupportedMediaType",
            422 => "Invalid",
            429 => "TooManyRequests",
            503 => "ServiceUnavailable",
            504 => "Timeout",
            500.. => "InternalError",
            _ => "",
        };
        let text = printable(&String::from_utf8_lossy(body));
        let message = if text.is_empty() {
            format!("the server answered {code}")
        } else {
            format!("the server answered {code}: {text}")
        };
        Self { code, reason: reason.into(), message, ..Self::default() }
    }

    /// What was asked for is too old to be served: `Expired`, or `Gone`, or just code 410.
    pub fn is_expired(&self) -> bool {
        self.reason == "Expired" || self.is("Gone", 410)
    }

    /// The resourceVersion asked for is in the server's future, in any of the three encodings that servers
    /// have used (section 1.7).
    pub fn is_too_large_resource_version(&self) -> bool {
        const TEXT: &str = "Too large resource version";
        if self.causes.iter().any(|cause| cause.reason == "ResourceVersionTooLarge") {
            return true;
        }
        let by_cause = || self.causes.iter().any(|cause| cause.message == TEXT);
        self.reason == "Timeout" && (by_cause() || (self.has_details && self.message.contains(TEXT)))
    }

    /// The server is too busy, or not ready yet.
    pub fn is_too_many_requests(&self) -> bool {
        self.reason == "TooManyRequests" || self.code == 429
    }

    /// The credentials are not good.
    pub fn is_unauthorized(&self) -> bool {
        self.is("Unauthorized", 401)
    }

    /// The credentials are good, but not for this.
    pub fn is_forbidden(&self) -> bool {
        self.is("Forbidden", 403)
    }

    /// There is no such thing.
    pub fn is_not_found(&self) -> bool {
        self.is("NotFound", 404)
    }

    /// The server does not take the request's parameters.
    pub fn is_invalid(&self) -> bool {
        self.is("Invalid", 422)
    }

    /// The server broke.
    pub fn is_internal(&self) -> bool {
        self.reason == "InternalError"
    }

    /// `reason`, or no known reason and `code`.
    fn is(&self, reason: &str, code: u16) -> bool {
        self.reason == reason || (self.code == code && !KNOWN_REASONS.contains(&self.reason.as_str()))
    }
}

impl fmt::Display for Status {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let message = if self.message.is_empty() { "no message" } else { &self.message };
        match (self.reason.as_str(), self.code) {
            ("", code) => write!(f, "{message} ({code})"),
            (reason, code) => write!(f, "{message} ({code} {reason})"),
        }
    }
}

/// Anything that can go wrong with a request. All of it may heal; the reflector tries again with back-off.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ApiError {
    /// The server answered, with a refusal.
    #[error("{0}")]
    Status(Status),
    /// There was no answer, or half of one: refused, reset, timed out, TLS.
    #[error("{0}")]
    Unreachable(String),
    /// The credentials could not be read or refreshed; nothing was sent.
    #[error("{0}")]
    Credentials(String),
    /// The answer is not what such an answer looks like.
    #[error("{0}")]
    Decode(String),
    /// Discovery does not know the resource, or it cannot be listed and watched.
    #[error("{0}")]
    Absent(String),
}

impl ApiError {
    /// The server's Status, if it sent one.
    pub fn status(&self) -> Option<&Status> {
        match self {
            Self::Status(status) => Some(status),
            _ => None,
        }
    }

    /// Whether a list must do without its resourceVersion (rule R-LIST-5): expired, or too large.
    pub(crate) fn makes_version_unavailable(&self) -> bool {
        self.status().is_some_and(|status| status.is_expired() || status.is_too_large_resource_version())
    }
}

/// One line of text without control characters, cut to a size fit for a log line.
pub(crate) fn printable(text: &str) -> String {
    let mut out = String::new();
    let mut gap = false;
    for c in text.chars() {
        if c.is_whitespace() || c.is_control() {
            gap = !out.is_empty();
            continue;
        }
        if out.len() >= MAX_MESSAGE {
            out.push('…');
            break;
        }
        if std::mem::take(&mut gap) {
            out.push(' ');
        }
        out.push(c);
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    fn status(json: &str) -> Status {
        Status::from_watch_error(json).expect("a Status")
    }

    fn response(code: u16, body: &str) -> Status {
        Status::from_response(code, None, body.as_bytes())
    }

    #[test]
    fn expired_is_a_reason_or_a_bare_410() {
        let head = r#""kind":"Status","apiVersion":"v1","status":"Failure""#;
        for (rest, expired) in [
            (r#""reason":"Expired","code":410"#, true),
            (r#""reason":"Expired""#, true),
            (r#""reason":"Gone","code":410"#, true),
            (r#""code":410"#, true),
            (r#""reason":"Odd","code":410"#, true),
            (r#""reason":"InternalError","code":410"#, false),
            (r#""reason":"NotFound","code":404"#, false),
        ] {
            assert_eq!(status(&format!("{{{head},{rest}}}")).is_expired(), expired, "section 1.7: {rest}");
        }
    }

    #[test]
    fn a_too_large_version_is_known_in_three_encodings() {
        let head = r#""kind":"Status","apiVersion":"v1","status":"Failure","code":504"#;
        for (rest, too_large) in [
            (
                r#""reason":"Timeout","details":{"causes":[{"reason":"ResourceVersionTooLarge","message":"x"}]}"#,
                true,
            ),
            (r#""reason":"Timeout","details":{"causes":[{"message":"Too large resource version"}]}"#, true),
            (
                r#""reason":"Timeout","message":"Timeout: Too large resource version: 5, current: 1","details":{}"#,
                true,
            ),
            (r#""reason":"Timeout","message":"Timeout: Too large resource version: 5, current: 1""#, false),
            (
                r#""reason":"InternalError","details":{"causes":[{"message":"Too large resource version"}]}"#,
                false,
            ),
            (r#""reason":"Timeout","details":{"causes":null}"#, false),
        ] {
            let status = status(&format!("{{{head},{rest}}}"));
            assert_eq!(status.is_too_large_resource_version(), too_large, "section 1.7: {rest}");
        }
    }

    #[test]
    fn the_recorded_too_large_answer_says_when_to_come_back() {
        let status = response(
            504,
            r#"{"kind":"Status","apiVersion":"v1","metadata":{},"status":"Failure","message":"Timeout: Too large resource version: 999999999, current: 230","reason":"Timeout","details":{"causes":[{"reason":"ResourceVersionTooLarge","message":"Too large resource version"}],"retryAfterSeconds":1},"code":504}"#,
        );
        assert!(status.is_too_large_resource_version());
        assert_eq!(status.retry_after, Some(Duration::from_secs(1)));
    }

    #[test]
    fn the_header_goes_before_the_body_for_retry_after() {
        let body = br#"{"kind":"Status","apiVersion":"v1","details":{"retryAfterSeconds":1},"code":429}"#;
        let status = Status::from_response(429, Some(Duration::from_secs(7)), body);
        assert_eq!(status.retry_after, Some(Duration::from_secs(7)));
        assert!(status.is_too_many_requests());
    }

    #[test]
    fn an_answer_that_is_no_status_gets_one_by_its_code() {
        for (code, reason) in [
            (400, "BadRequest"),
            (401, "Unauthorized"),
            (403, "Forbidden"),
            (404, "NotFound"),
            (405, "MethodNotAllowed"),
            (406, "NotAcceptable"),
            (409, "Conflict"),
            (415, "UnsupportedMediaType"),
            (422, "Invalid"),
            (429, "TooManyRequests"),
            (500, "InternalError"),
            (502, "InternalError"),
            (503, "ServiceUnavailable"),
            (504, "Timeout"),
            (302, ""),
        ] {
            let status = response(code, "<html><body>\u{1b}[31mgateway\n broke</body></html>");
            assert_eq!((status.code, status.reason.as_str()), (code, reason), "section 1.10");
            assert!(!status.message.contains(['\u{1b}', '\n']), "{}", status.message);
        }
        assert!(response(410, "gone").is_expired());
        assert_eq!(response(429, "").message, "the server answered 429");
    }

    #[test]
    fn a_status_without_a_kind_is_still_one() {
        let body = r#"{"metadata":{},"status":"Failure","message":"Timeout: request did not complete within the allotted timeout","reason":"Timeout","details":{},"code":504}"#;
        let status = response(504, body);
        assert_eq!(status.reason, "Timeout");
        assert!(status.message.starts_with("Timeout: request did not"));
        assert!(!status.is_too_large_resource_version());
    }

    #[test]
    fn json_that_is_not_a_status_is_not_taken_for_one() {
        assert_eq!(response(404, r#"{"kind":"Pod","metadata":{}}"#).reason, "NotFound");
        for object in
            [r#"{"kind":"Pod","apiVersion":"v1"}"#, r#"{"kind":"Status","apiVersion":"v2"}"#, "[]", "{"]
        {
            assert_eq!(Status::from_watch_error(object), None, "section 1.7: {object}");
        }
        assert!(Status::from_watch_error(r#"{"kind":"Status","apiVersion":"meta.k8s.io/v1"}"#).is_some());
    }

    #[test]
    fn an_unknown_reason_leaves_the_code_to_decide() {
        let with = |reason: &str, code| Status { reason: reason.into(), code, ..Status::default() };
        assert!(with("", 403).is_forbidden() && with("Forbidden", 0).is_forbidden());
        assert!(with("Odd", 404).is_not_found() && !with("Forbidden", 404).is_not_found());
        assert!(with("", 401).is_unauthorized());
        assert!(with("InternalError", 500).is_internal() && !with("", 500).is_internal());
    }

    #[test]
    fn a_message_is_one_line_of_bounded_length() {
        assert_eq!(printable("a\n\t b\u{7}c"), "a b c");
        for text in ["word ".repeat(1000), "x".repeat(100_000), "ü".repeat(100_000)] {
            let kept = printable(&text);
            assert!((MAX_MESSAGE..MAX_MESSAGE + 8).contains(&kept.len()), "{}", kept.len());
        }
    }
}
