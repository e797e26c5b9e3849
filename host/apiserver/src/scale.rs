//! The scale subresource: the replica count of an object, as an object of its own.
//!
//! Used by `changes.rs`. Where the numbers are is said by the resource's version.

use hyper::Method;
use serde_json::{Value, json};

use crate::changes::by;
use crate::object::{Stored, at_path, set_meta, set_path};
use crate::patch::{Kind, Patch};
use crate::resources::ScalePaths;
use crate::service::{Answer, Call, document};
use crate::status::ApiError;
use crate::store::Store;
use crate::write::{self, By, Part};

pub(crate) fn answer(store: &Store, call: &Call) -> Result<Answer, ApiError> {
    let Some(paths) = &call.view.version().scale else { return Err(ApiError::UnknownResource) };
    let resource = &call.view.resource;
    let mut state = store.lock();
    let object = if call.method == Method::GET {
        let key = resource.key(&call.path.namespace, &call.path.name);
        state.get(&resource.collection, &key).cloned().ok_or_else(|| call.not_found())?
    } else {
        let at = (call.path.namespace.as_str(), call.path.name.as_str());
        let change = change(call)?;
        let by = By { subresource: "scale", ..by(call) };
        let update = |current: &Value| scaled(paths, current, &change, call);
        write::update(&mut state, &call.view, at, Part::Main, &by, update)?.object
    };
    drop(state);
    Ok(Answer::json(200, format!("{}\n", scale_of(paths, &object))))
}

/// What a request makes of a scale.
enum Change {
    Replace(Value),
    Patch(Patch),
}

fn change(call: &Call) -> Result<Change, ApiError> {
    match call.method {
        Method::PUT => document(call).map(Change::Replace),
        Method::PATCH => match Kind::of(&call.content_type, &call.view)? {
            Kind::Strategic => Patch::parse(Kind::Merge, &call.body).map(Change::Patch),
            kind => Patch::parse(kind, &call.body).map(Change::Patch),
        },
        _ => Err(ApiError::MethodNotAllowed),
    }
}

fn scaled(paths: &ScalePaths, current: &Value, change: &Change, call: &Call) -> Result<Value, ApiError> {
    let scale = match change {
        Change::Replace(scale) => scale.clone(),
        Change::Patch(patch) => patch.apply(&call.view, &scale_value(paths, current))?,
    };
    let replicas = scale.pointer("/spec/replicas").and_then(Value::as_i64).unwrap_or(0);
    let mut object = current.clone();
    set_path(&mut object, &paths.spec, json!(replicas));
    if let Some(version) = scale.pointer("/metadata/resourceVersion").filter(|v| *v != &json!("")) {
        set_meta(&mut object, "resourceVersion", version.clone());
    }
    Ok(object)
}

fn scale_of(paths: &ScalePaths, object: &Stored) -> Value {
    scale_value(paths, &object.value)
}

fn scale_value(paths: &ScalePaths, object: &Value) -> Value {
    let number = |path: &[String]| at_path(object, path).and_then(Value::as_i64).unwrap_or(0);
    let metadata: serde_json::Map<String, Value> =
        ["name", "namespace", "uid", "resourceVersion", "creationTimestamp"]
            .into_iter()
            .filter_map(|key| Some((key.to_owned(), object.pointer("/metadata")?.get(key)?.clone())))
            .collect();
    let mut status = json!({"replicas": number(&paths.status)});
    if let Some(selector) = selector(paths, object) {
        status["selector"] = json!(selector);
    }
    json!({
        "kind": "Scale",
        "apiVersion": "autoscaling/v1",
        "metadata": metadata,
        "spec": {"replicas": number(&paths.spec)},
        "status": status,
    })
}

fn selector(paths: &ScalePaths, object: &Value) -> Option<String> {
    if let Some(path) = &paths.selector {
        return at_path(object, path).and_then(Value::as_str).map(str::to_owned);
    }
    let labels = object.pointer("/spec/selector/matchLabels").or_else(|| object.pointer("/spec/selector"))?;
    let pairs = labels.as_object()?.iter().filter_map(|(k, v)| Some(format!("{k}={}", v.as_str()?)));
    Some(pairs.collect::<Vec<_>>().join(","))
}
