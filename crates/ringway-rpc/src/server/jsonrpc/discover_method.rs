//! `rpc.discover` as a method of every server, so that interceptors, limits and metrics apply to it as to any call.

use std::cell::OnceCell;
use std::rc::{Rc, Weak};

use serde_json::json;

use super::methods::JsonMethods;
use crate::call::codec::{self, Codec};
use crate::call::context::Context;
use crate::call::json::Json;
use crate::call::json_shape::Shape;
use crate::call::method::{Kind, Method};
use crate::call::status::Status;
use crate::service::Methods;

static DISCOVER: Method = Method::new("rpc/discover", Kind::Unary).idempotent();

/// Where the method finds what it describes, which is known once all methods are registered.
pub(crate) type Discovered = Rc<OnceCell<Weak<JsonMethods>>>;

/// Adds the method to those of a core.
pub(crate) fn register(methods: &mut Methods, discovered: &Discovered) {
    let discovered = Rc::clone(discovered);
    methods.unary(&DISCOVER, crate::codec_of!(()), document_codec(), move |_: Context, (): ()| {
        let methods = discovered.get().and_then(Weak::upgrade);
        async move {
            let ended = || Status::unavailable("the core of the server has ended");
            methods.map(|methods| methods.document()).ok_or_else(ended)
        }
    });
}

/// The document is JSON as it is.
fn document_codec() -> Codec<Rc<str>> {
    let json = Json {
        encode: |document: Rc<str>, out| {
            out.extend_from_slice(document.as_bytes());
            Ok(None)
        },
        decode: |_| Err(Status::unimplemented("a document of OpenRPC is only written here")),
        shape: || Shape::Any,
        schema: || json!({"type": "object"}),
    };
    Codec { id: codec::JSON, encode: json.encode, decode: json.decode, json: Some(json) }
}
