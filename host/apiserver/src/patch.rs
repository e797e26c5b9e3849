//! The four kinds of patch: which one a request sends, and what the object is after it.
//!
//! Used by the request handler. JSON patch and merge patch come from a crate, the strategic one is in
//! `strategic.rs`, server-side apply in `managed.rs`.

use serde_json::Value;

use crate::object::View;
use crate::status::ApiError;
use crate::strategic;

/// Kinds of patch, by content type.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    Json,
    Merge,
    Strategic,
    Apply,
}

impl Kind {
    pub(crate) fn of(content_type: &str, view: &View) -> Result<Self, ApiError> {
        let media = content_type.split(';').next().unwrap_or_default().trim();
        match media {
            "application/json-patch+json" => Ok(Kind::Json),
            "application/merge-patch+json" => Ok(Kind::Merge),
            "application/strategic-merge-patch+json" if view.resource.custom => {
                Err(ApiError::UnsupportedMediaType(
                    "the body of the request was in an unknown format - accepted media types include: application/json-patch+json, application/merge-patch+json, application/apply-patch+yaml".into(),
                ))
            }
            "application/strategic-merge-patch+json" => Ok(Kind::Strategic),
            "application/apply-patch+yaml" => Ok(Kind::Apply),
            _ => Err(ApiError::UnsupportedMediaType("415: Unsupported Media Type".into())),
        }
    }
}

/// A patch, parsed and ready to be applied to the current object.
#[derive(Debug)]
pub(crate) enum Patch {
    Json(json_patch::Patch),
    Merge(Value),
    Strategic(Value),
}

impl Patch {
    pub(crate) fn parse(kind: Kind, body: &[u8]) -> Result<Self, ApiError> {
        let bad = |e: serde_json::Error| ApiError::BadRequest(format!("error decoding patch: {e}"));
        if kind == Kind::Json {
            return serde_json::from_slice(body).map(Patch::Json).map_err(bad);
        }
        let value: Value = serde_json::from_slice(body).map_err(bad)?;
        if !value.is_object() {
            return Err(ApiError::BadRequest(
                "error decoding patch: json: cannot unmarshal into Go value of type map[string]interface {}"
                    .into(),
            ));
        }
        Ok(if kind == Kind::Strategic { Patch::Strategic(value) } else { Patch::Merge(value) })
    }

    pub(crate) fn apply(&self, view: &View, current: &Value) -> Result<Value, ApiError> {
        let mut value = current.clone();
        match self {
            Patch::Json(patch) => json_patch::patch(&mut value, patch).map_err(rejected)?,
            Patch::Merge(patch) => json_patch::merge(&mut value, patch),
            Patch::Strategic(patch) => {
                strategic::merge(&view.resource.collection, &mut value, patch).map_err(rejected)?;
            }
        }
        Ok(value)
    }
}

/// A patch that does not fit the object.
fn rejected(error: impl std::fmt::Display) -> ApiError {
    tracing::debug!(%error, "a patch does not fit");
    ApiError::Unprocessable
}
