//! What a store carries for its guest: everything that an import may reach.
//!
//! Made by `instance`, one for each instance. Invariant: it holds no capability beyond the plugin's own
//! words, settings and cache; of WASI only clocks, random numbers and the two output streams do anything.

use std::sync::Arc;

use hark_informer::cache::CacheReader;
use hark_informer::handler::Delivery;
use wasmtime::component::ResourceTable;
use wasmtime_wasi::{WasiCtx, WasiCtxView, WasiView};

use crate::context::Context;
use crate::deadline::Deadline;
use crate::guest_log::LogSource;
use crate::host::{AskedFields, Waiting};
use crate::instance::Purpose;
use crate::limiter::Limiter;
use crate::output::Output;
use crate::settings::Settings;
use crate::stdio::Stream;
use crate::usage::Usage;

/// Bytes of random numbers in one request: a millisecond or two of work. A larger request traps.
const RANDOM_BYTES: u64 = 1 << 20;

/// The data of one store.
pub(crate) struct GuestState {
    pub(crate) settings: Arc<Settings>,
    pub(crate) output: Arc<Output>,
    /// The plugin's cache; none in `describe`, and in an instance of a new version before it is told of anything.
    pub(crate) cache: Option<Arc<dyn CacheReader>>,
    /// What the last question to the cache asked for.
    pub(crate) fields: AskedFields,
    /// The event being handled.
    pub(crate) delivery: Option<Delivery>,
    pub(crate) deadline: Arc<Deadline>,
    pub(crate) limiter: Limiter,
    /// Bytes of one answer of the cache.
    pub(crate) page_bytes: usize,
    pub(crate) usage: Arc<Usage>,
    /// Pollables that the guest may wait for at once.
    handles: usize,
    wasi: WasiCtx,
    table: ResourceTable,
}

impl GuestState {
    pub(crate) fn new(
        context: &Context,
        output: &Arc<Output>,
        purpose: Purpose,
        deadline: Arc<Deadline>,
    ) -> Self {
        let (limits, usage) = (&context.limits, &context.usage);
        let (cache, counted) = match purpose {
            Purpose::Describe => (None, false),
            Purpose::Events(cache) => (cache, true),
        };
        let mut table = ResourceTable::new();
        table.set_max_capacity(limits.handles);
        Self {
            settings: Arc::clone(&context.settings),
            output: Arc::clone(output),
            cache,
            fields: AskedFields::default(),
            delivery: None,
            deadline,
            limiter: Limiter::new(limits, usage, counted),
            page_bytes: limits.page,
            usage: Arc::clone(usage),
            handles: limits.handles,
            wasi: wasi(output),
            table,
        }
    }
}

impl GuestState {
    /// What a guest needs to wait for something.
    pub(crate) fn waiting(&mut self) -> Waiting<'_> {
        Waiting { table: &mut self.table, calls: self.deadline.calls(), most: self.handles }
    }
}

impl WasiView for GuestState {
    fn ctx(&mut self) -> WasiCtxView<'_> {
        WasiCtxView { ctx: &mut self.wasi, table: &mut self.table }
    }
}

/// The builder starts with no files, arguments, environment or input; the network is refused in so many
/// words, so that a changed default could not open it.
fn wasi(output: &Arc<Output>) -> WasiCtx {
    WasiCtx::builder()
        .stdout(Stream::new(output, LogSource::Stdout))
        .stderr(Stream::new(output, LogSource::Stderr))
        .allow_tcp(false)
        .allow_udp(false)
        .allow_ip_name_lookup(false)
        .socket_addr_check(|_, _| Box::pin(async { false }))
        .max_random_size(RANDOM_BYTES)
        .build()
}
