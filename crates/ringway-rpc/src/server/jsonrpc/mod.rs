//! JSON-RPC 2.0 (<https://www.jsonrpc.org/specification>) on the port of all other protocols.
//!
//! ```text
//! lines of TCP ─► Lines ─┐              ┌─► ServerConnection: admit, run ─┐
//! one text (POST, …) ────┴─► JsonMachine┤                                 ├─► Output ─► lines, or texts
//!                                       └─► refusals, rpc.ping ───────────┘
//! ```
//!
//! [`JsonMachine`] takes the place of a protocol's machine, so a call is admitted, limited, run, cancelled and
//! counted by the same code as on every protocol.

mod batches;
mod calls;
mod deadlines;
mod discover;
mod door;
mod endings;
mod intake;
mod machine;
mod methods;
mod notifications;
mod output;
mod params;
mod read_request;
mod replies;
mod state;
mod subscriptions;
mod texts;
mod told;
mod violation;

pub(super) use discover::{OWN_SERVICE, Schemas, register as register_discovery};
pub(super) use door::{JsonDoor, is_web_socket};
pub(super) use methods::JsonMethods;
pub(super) use state::{JsonConfig, JsonMachine};
