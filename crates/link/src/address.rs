//! Where a process listens.

use std::fmt;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::str::FromStr;

use thiserror::Error;

/// Where a process listens or is reached.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Address {
    /// A Unix socket without a file, `unix:@name`: nothing is left behind, whichever process is killed.
    Abstract(String),
    /// A Unix socket with a file, `unix:/path`: can be shared with a container.
    Path(PathBuf),
    /// A TCP port, `tcp:host:port`.
    Tcp(SocketAddr),
    /// A TCP port at which two sides tell each other where they are on a fabric, `ofi:host:port`.
    Ofi(SocketAddr),
}

/// Why a text is no address.
#[derive(Clone, PartialEq, Eq, Error)]
#[error("“{text}” is no address: {why}; write unix:@name, unix:/path, tcp:ip:port or ofi:ip:port")]
pub struct AddressError {
    text: String,
    why: &'static str,
}

outboard_wire::debug_with_causes!(AddressError);

/// The longest name of a Unix socket that the kernel allows.
const UNIX_NAME_MAX: usize = 107;

impl FromStr for Address {
    type Err = AddressError;

    fn from_str(text: &str) -> Result<Self, AddressError> {
        let error = |why| AddressError { text: text.to_owned(), why };
        if let Some(name) = text.strip_prefix("unix:@") {
            match name.len() {
                0 => Err(error("the name is empty")),
                len if len > UNIX_NAME_MAX => Err(error("the name is over 107 bytes")),
                _ => Ok(Self::Abstract(name.to_owned())),
            }
        } else if let Some(path) = text.strip_prefix("unix:") {
            match path.len() {
                len if len > UNIX_NAME_MAX => Err(error("the path is over 107 bytes")),
                _ if path.starts_with('/') => Ok(Self::Path(path.into())),
                _ => Err(error("the path is not absolute")),
            }
        } else if let Some(socket) = text.strip_prefix("tcp:") {
            let address = socket.parse().map_err(|_| error("what follows tcp: is not ip:port"))?;
            Ok(Self::Tcp(address))
        } else if let Some(socket) = text.strip_prefix("ofi:") {
            let address = socket.parse().map_err(|_| error("what follows ofi: is not ip:port"))?;
            Ok(Self::Ofi(address))
        } else {
            Err(error("it begins with neither unix: nor tcp: nor ofi:"))
        }
    }
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Abstract(name) => write!(f, "unix:@{name}"),
            Self::Path(path) => write!(f, "unix:{}", path.display()),
            Self::Tcp(address) => write!(f, "tcp:{address}"),
            Self::Ofi(address) => write!(f, "ofi:{address}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_read_as_they_are_shown() {
        for text in [
            "unix:@outboard-7",
            "unix:/run/outboard.sock",
            "tcp:127.0.0.1:7000",
            "tcp:[::1]:0",
            "ofi:10.0.0.1:7",
        ] {
            assert_eq!(text.parse::<Address>().unwrap().to_string(), text);
        }
    }

    #[test]
    fn what_is_no_address_says_what_would_be() {
        for text in ["", "unix:", "unix:@", "unix:run/x", "tcp:localhost", "tcp:1.2.3.4", "ofi:x", "http://x"]
        {
            let error = text.parse::<Address>().unwrap_err().to_string();
            assert!(error.contains("unix:@name"), "{error}");
        }
        assert!(format!("unix:@{}", "x".repeat(108)).parse::<Address>().is_err());
    }
}
