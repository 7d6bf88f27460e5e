//! Entry points of the fuzz targets, one per decoder.

pub use crate::delimiter::fuzz as delimiter;
pub use crate::detect::fuzz as detect;
pub use crate::fixed_size::fuzz as fixed_size;
pub use crate::grpc::fuzz::fuzz as grpc_codec;
pub use crate::grpc::fuzz_client::fuzz as grpc_client;
pub use crate::grpc::fuzz_server::fuzz as grpc_server;
pub use crate::http2::fuzz_machines::{client as http2_client, server as http2_server};
pub use crate::http2::hpack::fuzz::fuzz as http2_hpack;
pub use crate::jsonrpc::fuzz::fuzz as jsonrpc;
pub use crate::length_field::fuzz as length_field;
pub use crate::line::fuzz as line;
#[cfg(feature = "mongo")]
pub use crate::mongo::fuzz_op_msg::fuzz as mongo_op_msg;
#[cfg(feature = "mongo")]
pub use crate::mongo::fuzz_scram::fuzz as mongo_scram;
pub use crate::native::fuzz_codec::fuzz as native_codec;
pub use crate::native::fuzz_machines::{client as native_client, server as native_server};
pub use crate::native::fuzz_pair::fuzz as native_pair;
pub use crate::web::fuzz::fuzz as web;
pub use crate::websocket::fuzz::fuzz as websocket;
