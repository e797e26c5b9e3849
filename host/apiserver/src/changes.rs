//! The requests that change something: create, update, patch, delete, and the subresources.
//!
//! Used by `service.rs`, which has answered reads already.

use std::sync::Arc;

use hyper::Method;
use serde_json::{Value, json};

use crate::delete::{self, Deleted, Preconditions};
use crate::patch::{Kind, Patch};
use crate::resources::Verbs;
use crate::service::{Answer, Call, document};
use crate::status::{ApiError, Status};
use crate::store::Store;
use crate::write::{self, By, Part, Written};
use crate::{list, managed, protobuf, reviews, scale};

pub(crate) async fn dispatch(store: &Store, call: &Call) -> Result<Answer, ApiError> {
    let (name, sub) = (call.path.name.as_str(), call.path.subresource.as_str());
    match (call.method.clone(), name, sub) {
        (Method::POST, "", "") => create(store, call),
        (Method::PUT, _, "") if !name.is_empty() => put(store, call, Part::Main),
        (Method::PATCH, _, "") if !name.is_empty() => patch(store, call, Part::Main),
        (Method::DELETE, "", "") => delete_collection(store, call).await,
        (Method::DELETE, _, "") => delete(store, call),
        (Method::PUT, _, "status") if call.view.version().status => put(store, call, Part::Status),
        (Method::PATCH, _, "status") if call.view.version().status => patch(store, call, Part::Status),
        (Method::PUT, _, "finalize") => put(store, call, Part::Main),
        (_, _, "scale") => scale::answer(store, call),
        (Method::POST, _, "eviction") if call.view.resource.is("pods") => evict(store, call),
        (Method::POST, _, "binding") if call.view.resource.is("pods") => bind(store, call),
        (_, _, sub) if !sub.is_empty() => Err(ApiError::UnknownResource),
        _ => Err(ApiError::MethodNotAllowed),
    }
}

/// JSON and Kubernetes' protobuf are understood, YAML is politely refused.
fn check_media_type(call: &Call) -> Result<(), ApiError> {
    let media = call.content_type.split(';').next().unwrap_or_default().trim();
    if matches!(media, "" | "application/json" | "*/*" | protobuf::MEDIA_TYPE) {
        return Ok(());
    }
    Err(ApiError::UnsupportedMediaType(
        "the body of the request was in an unknown format - accepted media types include: application/json, application/vnd.kubernetes.protobuf".into(),
    ))
}

pub(crate) fn by(call: &Call) -> By {
    let agent = call.user_agent.split('/').next().unwrap_or_default();
    let manager = if call.options.field_manager.is_empty() { agent } else { &call.options.field_manager };
    By {
        manager: manager.to_owned(),
        dry_run: call.options.dry_run,
        strict: call.options.field_validation == "Strict",
        ..By::default()
    }
}

pub(crate) fn shown(call: &Call, written: &Written) -> Result<Answer, ApiError> {
    let code = if written.created { 201 } else { 200 };
    Ok(call.show(code, &written.object)?.warn(&written.warnings))
}

fn create(store: &Store, call: &Call) -> Result<Answer, ApiError> {
    check_media_type(call)?;
    call.form(false)?;
    let document = document(call)?;
    if call.view.resource.verbs == Verbs::CreateOnly {
        return Ok(Answer::json(201, format!("{}\n", reviews::answer(&call.view, document))));
    }
    let mut state = store.lock();
    let written = write::create(&mut state, &call.view, &call.path.namespace, document, &by(call))?;
    drop(state);
    shown(call, &written)
}

fn put(store: &Store, call: &Call, part: Part) -> Result<Answer, ApiError> {
    check_media_type(call)?;
    let document = document(call)?;
    let at = (call.path.namespace.as_str(), call.path.name.as_str());
    let written = write::update(&mut store.lock(), &call.view, at, part, &by(call), |_| Ok(document))?;
    shown(call, &written)
}

fn patch(store: &Store, call: &Call, part: Part) -> Result<Answer, ApiError> {
    let at = (call.path.namespace.as_str(), call.path.name.as_str());
    let kind = Kind::of(&call.content_type, &call.view)?;
    let mut state = store.lock();
    let written = if kind == Kind::Apply {
        let config = document(call)?;
        managed::apply(&mut state, &call.view, at, part, &call.options, config)?
    } else {
        let patch = Patch::parse(kind, &call.body)?;
        let view = &call.view;
        write::update(&mut state, view, at, part, &by(call), |current| patch.apply(view, current))?
    };
    drop(state);
    shown(call, &written)
}

fn preconditions(call: &Call) -> Result<Preconditions, ApiError> {
    let options = if call.body.is_empty() { json!({}) } else { document(call)? };
    let mut preconditions = Preconditions::from_options(&options);
    preconditions.dry_run |= call.options.dry_run;
    Ok(preconditions)
}

fn delete(store: &Store, call: &Call) -> Result<Answer, ApiError> {
    let preconditions = preconditions(call)?;
    let resource = Arc::clone(&call.view.resource);
    let (namespace, name) = (&call.path.namespace, &call.path.name);
    let deleted = delete::delete(&mut store.lock(), &resource, namespace, name, &preconditions)?;
    match deleted {
        Deleted::Object(object) => call.show(200, &object),
        Deleted::Gone(object) => {
            let mut body = Status::deleted(&resource.group_resource(), name, object.meta("uid")).to_json();
            body.push(b'\n');
            Ok(Answer::json(200, body))
        }
    }
}

async fn delete_collection(store: &Store, call: &Call) -> Result<Answer, ApiError> {
    if call.view.resource.verbs != Verbs::All {
        return Err(ApiError::MethodNotAllowed);
    }
    let form = call.form(true)?;
    let mut preconditions = preconditions(call)?;
    preconditions.uid = None;
    let selectors = call.selectors()?;
    let request = list::Request {
        view: &call.view,
        namespace: &call.path.namespace,
        selectors: &selectors,
        options: &call.options,
    };
    let page = request.read(store).await?;
    let mut state = store.lock();
    for object in &page.items {
        let (namespace, name) = (object.meta("namespace"), object.meta("name"));
        match delete::delete(&mut state, &call.view.resource, namespace, name, &preconditions) {
            // Somebody else was faster.
            Ok(_) | Err(ApiError::NotFound { .. }) => {}
            Err(error) => return Err(error),
        }
    }
    drop(state);
    Ok(Answer::json(200, page.encode(&call.view, form, &call.options.include_object)))
}

/// A success without an object.
fn done() -> Answer {
    let body = r#"{"kind":"Status","apiVersion":"v1","metadata":{},"status":"Success","code":201}"#;
    Answer::json(201, format!("{body}\n"))
}

fn evict(store: &Store, call: &Call) -> Result<Answer, ApiError> {
    let body = document(call)?;
    let preconditions = Preconditions::from_options(body.get("deleteOptions").unwrap_or(&Value::Null));
    let resource = Arc::clone(&call.view.resource);
    delete::delete(&mut store.lock(), &resource, &call.path.namespace, &call.path.name, &preconditions)?;
    Ok(done())
}

fn bind(store: &Store, call: &Call) -> Result<Answer, ApiError> {
    let body = document(call)?;
    let node = body.pointer("/target/name").cloned().unwrap_or_default();
    let at = (call.path.namespace.as_str(), call.path.name.as_str());
    write::update(&mut store.lock(), &call.view, at, Part::Main, &by(call), |current| {
        let mut pod = current.clone();
        crate::object::set_path(&mut pod, &["spec", "nodeName"], node);
        Ok(pod)
    })?;
    Ok(done())
}
