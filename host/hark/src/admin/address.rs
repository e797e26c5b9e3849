//! Where the admin port is asked to be: an address, or nowhere.
//!
//! Used by the command line and the configuration. Invariant: what may go wrong with the text is said here, before
//! anything is started.

use std::fmt;
use std::net::{Ipv4Addr, SocketAddr};
use std::str::FromStr;

/// `127.0.0.1:9464`, or `off`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum AdminAddress {
    /// There is no admin port.
    Off,
    /// It listens here; port 0 takes a free one.
    At(SocketAddr),
}

/// The text is neither an address nor `off`.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
#[error("expected an IP address with a port such as \"127.0.0.1:9464\", or \"off\", found {0:?}")]
pub(crate) struct AddressError(String);

impl Default for AdminAddress {
    /// Loopback: there is no access control, so other machines reach it only where that is asked for. The port is
    /// the one that exporters of the OpenTelemetry family use.
    fn default() -> Self {
        Self::At(SocketAddr::from((Ipv4Addr::LOCALHOST, 9464)))
    }
}

impl FromStr for AdminAddress {
    type Err = AddressError;

    fn from_str(text: &str) -> Result<Self, AddressError> {
        if text == "off" {
            return Ok(Self::Off);
        }
        text.parse().map(Self::At).map_err(|_| AddressError(text.to_owned()))
    }
}

impl fmt::Display for AdminAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Off => f.write_str("off"),
            Self::At(address) => address.fmt(f),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_has_a_port_and_off_is_none() {
        assert_eq!("off".parse(), Ok(AdminAddress::Off));
        for good in ["127.0.0.1:9464", "0.0.0.0:0", "[::1]:80"] {
            assert_eq!(good.parse::<AdminAddress>().map(|address| address.to_string()), Ok(good.to_owned()));
        }
        for bad in ["", "Off", "127.0.0.1", "9464", ":9464", "localhost:9464", "127.0.0.1:99999"] {
            assert_eq!(bad.parse::<AdminAddress>(), Err(AddressError(bad.to_owned())), "{bad}");
        }
        assert_eq!(AdminAddress::default().to_string(), "127.0.0.1:9464");
    }
}
