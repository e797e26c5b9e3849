//! The only door to the host: one function for each import of the contract, on the SDK's own types. Used by
//! the SDK's modules, by nobody outside. Invariant: `imports` (inside Wasm) and `testing` (natively) offer the
//! same functions, and nothing else in the crate knows which of the two it talks to.

#[cfg(target_arch = "wasm32")]
pub(crate) use imports::*;

#[cfg(not(target_arch = "wasm32"))]
pub(crate) use crate::testing::imports::*;

/// The real host, through the generated bindings.
#[cfg_attr(
    not(target_arch = "wasm32"),
    expect(dead_code, reason = "compiled natively too, so that it is checked there")
)]
mod imports {
    use crate::bindings::hark::plugin as wit;
    use crate::cache::Error;
    use crate::log::Level;

    pub(crate) fn log(level: Level, line: &str) {
        let level = match level {
            Level::Trace => wit::log::Level::Trace,
            Level::Debug => wit::log::Level::Debug,
            Level::Info => wit::log::Level::Info,
            Level::Warn => wit::log::Level::Warn,
            Level::Error => wit::log::Level::Error,
        };
        wit::log::log(level, line);
    }

    pub(crate) fn setting(key: &str) -> Option<String> {
        wit::settings::get(key)
    }

    pub(crate) fn settings() -> String {
        wit::settings::all()
    }

    pub(crate) fn sequence() -> u64 {
        wit::delivery::sequence()
    }

    pub(crate) fn attempt() -> u32 {
        wit::delivery::attempt()
    }

    pub(crate) fn arrived_ms() -> u64 {
        wit::delivery::arrived_ms()
    }

    pub(crate) fn cache_get(
        subscription: u32,
        namespace: &str,
        name: &str,
        fields: &[String],
    ) -> Result<Option<String>, Error> {
        wit::cache::get(subscription, namespace, name, fields).map_err(problem)
    }

    pub(crate) fn cache_page(
        subscription: u32,
        namespace: &str,
        fields: &[String],
        after: &str,
        limit: u32,
    ) -> Result<(Vec<String>, String), Error> {
        let page =
            wit::cache::list_objects(subscription, namespace, fields, after, limit).map_err(problem)?;
        Ok((page.objects, page.next))
    }

    pub(crate) fn cache_by_index(
        subscription: u32,
        index: &str,
        value: &str,
        fields: &[String],
        after: &str,
        limit: u32,
    ) -> Result<(Vec<String>, String), Error> {
        let page = wit::cache::by_index(subscription, index, value, fields, after, limit).map_err(problem)?;
        Ok((page.objects, page.next))
    }

    pub(crate) fn cache_values(
        subscription: u32,
        index: &str,
        after: &str,
        limit: u32,
    ) -> Result<(Vec<String>, String), Error> {
        let page = wit::cache::index_values(subscription, index, after, limit).map_err(problem)?;
        Ok((page.values, page.next))
    }

    fn problem(problem: wit::cache::Problem) -> Error {
        match problem {
            wit::cache::Problem::NotSynced => Error::NotSynced,
            wit::cache::Problem::UnknownSubscription => Error::UnknownSubscription,
            wit::cache::Problem::UnknownIndex => Error::UnknownIndex,
            wit::cache::Problem::Invalid => Error::Invalid,
            wit::cache::Problem::Other => Error::Other,
        }
    }
}
