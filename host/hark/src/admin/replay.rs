//! `POST /api/dead-letters/ID/replay`: the one path of the admin port that changes something.
//!
//! Used by `hark dead-letters replay`. Invariant: a web page cannot have a browser ask for it: a request needs the
//! header [`GUARD`], which a page of another site may not send, and must not have an `Origin`, which a browser always
//! sends with a POST, also to a name that a page has pointed at this address.

use hyper::header::{ALLOW, HeaderValue, ORIGIN};
use hyper::{Method, Request, StatusCode};
use serde::Serialize;

use super::http::{Answer, json};
use super::snapshot::Sources;
use crate::dead_letters::Replayed;

/// The header that says that no web page asks; its value does not matter.
pub(crate) const GUARD: &str = "x-hark";

/// What became of it.
#[derive(Serialize)]
struct Document<'a> {
    id: &'a str,
    /// `queued` or `obsolete`.
    result: &'static str,
    message: &'static str,
}

/// What is wrong.
#[derive(Serialize)]
struct Refusal<'a> {
    error: &'a str,
}

/// The id in a path of this kind.
pub(super) fn id_of(path: &str) -> Option<&str> {
    let id = path.strip_prefix("/api/dead-letters/")?.strip_suffix("/replay")?;
    (!id.is_empty() && !id.contains('/')).then_some(id)
}

/// Answers a request for the letter with this id.
pub(super) async fn answer<B>(request: &Request<B>, id: &str, sources: &Sources) -> Answer {
    if request.method() != Method::POST {
        let mut answer = refused(StatusCode::METHOD_NOT_ALLOWED, "only POST is answered");
        answer.headers_mut().insert(ALLOW, HeaderValue::from_static("POST"));
        return answer;
    }
    let headers = request.headers();
    if !headers.contains_key(GUARD) || headers.contains_key(ORIGIN) {
        let error = "this needs the header X-Hark, and none named Origin: web pages may not ask";
        return refused(StatusCode::FORBIDDEN, error);
    }
    let view = sources.views.borrow().clone();
    let find = |plugin: &str| {
        let plugin = view.plugins.iter().find(|one| one.name == plugin)?;
        Some(plugin.running.as_ref()?.listener.clone())
    };
    match sources.dead_letters.replay(id, find).await {
        Replayed::Queued => json(StatusCode::ACCEPTED, &Document { id, result: "queued", message: "" }),
        Replayed::Obsolete(message) => json(StatusCode::OK, &Document { id, result: "obsolete", message }),
        Replayed::Refused(error) => refused(StatusCode::CONFLICT, &error),
        Replayed::Unknown => refused(StatusCode::NOT_FOUND, "there is no such dead letter"),
        Replayed::Unreadable(error) => refused(StatusCode::SERVICE_UNAVAILABLE, &error),
    }
}

fn refused(status: StatusCode, error: &str) -> Answer {
    json(status, &Refusal { error })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_has_one_id() {
        assert_eq!(id_of("/api/dead-letters/0a/replay"), Some("0a"));
        for other in
            ["/api/dead-letters//replay", "/api/dead-letters/a/b/replay", "/api/dead-letters/a", "/replay"]
        {
            assert_eq!(id_of(other), None, "{other}");
        }
    }
}
