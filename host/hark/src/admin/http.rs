//! The paths of the admin port: which request gets which document.
//!
//! Used by the connections. Invariants: GET and HEAD only, but for the replay of a dead letter; every answer has a type, is not to be stored, and never
//! depends on a plugin's cooperation.

use bytes::Bytes;
use http_body_util::Full;
use hyper::header::{ALLOW, CACHE_CONTROL, CONTENT_TYPE, HeaderValue, X_CONTENT_TYPE_OPTIONS};
use hyper::{Method, Request, Response, StatusCode};
use serde::Serialize;

use super::readiness::{self, Check};
use super::snapshot::{Snapshot, Sources};
use super::{api, exposition, metrics, replay};

/// Every path there is, for the answer to any other.
const PATHS: [&str; 6] =
    ["/livez", "/readyz", "/metrics", "/api/informers", "/api/plugins", "/api/dead-letters/ID/replay"];

const TEXT: &str = "text/plain; charset=utf-8";
const JSON: &str = "application/json";

/// An answer on its way.
pub(super) type Answer = Response<Full<Bytes>>;

/// What is wrong with a request.
#[derive(Serialize)]
struct Refusal {
    error: &'static str,
    paths: [&'static str; 6],
}

/// Answers a request; its body, if any, is not read.
pub(super) async fn answer<B>(request: &Request<B>, sources: &Sources) -> Answer {
    let (path, query) = (request.uri().path(), request.uri().query().unwrap_or_default());
    if let Some(id) = replay::id_of(path) {
        return replay::answer(request, id, sources).await;
    }
    if !PATHS.contains(&path) {
        return refused(StatusCode::NOT_FOUND, "there is no such path");
    }
    if !matches!(*request.method(), Method::GET | Method::HEAD) {
        let mut answer = refused(StatusCode::METHOD_NOT_ALLOWED, "only GET and HEAD are answered");
        answer.headers_mut().insert(ALLOW, HeaderValue::from_static("GET, HEAD"));
        return answer;
    }
    let verbose = query.split('&').any(|part| part == "verbose" || part.starts_with("verbose="));
    match path {
        "/livez" => checks("livez", &[readiness::alive(sources.pulse.check().await)], verbose),
        "/readyz" => checks("readyz", &readiness::checks(&Snapshot::take(sources)), verbose),
        "/metrics" => {
            let text = metrics::expose(&Snapshot::take(sources));
            document(StatusCode::OK, exposition::CONTENT_TYPE, text)
        }
        "/api/informers" => json(StatusCode::OK, &api::informers(&Snapshot::take(sources))),
        _ => json(StatusCode::OK, &api::plugins(&Snapshot::take(sources))),
    }
}

/// As a kube-apiserver answers: `ok`, or every check by itself where asked for or where something is wrong.
fn checks(endpoint: &str, checks: &[Check], verbose: bool) -> Answer {
    let good = checks.iter().all(Check::passes);
    let status = if good { StatusCode::OK } else { StatusCode::SERVICE_UNAVAILABLE };
    if good && !verbose {
        return document(status, TEXT, "ok".to_owned());
    }
    let lines: String = checks.iter().map(|check| format!("{check}\n")).collect();
    let verdict = if good { "passed" } else { "failed" };
    document(status, TEXT, format!("{lines}{endpoint} check {verdict}\n"))
}

fn refused(status: StatusCode, error: &'static str) -> Answer {
    json(status, &Refusal { error, paths: PATHS })
}

pub(super) fn json(status: StatusCode, value: &impl Serialize) -> Answer {
    match serde_json::to_string(value) {
        Ok(text) => document(status, JSON, text + "\n"),
        Err(error) => document(StatusCode::INTERNAL_SERVER_ERROR, TEXT, error.to_string()),
    }
}

fn document(status: StatusCode, content_type: &'static str, text: String) -> Answer {
    let mut answer = Response::new(Full::new(Bytes::from(text)));
    *answer.status_mut() = status;
    let headers = answer.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static(content_type));
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
    headers.insert(X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    answer
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(text: &str, passes: bool) -> Check {
        let silent = || Err(super::super::pulse::Silent);
        let check = readiness::alive(if passes { Ok(()) } else { silent() });
        assert!(check.to_string().contains(text), "{check}");
        check
    }

    async fn body(answer: Answer) -> String {
        let bytes =
            http_body_util::BodyExt::collect(answer.into_body()).await.expect("it is whole").to_bytes();
        String::from_utf8(bytes.to_vec()).expect("text")
    }

    #[tokio::test]
    async fn checks_answer_as_a_kube_apiserver_does() {
        let (good, bad) = (|| check("[+]manager ok", true), || check("[-]manager failed", false));
        let silent = "[-]manager failed: the plugin manager's loop has not turned for 2 s\n";
        for (list, verbose, status, text) in [
            (vec![good()], false, 200, "ok".to_owned()),
            (vec![good()], true, 200, "[+]manager ok\nreadyz check passed\n".to_owned()),
            (vec![good(), bad()], false, 503, format!("[+]manager ok\n{silent}readyz check failed\n")),
            (vec![bad()], true, 503, format!("{silent}readyz check failed\n")),
        ] {
            let answer = checks("readyz", &list, verbose);
            assert_eq!(answer.status().as_u16(), status);
            assert_eq!(answer.headers()[CONTENT_TYPE], TEXT);
            assert_eq!(body(answer).await, text);
        }
    }

    #[tokio::test]
    async fn a_refusal_names_the_paths_there_are() {
        let answer = refused(StatusCode::NOT_FOUND, "there is no such path");
        assert_eq!(
            (answer.status().as_u16(), &answer.headers()[CONTENT_TYPE]),
            (404, &HeaderValue::from_static(JSON))
        );
        let want = "{\"error\":\"there is no such path\",\"paths\":[\"/livez\",\"/readyz\",\"/metrics\",\
                    \"/api/informers\",\"/api/plugins\",\"/api/dead-letters/ID/replay\"]}\n";
        assert_eq!(body(answer).await, want);
    }
}
