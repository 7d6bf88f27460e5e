//! How a server is reached.

use std::error::Error;

use ringway_net::ClientTls;
use ringway_rpc::{CallOptions, Client};

use crate::args::Access;
use crate::limits::CALL_TIMEOUT;

impl Access {
    /// A client of one connection, which is made by its first call.
    ///
    /// # Errors
    /// An address, a certificate or metadata that cannot be used.
    pub(crate) fn client(&self) -> Result<Client, Box<dyn Error>> {
        let mut builder = Client::builder()
            .address(self.addr.as_str())
            .connections_max(1)
            .options(self.options());
        if let Some(file) = &self.ca {
            let pem = std::fs::read(file)
                .map_err(|error| format!("cannot read {}: {error}", file.display()))?;
            builder = builder.tls(ClientTls::new().roots_pem(pem)?);
        }
        Ok(builder.build()?)
    }

    /// Those of whatever is asked, the questions before a call too.
    pub(super) fn options(&self) -> CallOptions {
        let options = CallOptions::new().timeout(self.timeout.unwrap_or(CALL_TIMEOUT));
        self.metadata.iter().fold(options, |options, (key, value)| options.metadata(key, value))
    }
}
