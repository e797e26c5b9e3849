//! Which form of an answer a client wants, from its `Accept` header.
//!
//! Used by every answer with objects in it and by discovery.

use crate::status::ApiError;

/// Forms in which objects are answered.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Form {
    Plain,
    /// `as=Table`
    Table,
    /// `as=PartialObjectMetadata` or the list of it.
    Partial,
}

/// One media range.
struct Range<'a> {
    media: &'a str,
    parameters: Vec<(&'a str, &'a str)>,
}

impl Range<'_> {
    fn parameter(&self, name: &str) -> Option<&str> {
        self.parameters.iter().find(|(k, _)| k.eq_ignore_ascii_case(name)).map(|(_, v)| *v)
    }

    fn is_json(&self) -> bool {
        matches!(self.media, "application/json" | "*/*" | "application/*")
    }
}

fn ranges(accept: &str) -> impl Iterator<Item = Range<'_>> {
    accept.split(',').map(|range| {
        let mut parts = range.split(';').map(str::trim);
        let media = parts.next().unwrap_or_default();
        Range { media, parameters: parts.filter_map(|p| p.split_once('=')).collect() }
    })
}

/// The first form in the list that can be had.
pub(crate) fn form(accept: &str, list: bool) -> Result<Form, ApiError> {
    if accept.is_empty() {
        return Ok(Form::Plain);
    }
    let json = ranges(accept).filter(Range::is_json);
    let forms = json.filter_map(|range| match range.parameter("as") {
        None => Some(Form::Plain),
        Some("Table") if group_v1(&range) => Some(Form::Table),
        Some("PartialObjectMetadataList") if group_v1(&range) && list => Some(Form::Partial),
        Some("PartialObjectMetadata") if group_v1(&range) => Some(Form::Partial),
        Some(_) => None,
    });
    forms.into_iter().next().ok_or_else(|| {
        ApiError::NotAcceptable(
            "406: Not Acceptable\n\nAvailable representations: application/json, application/json;stream=watch".into(),
        )
    })
}

fn group_v1(range: &Range<'_>) -> bool {
    range.parameter("g") == Some("meta.k8s.io") && range.parameter("v") == Some("v1")
}

/// Forms of discovery.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Discovery {
    Plain,
    /// All groups at once, `apidiscovery.k8s.io/v2`.
    Aggregated,
}

pub(crate) fn discovery(accept: &str) -> Result<Discovery, ApiError> {
    if accept.is_empty() {
        return Ok(Discovery::Plain);
    }
    let found = ranges(accept).filter(Range::is_json).find_map(|range| match range.parameter("as") {
        None => Some(Discovery::Plain),
        Some("APIGroupDiscoveryList") if range.parameter("v") == Some("v2") => Some(Discovery::Aggregated),
        Some(_) => None,
    });
    found.ok_or_else(|| {
        ApiError::NotAcceptable("only the following media types are accepted: application/json".into())
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_form_that_can_be_had_wins() {
        for (accept, list, expected) in [
            ("", true, Some(Form::Plain)),
            ("*/*", true, Some(Form::Plain)),
            ("application/vnd.kubernetes.protobuf,application/json", true, Some(Form::Plain)),
            (
                "application/json;as=Table;v=v1;g=meta.k8s.io,application/json;as=Table;v=v1beta1;g=meta.k8s.io,application/json",
                true,
                Some(Form::Table),
            ),
            ("application/json;as=Table;v=v1beta1;g=meta.k8s.io,application/json", true, Some(Form::Plain)),
            (
                "application/json;as=PartialObjectMetadataList;v=v1;g=meta.k8s.io,application/json",
                true,
                Some(Form::Partial),
            ),
            ("application/json;as=PartialObjectMetadata;v=v1;g=meta.k8s.io", false, Some(Form::Partial)),
            ("application/json;stream=watch", true, Some(Form::Plain)),
            ("application/xml", true, None),
            ("application/vnd.kubernetes.protobuf", true, None),
            ("application/json;as=Nonsense;v=v1;g=meta.k8s.io", true, None),
        ] {
            assert_eq!(form(accept, list).ok(), expected, "{accept}");
        }
    }

    #[test]
    fn aggregated_discovery_is_given_to_those_who_ask_for_v2() {
        let kubectl = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList,application/json;g=apidiscovery.k8s.io;v=v2beta1;as=APIGroupDiscoveryList,application/json";
        assert_eq!(discovery(kubectl).ok(), Some(Discovery::Aggregated));
        assert_eq!(discovery("application/json").ok(), Some(Discovery::Plain));
        assert!(
            discovery("application/json;g=apidiscovery.k8s.io;v=v2beta1;as=APIGroupDiscoveryList").is_err()
        );
    }
}
