//! The query parameters of a request, parsed and checked as a kube-apiserver checks them.
//!
//! Used by lists, watches and writes. Invariant: options that contradict each other never get past here.

use std::time::Duration;

use crate::status::{ApiError, Cause, GroupResource};

/// All query parameters in one place; which of them count depends on the verb.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Options {
    pub(crate) watch: bool,
    pub(crate) label_selector: String,
    pub(crate) field_selector: String,
    pub(crate) resource_version: String,
    pub(crate) version_match: String,
    pub(crate) limit: usize,
    pub(crate) continue_token: String,
    pub(crate) timeout: Option<Duration>,
    pub(crate) bookmarks: bool,
    pub(crate) send_initial_events: Option<bool>,
    pub(crate) include_object: String,
    pub(crate) dry_run: bool,
    pub(crate) field_manager: String,
    pub(crate) field_validation: String,
    pub(crate) force: bool,
    pub(crate) pretty: bool,
}

impl Options {
    pub(crate) fn parse(query: &str) -> Result<Self, ApiError> {
        let mut options = Options::default();
        for (key, value) in form_urlencoded::parse(query.as_bytes()) {
            options.set(&key, &value)?;
        }
        Ok(options)
    }

    fn set(&mut self, key: &str, value: &str) -> Result<(), ApiError> {
        match key {
            "watch" => self.watch = boolean(value),
            "labelSelector" => value.clone_into(&mut self.label_selector),
            "fieldSelector" => value.clone_into(&mut self.field_selector),
            "resourceVersion" => value.clone_into(&mut self.resource_version),
            "resourceVersionMatch" => value.clone_into(&mut self.version_match),
            "limit" => self.limit = usize::try_from(integer(key, value)?).unwrap_or(0),
            "continue" => value.clone_into(&mut self.continue_token),
            "timeoutSeconds" => {
                let seconds = u64::try_from(integer(key, value)?).unwrap_or(0);
                self.timeout = (seconds > 0).then(|| Duration::from_secs(seconds));
            }
            "allowWatchBookmarks" => self.bookmarks = boolean(value),
            "sendInitialEvents" => self.send_initial_events = Some(boolean(value)),
            "includeObject" => value.clone_into(&mut self.include_object),
            "dryRun" if value == "All" => self.dry_run = true,
            "dryRun" if !value.is_empty() => return Err(invalid_dry_run(value)),
            "fieldManager" => value.clone_into(&mut self.field_manager),
            "fieldValidation" => value.clone_into(&mut self.field_validation),
            "force" => self.force = boolean(value),
            "pretty" => self.pretty = boolean(value),
            _ => {}
        }
        Ok(())
    }

    /// The version asked for, 0 where any will do.
    pub(crate) fn version(&self) -> Result<u64, ApiError> {
        if self.resource_version.is_empty() {
            return Ok(0);
        }
        let text = &self.resource_version;
        text.parse().map_err(|_| {
            let why = format!("Invalid value: {text:?}: strconv.ParseUint: parsing {text:?}: invalid syntax");
            if self.watch {
                ApiError::Storage(format!("resourceVersion: {why}"))
            } else {
                ApiError::BadRequest(format!("invalid resource version: resourceVersion: {why}"))
            }
        })
    }

    /// Refuses combinations that have no meaning.
    pub(crate) fn check_list(&self) -> Result<(), ApiError> {
        const FIELD: &str = "resourceVersionMatch";
        let mut causes = Vec::new();
        let given = !self.version_match.is_empty();
        if given && self.resource_version.is_empty() {
            causes.push(Cause::forbidden(
                FIELD,
                "resourceVersionMatch is forbidden unless resourceVersion is provided",
            ));
        }
        if given && !self.continue_token.is_empty() {
            causes
                .push(Cause::forbidden(FIELD, "resourceVersionMatch is forbidden when continue is provided"));
        }
        if given && !matches!(self.version_match.as_str(), "Exact" | "NotOlderThan") {
            causes.push(Cause::unsupported(FIELD, &self.version_match, &["Exact", "NotOlderThan", ""]));
        }
        if self.version_match == "Exact" && self.resource_version == "0" {
            causes.push(Cause::forbidden(
                FIELD,
                "resourceVersionMatch \"exact\" is forbidden for resourceVersion \"0\"",
            ));
        }
        if self.send_initial_events.is_some() {
            causes.push(Cause::forbidden("sendInitialEvents", "sendInitialEvents is forbidden for list"));
        }
        invalid_if(causes)?;
        if !self.continue_token.is_empty() && !matches!(self.resource_version.as_str(), "" | "0") {
            let text = "specifying resource version is not allowed when using continue";
            return Err(ApiError::BadRequest(text.into()));
        }
        Ok(())
    }

    /// The same for watches.
    pub(crate) fn check_watch(&self) -> Result<(), ApiError> {
        const FIELD: &str = "resourceVersionMatch";
        let mut causes = Vec::new();
        if self.send_initial_events.is_some() {
            if self.version_match != "NotOlderThan" {
                causes.push(Cause::forbidden(
                    FIELD,
                    "sendInitialEvents requires setting resourceVersionMatch to NotOlderThan",
                ));
                if !self.version_match.is_empty() {
                    causes.push(Cause::unsupported(FIELD, &self.version_match, &["NotOlderThan"]));
                }
            }
        } else if !self.version_match.is_empty() {
            causes.push(Cause::forbidden(
                FIELD,
                "resourceVersionMatch is forbidden for watch unless sendInitialEvents is provided",
            ));
        }
        invalid_if(causes)
    }
}

fn invalid_if(causes: Vec<Cause>) -> Result<(), ApiError> {
    if causes.is_empty() {
        return Ok(());
    }
    Err(ApiError::Invalid { resource: meta("ListOptions"), name: String::new(), causes })
}

/// One of the option kinds, which live in the group of metadata.
pub(crate) fn meta(kind: &str) -> GroupResource {
    GroupResource { group: "meta.k8s.io".into(), resource: kind.into() }
}

fn invalid_dry_run(value: &str) -> ApiError {
    let causes = vec![Cause::unsupported("dryRun", value, &["All"])];
    ApiError::Invalid { resource: meta("PatchOptions"), name: String::new(), causes }
}

/// As the real server reads them: present without a value is true, and so is anything but false.
fn boolean(value: &str) -> bool {
    !matches!(value, "0" | "false" | "False" | "f" | "F" | "FALSE")
}

fn integer(key: &str, value: &str) -> Result<i64, ApiError> {
    if value.is_empty() {
        return Ok(0);
    }
    value.parse().map_err(|_| {
        let text = format!("strconv.ParseInt: parsing {value:?}: invalid syntax");
        tracing::debug!(key, value, "a number was expected");
        ApiError::BadRequest(text)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn contradictory_list_options_are_refused() {
        for (query, message) in [
            (
                "resourceVersionMatch=NotOlderThan",
                r#"ListOptions.meta.k8s.io "" is invalid: resourceVersionMatch: Forbidden: resourceVersionMatch is forbidden unless resourceVersion is provided"#,
            ),
            (
                "resourceVersion=1&resourceVersionMatch=Foo",
                r#"ListOptions.meta.k8s.io "" is invalid: resourceVersionMatch: Unsupported value: "Foo": supported values: "Exact", "NotOlderThan", """#,
            ),
            (
                "resourceVersion=0&resourceVersionMatch=Exact",
                r#"ListOptions.meta.k8s.io "" is invalid: resourceVersionMatch: Forbidden: resourceVersionMatch "exact" is forbidden for resourceVersion "0""#,
            ),
            (
                "sendInitialEvents=true&resourceVersionMatch=NotOlderThan",
                r#"ListOptions.meta.k8s.io "" is invalid: [resourceVersionMatch: Forbidden: resourceVersionMatch is forbidden unless resourceVersion is provided, sendInitialEvents: Forbidden: sendInitialEvents is forbidden for list]"#,
            ),
            (
                "resourceVersion=5&continue=x",
                "specifying resource version is not allowed when using continue",
            ),
        ] {
            let error = Options::parse(query).expect(query).check_list().expect_err(query);
            assert_eq!(error.to_string(), message, "{query}");
        }
    }

    #[test]
    fn contradictory_watch_options_are_refused() {
        for (query, message) in [
            (
                "watch=1&sendInitialEvents=true",
                r#"ListOptions.meta.k8s.io "" is invalid: resourceVersionMatch: Forbidden: sendInitialEvents requires setting resourceVersionMatch to NotOlderThan"#,
            ),
            (
                "watch=1&sendInitialEvents=true&resourceVersionMatch=Exact&resourceVersion=2",
                r#"ListOptions.meta.k8s.io "" is invalid: [resourceVersionMatch: Forbidden: sendInitialEvents requires setting resourceVersionMatch to NotOlderThan, resourceVersionMatch: Unsupported value: "Exact": supported values: "NotOlderThan"]"#,
            ),
            (
                "watch=1&resourceVersionMatch=NotOlderThan&resourceVersion=2",
                r#"ListOptions.meta.k8s.io "" is invalid: resourceVersionMatch: Forbidden: resourceVersionMatch is forbidden for watch unless sendInitialEvents is provided"#,
            ),
        ] {
            let error = Options::parse(query).expect(query).check_watch().expect_err(query);
            assert_eq!(error.to_string(), message, "{query}");
        }
    }

    #[test]
    fn versions_that_are_no_numbers_are_refused_differently_by_lists_and_watches() {
        let list = Options::parse("resourceVersion=abc").expect("parses").version().expect_err("refused");
        assert_eq!((list.code(), list.reason()), (400, "BadRequest"));
        let watch =
            Options::parse("watch=true&resourceVersion=abc").expect("parses").version().expect_err("refused");
        assert_eq!((watch.code(), watch.reason()), (500, ""));
    }
}
