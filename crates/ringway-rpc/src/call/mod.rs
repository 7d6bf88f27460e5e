//! The parts of a call, for all protocols and both ends.

pub(crate) mod arguments;
pub(crate) mod codec;
pub(crate) mod context;
pub(crate) mod json;
pub(crate) mod json_schema;
pub(crate) mod json_shape;
pub(crate) mod metadata;
pub(crate) mod method;
pub(crate) mod protobuf_json;
pub(crate) mod small_copy;
pub(crate) mod status;
pub(crate) mod trace;
pub(crate) mod zero_copy;
