//! The list states: everything that there is, by list requests (rules R-LIST).
//!
//! Invariant: a list is put into the store whole or not at all.

use tokio::time::{Instant, sleep_until};

use super::{ListOutcome, ListReason, ListWay, Phase, Reflector, ReflectorStore, State};
use crate::list_watch::{ListPage, ListParams, Turn};
use crate::status::ApiError;

/// Objects a page (rule R-LIST-2).
const PAGE_SIZE: u32 = 500;

/// How often one page after the first is asked for, while the server is too busy or cannot be reached.
const PAGE_ATTEMPTS: u32 = 5;

impl<S: ReflectorStore> Reflector<S> {
    /// Lists. The turn is given back when the list is in the store.
    pub(super) async fn list(&mut self, _turn: Turn) -> State {
        self.health.phase(Phase::Listing);
        let begin = Instant::now();
        let list = self.list_at_some_version().await;
        let outcome = if list.is_ok() { ListOutcome::Ok } else { ListOutcome::Failed };
        self.metrics.listed(ListWay::List, outcome, begin.elapsed());
        match list {
            Ok(list) => {
                self.listed(list.items, list.resource_version);
                State::Watch
            }
            Err(error) => self.cycle_failed(&error),
        }
    }

    /// R-LIST-1, R-LIST-5: at the last version; if the server cannot serve it, at once without.
    async fn list_at_some_version(&mut self) -> Result<ListPage, ApiError> {
        let version = match self.version.as_str() {
            _ if self.version_unavailable => "",
            "" => "0",
            last => last,
        }
        .to_owned();
        let limit = self.page_limit(&version);
        let list = self.list_pages(&version, limit).await;
        match list {
            Err(error) if error.makes_version_unavailable() => {
                self.version_is_unavailable(&error);
                self.list_pages("", limit).await
            }
            list => list,
        }
    }

    /// The next list is asked for at once, at no version.
    pub(super) fn version_is_unavailable(&mut self, error: &ApiError) {
        let is_expired = error.status().is_some_and(|status| status.is_expired());
        self.metrics.list_begun(if is_expired { ListReason::Expired } else { ListReason::TooLarge });
        self.version_unavailable = true;
    }

    /// R-LIST-2.
    fn page_limit(&self, version: &str) -> u32 {
        let no_limit = !matches!(version, "" | "0") && !self.paginated;
        self.options.page_size.unwrap_or(if no_limit { 0 } else { PAGE_SIZE })
    }

    /// R-LIST-3, R-LIST-4: page by page, the version being the first page's; if the continuation is too old,
    /// once more in one piece.
    async fn list_pages(&mut self, version: &str, limit: u32) -> Result<ListPage, ApiError> {
        let first = ListParams { resource_version: version.to_owned(), limit, ..ListParams::default() };
        let mut list = self.list_page(first.clone()).await?;
        let is_paged = !list.continue_token.is_empty();
        while !list.continue_token.is_empty() {
            let continue_token = std::mem::take(&mut list.continue_token);
            let next = ListParams { limit, continue_token: continue_token.clone(), ..ListParams::default() };
            match self.list_next_page(next).await {
                Ok(page) if page.continue_token == continue_token => {
                    return Err(ApiError::Decode("the list's pages do not end".into()));
                }
                Ok(page) => {
                    list.items.extend(page.items);
                    list.continue_token = page.continue_token;
                }
                Err(error) if error.status().is_some_and(|status| status.is_expired()) => {
                    list = self.list_page(ListParams { limit: 0, ..first.clone() }).await?;
                    break;
                }
                Err(error) => return Err(error),
            }
        }
        // R-LIST-6
        self.paginated |= is_paged && version == "0";
        Ok(list)
    }

    async fn list_page(&mut self, params: ListParams) -> Result<ListPage, ApiError> {
        let page = self.source.list(params).await?;
        self.metrics.page(page.items.len());
        Ok(page)
    }

    /// A page after the first. Asked for again while the server is too busy or cannot be reached, so that a
    /// long list need not begin anew (what client-go's REST layer does, section 1.10).
    async fn list_next_page(&mut self, params: ListParams) -> Result<ListPage, ApiError> {
        for _ in 1..PAGE_ATTEMPTS {
            match self.list_page(params.clone()).await {
                Err(error) if error.may_pass_soon() => {
                    self.health.failed(error.problem_kind(), error.to_string());
                    let until = Instant::now() + self.next_wait(&error);
                    self.health.phase(Phase::Waiting { until });
                    sleep_until(until).await;
                    self.health.phase(Phase::Listing);
                }
                answer => return answer,
            }
        }
        self.list_page(params).await
    }
}
