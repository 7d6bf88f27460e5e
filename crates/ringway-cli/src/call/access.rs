//! Connects to the server.

use std::error::Error;
use std::path::Path;

use ringway_net::ClientTls;
use ringway_rpc::{CallOptions, Client};

use crate::args::{Access, Scheme, TlsFiles};
use crate::limits::{CALL_TIMEOUT, REPLY_BYTES_MAX};

impl Access {
    /// Makes a client of one connection, which its first call opens.
    ///
    /// # Errors
    /// The address, a certificate or metadata is invalid.
    pub(crate) fn client(&self) -> Result<Client, Box<dyn Error>> {
        let builder = match self.addr.scheme() {
            Scheme::Source => {
                ringway_discovery::install();
                Client::builder().source(self.addr.as_str())
            }
            _ => Client::builder().address(self.addr.as_str()),
        };
        let builder = builder
            .connections_max(1)
            .message_bytes_max(REPLY_BYTES_MAX)
            .tls(self.tls()?)
            .options(self.options());
        Ok(builder.build()?)
    }

    /// Whether the server may be any gRPC server.
    pub(super) fn is_grpc(&self) -> bool {
        matches!(self.addr.scheme(), Scheme::Grpc | Scheme::Grpcs)
    }

    /// Whether the server speaks JSON-RPC.
    pub(super) fn is_json_rpc(&self) -> bool {
        self.addr.scheme().is_json_rpc()
    }

    fn tls(&self) -> Result<ClientTls, Box<dyn Error>> {
        let read = |path: &Path| {
            std::fs::read(path).map_err(|error| format!("cannot read {}: {error}", path.display()))
        };
        let mut tls = ClientTls::new();
        if let Some(file) = &self.ca {
            tls = tls.roots_pem(read(file)?)?;
        }
        if let Some(TlsFiles { cert, key }) = &self.identity {
            tls = tls.client_cert_pem(read(cert)?, read(key)?)?;
        }
        Ok(tls)
    }

    /// The metadata of all requests, also of the questions before a call.
    pub(super) fn options(&self) -> CallOptions {
        let options = CallOptions::new().timeout(self.timeout.unwrap_or(CALL_TIMEOUT));
        self.metadata.iter().fold(options, |options, (key, value)| options.metadata(key, value))
    }
}
