//! The flags of commands that call a method of a server.

use std::path::PathBuf;
use std::time::Duration;

use clap::Args;

use super::values;

#[derive(Debug, Args)]
pub(super) struct AccessFlags {
    /// How long a call may take, e.g. 500ms [default: 10s; `call` waits for streams without a limit]
    #[arg(long, value_name = "SPAN", value_parser = values::parse_timeout)]
    pub(super) timeout: Option<Duration>,
    /// Metadata to send with every request, as key=value or 'key: value'; repeatable
    #[arg(short = 'H', long = "metadata", value_name = "KEY=VALUE", value_parser = values::parse_entry)]
    pub(super) metadata: Vec<(String, String)>,
    /// Certificate authority to trust for tls:// and grpcs://, PEM [default: the machine's]
    #[arg(long, value_name = "FILE", visible_alias = "cacert")]
    pub(super) ca: Option<PathBuf>,
    /// Client certificate chain for servers that ask for one, PEM
    #[arg(long, value_name = "FILE", requires = "key")]
    pub(super) cert: Option<PathBuf>,
    /// Private key of the client certificate, PEM
    #[arg(long, value_name = "FILE", requires = "cert")]
    pub(super) key: Option<PathBuf>,
}
