//! How long the client waits for what, and how much a connection carries.
//!
//! Used by everything below [`Client`](super::Client). Invariant: the defaults notice a dead API server before the
//! API server's own limits would, and never cut off a live one that has nothing to say.

use std::time::Duration;

/// How long the client waits for what. The defaults leave the API server's own limits (60 s for a request)
/// time to be told.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ClientLimits {
    /// For a connection: address, TCP, proxy, TLS and, over HTTP/2, the server's settings.
    pub connect: Duration,
    /// For the head of an answer, connecting included.
    pub response: Duration,
    /// For the next bytes of a list or a discovery document.
    pub body_idle: Duration,
    /// For the next bytes of a watch, beyond its `timeoutSeconds`: a connection that is dead at the other end
    /// says nothing, while a live server ends the watch (rule of section 1.10, pitfall #65012). It is what
    /// notices over HTTP/1.1; over HTTP/2 the pings below do, long before.
    pub watch_slack: Duration,
    /// Over HTTP/2: a ping after this long without a frame (section 1.10: 30 s).
    pub ping_interval: Duration,
    /// Over HTTP/2: the connection is given up this long after a ping without an answer (section 1.10: 15 s).
    /// All its watches end then, and are opened again on another one.
    pub ping_timeout: Duration,
    /// Over HTTP/2: most requests at a time on one connection; the server may allow fewer. kube-apiserver
    /// allows 100 by default. Beyond that there is another connection, since watches stay for minutes and a
    /// list must not wait for them. At least 1.
    pub streams: usize,
}

impl Default for ClientLimits {
    fn default() -> Self {
        Self {
            connect: Duration::from_secs(10),
            response: Duration::from_secs(75),
            body_idle: Duration::from_secs(60),
            watch_slack: Duration::from_secs(30),
            ping_interval: Duration::from_secs(30),
            ping_timeout: Duration::from_secs(15),
            streams: 100,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_defaults_notice_a_dead_connection_when_client_go_does() {
        let limits = ClientLimits::default();
        assert_eq!(limits.ping_interval, Duration::from_secs(30), "section 1.10");
        assert_eq!(limits.ping_timeout, Duration::from_secs(15), "section 1.10");
        assert!(
            limits.ping_interval + limits.ping_timeout < limits.body_idle,
            "pings come before the second line"
        );
    }
}
