//! WebSocket: messages both ways on a connection that began with an HTTP request.

mod extension;
mod handshake;
mod keepalive;
mod masks;
mod peer_limits;
mod secrets;
mod sender;
mod server;
mod socket;

pub use self::peer_limits::WebSocketLimits;
pub use self::secrets::ClientSecrets;
pub use self::sender::{MessageSending, WebSocketSender};
pub use self::server::{RequestPage, WebSocketUpgrade};
pub use self::socket::WebSocket;
pub use ringway_wire::websocket::{CloseCode, Closing, WebSocketMessage};

pub(crate) use self::extension::{DEFLATE, is_agreed};
pub(crate) use self::handshake::{accept_key, has_token, new_key};
pub(crate) use self::socket::{Agreed, Side};
