//! `rpc.discover`: the methods of a server as a document of OpenRPC (<https://spec.open-rpc.org>).

use std::cell::OnceCell;
use std::rc::Rc;

use bytes::Bytes;
use prost_reflect::{FieldDescriptor, Kind as FieldKind, MessageDescriptor};
use serde_json::{Map, Value, json};

use super::methods::{JsonMethod, JsonMethods, is_own};
use crate::call::codec::{Codec, JSON};
use crate::call::context::Context;
use crate::call::json::Json;
use crate::call::json_shape::Shape;
use crate::call::method::{Kind, Method};
use crate::call::small_copy;
use crate::call::status::Status;
use crate::limits;
use crate::service::Methods;

/// The service of the methods that are JSON-RPC's own.
pub(crate) const OWN_SERVICE: &str = "rpc";

static DISCOVER: Method = Method::new("rpc/discover", Kind::Unary).idempotent();

/// The methods of a core, which are known once all are registered.
pub(crate) type Discovered = Rc<OnceCell<Rc<JsonMethods>>>;

/// Adds `rpc.discover` to the methods of a core: a call as others, so that interceptors may refuse it.
pub(crate) fn register(methods: &mut Methods) -> Discovered {
    let known = Discovered::default();
    let discovered = Rc::clone(&known);
    methods.unary(&DISCOVER, crate::codec_of!(()), written(), move |_: Context, (): ()| {
        let document = known.get().map(|methods| methods.document());
        async move { document.ok_or_else(|| Status::unavailable("the server is starting")) }
    });
    discovered
}

/// The codec of JSON that is written already.
fn written() -> Codec<Bytes> {
    let json = Json {
        encode: |json, _| Ok(Some(json)),
        decode: |json| Ok(small_copy::keep(json)),
        shape: || Shape::Any,
        schema: || json!({}),
    };
    Codec { id: JSON, encode: json.encode, decode: json.decode, json: Some(json) }
}

/// The schemas of a method's request and reply that have a JSON form of their own.
pub(crate) type Schemas = [Option<Value>; 2];

/// The document.
pub(super) fn document(methods: &JsonMethods) -> String {
    let mut services = methods.all().map(|(method, _)| method.service()).collect::<Vec<_>>();
    services.dedup();
    services.retain(|service| !is_own(service));
    let others = methods.all().filter(|(method, _)| method.service() != OWN_SERVICE);
    let described = others.filter_map(|(method, schemas)| describe(method, schemas));
    json!({
        "openrpc": "1.2.6",
        "info": {"title": services.join(", "), "version": "unversioned"},
        "methods": described.collect::<Vec<_>>(),
    })
    .to_string()
}

/// A method, if it can be called by JSON-RPC.
fn describe(method: &JsonMethod, [request, reply]: &Schemas) -> Option<Value> {
    if method.kind().streams_in() {
        return None;
    }
    let (params, structure) = params(method, request.as_ref())?;
    let reply = match (reply, method.described().reply_message()) {
        (Some(schema), _) => schema.clone(),
        (None, Some(message)) => of_message(message, 0),
        (None, None) if method.described().replies_bytes() => base64(),
        (None, None) => return None,
    };
    let mut described = json!({
        "name": method.name(),
        "paramStructure": structure,
        "params": params,
        "result": {"name": "result", "schema": reply},
    });
    if method.kind() == Kind::ServerStream {
        described["result"] = json!({"name": "subscription", "schema": {"type": "integer"}});
        described["x-subscription"] = json!({"name": "result", "schema": reply});
    }
    Some(described)
}

/// The parameters of a method, and how they may be passed.
fn params(method: &JsonMethod, schema: Option<&Value>) -> Option<(Vec<Value>, &'static str)> {
    let one = |schema: &Value, is_required: bool| {
        let (name, structure) = match method.parameter() {
            Some(name) => (name, "either"),
            None => ("value", "by-position"),
        };
        let param = json!({"name": name, "schema": schema, "required": is_required});
        (vec![param], structure)
    };
    let Some(shape) = method.shape() else {
        let message = method.described().request_message()?;
        let fields = method.described().request_fields();
        let schema = of_message(message, 0);
        return Some(match fields.is_empty() && message.fields().len() > 0 {
            true => (one(&schema, true).0, "by-position"),
            false => (members(fields.iter().map(String::as_str), &schema), "either"),
        });
    };
    let nothing = json!({});
    let schema = schema.unwrap_or(&nothing);
    Some(match shape {
        Shape::Nothing => (Vec::new(), "either"),
        Shape::Fields(names) => (members(names.iter().copied(), object_in(schema)), "either"),
        Shape::List { .. } => one(schema, false),
        Shape::Scalar => one(schema, schema.get("anyOf").is_none()),
        Shape::Any => (one(schema, false).0, "by-position"),
    })
}

/// The schema of the object in the one of an optional object.
fn object_in(schema: &Value) -> &Value {
    let mut inner = schema;
    while let Some(within) = inner.get("anyOf").and_then(|any| any.get(0)) {
        inner = within;
    }
    inner
}

fn members<'a>(names: impl Iterator<Item = &'a str>, schema: &Value) -> Vec<Value> {
    let nothing = json!({});
    let required = schema.get("required").and_then(Value::as_array);
    let param = |name: &str| {
        json!({
            "name": name,
            "schema": schema.get("properties").and_then(|all| all.get(name)).unwrap_or(&nothing),
            "required": required.is_some_and(|all| all.iter().any(|it| it == name)),
        })
    };
    names.map(param).collect()
}

/// A message of protobuf in its JSON form.
fn of_message(message: &MessageDescriptor, depth: usize) -> Value {
    if message.package_name() == "google.protobuf" {
        return well_known(message.name());
    }
    if depth >= limits::SCHEMA_MESSAGE_DEPTH {
        return json!({"type": "object"});
    }
    let fields = message.fields();
    let fields: Map<_, _> =
        fields.map(|field| (field.json_name().to_owned(), of_field(&field, depth))).collect();
    json!({"type": "object", "properties": fields})
}

fn of_field(field: &FieldDescriptor, depth: usize) -> Value {
    if field.is_map() {
        return json!({"type": "object"});
    }
    let value = match field.kind() {
        FieldKind::Message(message) => of_message(&message, depth + 1),
        FieldKind::Enum(of) => {
            let names = of.values().map(|value| value.name().to_owned()).collect::<Vec<_>>();
            json!({"anyOf": [{"enum": names}, {"type": "integer"}]})
        }
        FieldKind::String => json!({"type": "string"}),
        FieldKind::Bytes => base64(),
        FieldKind::Bool => json!({"type": "boolean"}),
        // NaN and the infinities are texts.
        FieldKind::Double | FieldKind::Float => json!({"type": ["number", "string"]}),
        // 64 bits are written as text.
        _ => json!({"type": ["integer", "string"]}),
    };
    if field.is_list() { json!({"type": "array", "items": value}) } else { value }
}

/// The JSON forms of protobuf's own messages.
fn well_known(name: &str) -> Value {
    match name {
        "StringValue" | "Timestamp" | "Duration" | "FieldMask" => json!({"type": "string"}),
        "BytesValue" => base64(),
        "BoolValue" => json!({"type": "boolean"}),
        "Int32Value" | "UInt32Value" | "Int64Value" | "UInt64Value" => {
            json!({"type": ["integer", "string"]})
        }
        "FloatValue" | "DoubleValue" => json!({"type": ["number", "string"]}),
        "Struct" | "Empty" | "Any" => json!({"type": "object"}),
        "ListValue" => json!({"type": "array"}),
        _ => json!({}),
    }
}

fn base64() -> Value {
    json!({"type": "string", "contentEncoding": "base64"})
}
