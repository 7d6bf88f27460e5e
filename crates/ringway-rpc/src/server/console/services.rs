//! What the console shows and what never changes: the services and how their methods are called.

use prost_reflect::DescriptorPool;
use serde_json::{Value, json};

use super::example::example;
use crate::call::codec;
use crate::call::method::Kind;
use crate::server::core::ServerCore;
use crate::server::method_entry::MethodEntry;
use crate::service::ServiceDescriptor;

/// The services in the order of their registration.
pub(super) fn of(core: &ServerCore) -> Value {
    let services = core.shared().services().map(|service| {
        let pool = service.file_descriptor_set.and_then(|set| DescriptorPool::decode(set).ok());
        let methods = core.entries().iter().filter(|it| it.method().service() == service.name);
        json!({
            "name": service.name,
            "methods": methods.map(|it| method(it, service, pool.as_ref())).collect::<Vec<_>>(),
        })
    });
    services.collect::<Vec<_>>().into()
}

fn method(
    entry: &MethodEntry,
    service: &ServiceDescriptor,
    pool: Option<&DescriptorPool>,
) -> Value {
    let method = entry.method();
    let request = match entry.codec_in() {
        codec::PROTOBUF => {
            DescriptorPool::global().get_message_by_name(entry.message_in()).or_else(|| {
                let methods = pool?.get_service_by_name(service.name)?;
                Some(methods.methods().find(|it| it.name() == method.short_name())?.input())
            })
        }
        _ => None,
    };
    json!({
        "name": method.short_name(),
        "kind": match method.kind() {
            Kind::Unary => "unary",
            Kind::ClientStream => "client stream",
            Kind::ServerStream => "server stream",
            Kind::Bidi => "bidi",
        },
        "request": match (entry.codec_in(), &request) {
            (codec::JSON, _) => "JSON".to_owned(),
            (codec::PROTOBUF, Some(request)) => request.full_name().to_owned(),
            (codec::PROTOBUF, None) => "protobuf without descriptors".to_owned(),
            _ => "bytes".to_owned(),
        },
        "is_json": entry.codec_in() == codec::JSON || request.is_some(),
        "example": request.as_ref().map(example),
        "idempotent": method.is_idempotent(),
        "no_side_effects": method.has_no_side_effects(),
    })
}
