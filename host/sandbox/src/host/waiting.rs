//! `wasi:io/poll`: the one interface through which a guest can wait today.
//!
//! Linked in place of wasmtime-wasi's own, to which it hands over. Invariants: a host call that may wait says its
//! name first, so that a wait that is too long can be named (`limits.host_call`); what is waited for is bounded, since
//! wasmtime-wasi makes a future of each pollable, and polls all of them at each step.

use wasmtime::component::{HasData, Resource, ResourceTable};
use wasmtime_wasi::p2::DynPollable;
use wasmtime_wasi_io::bindings::wasi::io::poll::{Host, HostPollable};

use crate::host_calls::HostCalls;
use crate::limiter::CapExceeded;

/// What waiting needs of a store.
pub(crate) struct Waiting<'a> {
    pub(crate) table: &'a mut ResourceTable,
    pub(crate) calls: &'a HostCalls,
    /// Pollables that may be waited for at once.
    pub(crate) most: usize,
}

/// Names [`Waiting`] to the linker.
pub(super) struct HasWaiting;

impl HasData for HasWaiting {
    type Data<'a> = Waiting<'a>;
}

impl Host for Waiting<'_> {
    async fn poll(&mut self, pollables: Vec<Resource<DynPollable>>) -> wasmtime::Result<Vec<u32>> {
        // A list may name one pollable many times: the table's size does not bound it.
        if pollables.len() > self.most {
            return Err(CapExceeded::Pollables { cap: self.most, wanted: pollables.len() }.into());
        }
        self.calls.is_called("wasi:io/poll.poll");
        Host::poll(self.table, pollables).await
    }
}

impl HostPollable for Waiting<'_> {
    async fn block(&mut self, pollable: Resource<DynPollable>) -> wasmtime::Result<()> {
        self.calls.is_called("wasi:io/poll.pollable.block");
        HostPollable::block(self.table, pollable).await
    }

    async fn ready(&mut self, pollable: Resource<DynPollable>) -> wasmtime::Result<bool> {
        HostPollable::ready(self.table, pollable).await
    }

    fn drop(&mut self, pollable: Resource<DynPollable>) -> wasmtime::Result<()> {
        HostPollable::drop(self.table, pollable)
    }
}
