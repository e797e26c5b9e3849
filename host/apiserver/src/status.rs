//! Every way a request can fail, and the `Status` document it becomes.
//!
//! Used by all of the crate: nothing else builds an error answer. The texts are those a kube-apiserver sends,
//! because clients (and people) match on them.

use std::fmt;

use serde::Serialize;

/// A resource as error messages name it: `configmaps`, `leases.coordination.k8s.io`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GroupResource {
    /// API group, empty for the core group.
    pub group: String,
    /// Plural resource name (or a kind, where the real server says the kind).
    pub resource: String,
}

impl fmt::Display for GroupResource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.group.as_str() {
            "" => f.write_str(&self.resource),
            group => write!(f, "{}.{group}", self.resource),
        }
    }
}

/// One field-level reason inside an error.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Cause {
    /// Machine-readable reason such as `FieldValueInvalid`.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub reason: String,
    /// Human-readable text.
    pub message: String,
    /// Path of the offending field.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub field: String,
}

impl Cause {
    /// A cause with all three parts.
    pub fn new(reason: &str, field: impl Into<String>, message: impl Into<String>) -> Self {
        Cause { reason: reason.into(), message: message.into(), field: field.into() }
    }

    pub(crate) fn invalid(field: impl Into<String>, value: &str, why: &str) -> Self {
        Cause::new("FieldValueInvalid", field, format!("Invalid value: {value}: {why}"))
    }

    pub(crate) fn required(field: impl Into<String>, why: &str) -> Self {
        let message = if why.is_empty() { "Required value".into() } else { format!("Required value: {why}") };
        Cause::new("FieldValueRequired", field, message)
    }

    pub(crate) fn forbidden(field: impl Into<String>, why: &str) -> Self {
        Cause::new("FieldValueForbidden", field, format!("Forbidden: {why}"))
    }

    pub(crate) fn unsupported(field: impl Into<String>, value: &str, supported: &[&str]) -> Self {
        let list = supported.iter().map(|s| format!("{s:?}")).collect::<Vec<_>>().join(", ");
        let message = format!("Unsupported value: {value:?}: supported values: {list}");
        Cause::new("FieldValueNotSupported", field, message)
    }

    fn in_message(&self) -> String {
        if self.field.is_empty() { self.message.clone() } else { format!("{}: {}", self.field, self.message) }
    }
}

/// Why a request failed. Each variant is one answer of a kube-apiserver.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ApiError {
    /// 404 for one object.
    #[error("{resource} {name:?} not found")]
    NotFound {
        /// What was asked for.
        resource: GroupResource,
        /// Its name.
        name: String,
    },
    /// 404 for a resource that a known group version does not have.
    #[error("the server could not find the requested resource")]
    UnknownResource,
    /// The router's plain-text 404: unknown group, or unknown resource of a custom group.
    #[error("404 page not found")]
    UnknownPath,
    /// 409 on create.
    #[error("{resource} {name:?} already exists")]
    AlreadyExists {
        /// What was to be created.
        resource: GroupResource,
        /// Its name.
        name: String,
    },
    /// 409: the object is not what the writer thought it was.
    #[error("Operation cannot be fulfilled on {resource} {name:?}: {detail}")]
    Conflict {
        /// What was to be changed.
        resource: GroupResource,
        /// Its name.
        name: String,
        /// Which precondition failed.
        detail: String,
    },
    /// 409 of server-side apply, one cause for each field owned by somebody else.
    #[error("Apply failed with {} conflict{}: {}", causes.len(), if causes.len() == 1 { "" } else { "s" }, apply_conflicts(causes))]
    ApplyConflict {
        /// `FieldManagerConflict` causes.
        causes: Vec<Cause>,
    },
    /// 422 with the fields at fault.
    #[error("{resource} {name:?} is invalid: {}", invalid_fields(causes))]
    Invalid {
        /// The kind, with its group.
        resource: GroupResource,
        /// Name of the object.
        name: String,
        /// One for each field.
        causes: Vec<Cause>,
    },
    /// 422 without saying why: a patch that does not fit the object.
    #[error("the server rejected our request due to an error in our request")]
    Unprocessable,
    /// 400.
    #[error("{0}")]
    BadRequest(String),
    /// 403 with an optional cause.
    #[error("{resource} {name:?} is forbidden: {detail}")]
    Forbidden {
        /// What was to be done something with.
        resource: GroupResource,
        /// Its name.
        name: String,
        /// Why not.
        detail: String,
        /// Machine-readable causes.
        causes: Vec<Cause>,
    },
    /// 405.
    #[error("the server does not allow this method on the requested resource")]
    MethodNotAllowed,
    /// 406, with the text naming what could be had.
    #[error("{0}")]
    NotAcceptable(String),
    /// 415, with the text naming what is understood.
    #[error("{0}")]
    UnsupportedMediaType(String),
    /// 410: the version asked for is no longer known.
    #[error("{message}")]
    Expired {
        /// What the real server says in this situation.
        message: String,
        /// Token with which an inconsistent list can go on.
        continue_token: Option<String>,
    },
    /// 504: the version asked for has not been reached.
    #[error("Timeout: Too large resource version: {wanted}, current: {current}")]
    TooLargeVersion {
        /// Asked for.
        wanted: u64,
        /// Reached so far.
        current: u64,
    },
    /// 413.
    #[error("Request entity too large: limit is {limit}")]
    TooLarge {
        /// The limit in bytes.
        limit: usize,
    },
    /// 500 whose Status has no reason, as for errors of the storage layer.
    #[error("{0}")]
    Storage(String),
    /// Any other answer, for injected faults.
    #[error("{message}")]
    Other {
        /// HTTP status code.
        code: u16,
        /// Reason, may be empty.
        reason: String,
        /// Text.
        message: String,
        /// `Retry-After`.
        retry_after: Option<u32>,
    },
}

fn invalid_fields(causes: &[Cause]) -> String {
    let texts: Vec<String> = causes.iter().map(Cause::in_message).collect();
    match texts.as_slice() {
        [one] => one.clone(),
        many => format!("[{}]", many.join(", ")),
    }
}

/// Conflicts grouped by manager: a single one is told in line, several as a list.
fn apply_conflicts(causes: &[Cause]) -> String {
    if let [one] = causes {
        return format!("{}: {}", one.message, one.field);
    }
    let mut text = String::new();
    let mut last = "";
    for cause in causes {
        if cause.message != last {
            let stem = cause.message.replacen("conflict with", "conflicts with", 1);
            text.push_str(&format!("{}{stem}:", if text.is_empty() { "" } else { "\n" }));
            last = &cause.message;
        }
        text.push_str(&format!("\n- {}", cause.field));
    }
    text
}

impl ApiError {
    /// HTTP status code.
    pub fn code(&self) -> u16 {
        match self {
            ApiError::NotFound { .. } | ApiError::UnknownResource | ApiError::UnknownPath => 404,
            ApiError::AlreadyExists { .. } | ApiError::Conflict { .. } | ApiError::ApplyConflict { .. } => {
                409
            }
            ApiError::Invalid { .. } | ApiError::Unprocessable => 422,
            ApiError::BadRequest(_) => 400,
            ApiError::Forbidden { .. } => 403,
            ApiError::MethodNotAllowed => 405,
            ApiError::NotAcceptable(_) => 406,
            ApiError::UnsupportedMediaType(_) => 415,
            ApiError::Expired { .. } => 410,
            ApiError::TooLargeVersion { .. } => 504,
            ApiError::TooLarge { .. } => 413,
            ApiError::Storage(_) => 500,
            ApiError::Other { code, .. } => *code,
        }
    }

    /// The Status' machine-readable reason; empty where the real server leaves it out.
    pub fn reason(&self) -> &str {
        match self {
            ApiError::NotFound { .. } | ApiError::UnknownResource | ApiError::UnknownPath => "NotFound",
            ApiError::AlreadyExists { .. } => "AlreadyExists",
            ApiError::Conflict { .. } | ApiError::ApplyConflict { .. } => "Conflict",
            ApiError::Invalid { .. } | ApiError::Unprocessable => "Invalid",
            ApiError::BadRequest(_) => "BadRequest",
            ApiError::Forbidden { .. } => "Forbidden",
            ApiError::MethodNotAllowed => "MethodNotAllowed",
            ApiError::NotAcceptable(_) => "NotAcceptable",
            ApiError::UnsupportedMediaType(_) => "UnsupportedMediaType",
            ApiError::Expired { .. } => "Expired",
            ApiError::TooLargeVersion { .. } => "Timeout",
            ApiError::TooLarge { .. } => "RequestEntityTooLarge",
            ApiError::Storage(_) => "",
            ApiError::Other { reason, .. } => reason,
        }
    }

    /// Seconds for the `Retry-After` header.
    pub fn retry_after(&self) -> Option<u32> {
        match self {
            ApiError::TooLargeVersion { .. } => Some(1),
            ApiError::Other { retry_after, .. } => *retry_after,
            _ => None,
        }
    }

    /// The `Status` document.
    pub fn status(&self) -> Status {
        let mut status = Status::new("Failure");
        status.message = self.to_string();
        status.reason = self.reason().to_owned();
        status.code = Some(self.code());
        status.details = self.details();
        if let ApiError::Expired { continue_token: Some(token), .. } = self {
            status.metadata.continue_token.clone_from(token);
        }
        status
    }

    fn details(&self) -> Option<Details> {
        let of = |resource: &GroupResource, name: &str, causes: &[Cause]| Details {
            name: name.to_owned(),
            group: resource.group.clone(),
            kind: resource.resource.clone(),
            causes: causes.to_vec(),
            ..Details::default()
        };
        match self {
            ApiError::NotFound { resource, name }
            | ApiError::AlreadyExists { resource, name }
            | ApiError::Conflict { resource, name, .. } => Some(of(resource, name, &[])),
            ApiError::Invalid { resource, name, causes }
            | ApiError::Forbidden { resource, name, causes, .. } => Some(of(resource, name, causes)),
            ApiError::ApplyConflict { causes } => {
                Some(Details { causes: causes.clone(), ..Details::default() })
            }
            ApiError::TooLargeVersion { .. } => Some(Details {
                causes: vec![Cause::new("ResourceVersionTooLarge", "", "Too large resource version")],
                retry_after_seconds: 1,
                ..Details::default()
            }),
            ApiError::UnknownResource | ApiError::MethodNotAllowed | ApiError::Unprocessable => {
                Some(Details::default())
            }
            ApiError::UnsupportedMediaType(text) | ApiError::NotAcceptable(text) if text.starts_with('4') => {
                Some(Details::default())
            }
            ApiError::Other { retry_after: Some(seconds), .. } => {
                Some(Details { retry_after_seconds: *seconds, ..Details::default() })
            }
            _ => None,
        }
    }
}

/// A `Status` document, its keys in the order a kube-apiserver writes them.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Status {
    kind: &'static str,
    #[serde(rename = "apiVersion")]
    api_version: &'static str,
    metadata: StatusMeta,
    status: &'static str,
    #[serde(skip_serializing_if = "String::is_empty")]
    message: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    reason: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    details: Option<Details>,
    #[serde(skip_serializing_if = "Option::is_none")]
    code: Option<u16>,
}

#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
struct StatusMeta {
    #[serde(rename = "continue", skip_serializing_if = "String::is_empty")]
    continue_token: String,
}

#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
struct Details {
    #[serde(skip_serializing_if = "String::is_empty")]
    name: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    group: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    kind: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    uid: String,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    causes: Vec<Cause>,
    #[serde(rename = "retryAfterSeconds", skip_serializing_if = "is_zero")]
    retry_after_seconds: u32,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "the signature serde asks for")]
fn is_zero(n: &u32) -> bool {
    *n == 0
}

impl Status {
    fn new(status: &'static str) -> Self {
        Status {
            kind: "Status",
            api_version: "v1",
            metadata: StatusMeta::default(),
            status,
            message: String::new(),
            reason: String::new(),
            details: None,
            code: None,
        }
    }

    /// What a delete answers when the object is gone.
    pub(crate) fn deleted(resource: &GroupResource, name: &str, uid: &str) -> Self {
        let mut status = Status::new("Success");
        status.details = Some(Details {
            name: name.to_owned(),
            group: resource.group.clone(),
            kind: resource.resource.clone(),
            uid: uid.to_owned(),
            ..Details::default()
        });
        status
    }

    /// Compact JSON.
    pub(crate) fn to_json(&self) -> Vec<u8> {
        serde_json::to_vec(self).unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(error: &ApiError) -> String {
        String::from_utf8(error.status().to_json()).expect("utf-8")
    }

    #[test]
    fn statuses_are_the_real_servers_byte_for_byte() {
        let configmaps = GroupResource { group: String::new(), resource: "configmaps".into() };
        let missing = ApiError::NotFound { resource: configmaps.clone(), name: "absent".into() };
        assert_eq!(
            text(&missing),
            r#"{"kind":"Status","apiVersion":"v1","metadata":{},"status":"Failure","message":"configmaps \"absent\" not found","reason":"NotFound","details":{"name":"absent","kind":"configmaps"},"code":404}"#
        );
        assert_eq!(
            text(&ApiError::UnknownResource),
            r#"{"kind":"Status","apiVersion":"v1","metadata":{},"status":"Failure","message":"the server could not find the requested resource","reason":"NotFound","details":{},"code":404}"#
        );
        assert_eq!(
            text(&ApiError::TooLargeVersion { wanted: 999_999_999, current: 230 }),
            r#"{"kind":"Status","apiVersion":"v1","metadata":{},"status":"Failure","message":"Timeout: Too large resource version: 999999999, current: 230","reason":"Timeout","details":{"causes":[{"reason":"ResourceVersionTooLarge","message":"Too large resource version"}],"retryAfterSeconds":1},"code":504}"#
        );
        let applied = ApiError::ApplyConflict {
            causes: vec![Cause::new("FieldManagerConflict", ".data.k", "conflict with \"one\"")],
        };
        assert_eq!(
            text(&applied),
            r#"{"kind":"Status","apiVersion":"v1","metadata":{},"status":"Failure","message":"Apply failed with 1 conflict: conflict with \"one\": .data.k","reason":"Conflict","details":{"causes":[{"reason":"FieldManagerConflict","message":"conflict with \"one\"","field":".data.k"}]},"code":409}"#
        );
        assert_eq!(
            text(&ApiError::Storage("boom".into())),
            r#"{"kind":"Status","apiVersion":"v1","metadata":{},"status":"Failure","message":"boom","code":500}"#
        );
    }
}
