//! Asks a server by reflection for its services.

use std::error::Error;

use comfy_table::{ContentArrangement, Table};
use ringway_rpc::reflection::{
    DescribeRequest, DescribeResponse, ListRequest, ListResponse, MethodDescription,
};
use ringway_rpc::{Client, Codec, Kind, Method, Status};

use super::grpc_reflection::GrpcReflection;
use crate::foreign::printable;

static LIST: Method =
    Method::new("ringway.reflection.v1.Reflection/List", Kind::Unary).idempotent();
static DESCRIBE: Method =
    Method::new("ringway.reflection.v1.Reflection/Describe", Kind::Unary).idempotent();

/// The reflection service of a server.
pub(super) struct Catalogue<'a> {
    client: &'a Client,
    /// gRPC's reflection, which any server may have.
    grpc: Option<GrpcReflection>,
}

impl<'a> Catalogue<'a> {
    /// Returns the reflection of the server of `client`, which speaks gRPC or the native protocol.
    pub(super) fn new(client: &'a Client, is_grpc: bool) -> Self {
        Self { client, grpc: is_grpc.then(|| GrpcReflection::new(client)) }
    }

    /// Returns the names of all services.
    pub(super) async fn services(&mut self) -> Result<Vec<String>, Status> {
        match &mut self.grpc {
            None => self.own_services().await,
            Some(grpc) => grpc.services().await.map_err(|status| match status.is_unimplemented() {
                true => without_reflection(),
                false => status,
            }),
        }
    }

    async fn own_services(&self) -> Result<Vec<String>, Status> {
        let (codec_in, codec_out) = (Codec::protobuf(), Codec::<ListResponse>::protobuf());
        let list = self.client.unary(&LIST, codec_in, codec_out, ListRequest {});
        Ok(list.await?.services)
    }

    /// Returns the description of a service.
    ///
    /// # Errors
    /// The server's error. If it does not know the service, the message names services of that name in other packages.
    pub(super) async fn find(&mut self, service: &str) -> Result<DescribeResponse, Box<dyn Error>> {
        let status = match self.describe(service).await {
            Ok(described) => return Ok(described),
            Err(status) => status,
        };
        if status.is_not_found()
            && let Ok(services) = self.services().await
        {
            let name = |full: &str| full.rsplit_once('.').map_or(full, |(_, name)| name).to_owned();
            let alike = services.into_iter().filter(|other| name(other) == name(service));
            let alike: Vec<String> = alike.collect();
            if !alike.is_empty() {
                return Err(format!("{status}; there is {}", alike.join(" and ")).into());
            }
        }
        Err(status.into())
    }

    pub(super) async fn describe(&mut self, service: &str) -> Result<DescribeResponse, Status> {
        let Some(grpc) = &mut self.grpc else {
            return self.own_description(service).await;
        };
        let status = match grpc.describe(service).await {
            Err(status) if status.is_unimplemented() => without_reflection(),
            Err(status) if status.is_not_found() => status,
            told => return told,
        };
        // Our servers know more than `.proto` files say; others do not know this method.
        match self.own_description(service).await {
            Err(own) if own.is_unimplemented() && status.is_not_found() => {
                Err(Status::not_found(format!("no service {service}")))
            }
            Err(own) if own.is_unimplemented() => Err(status),
            told => told,
        }
    }

    async fn own_description(&self, service: &str) -> Result<DescribeResponse, Status> {
        let request = DescribeRequest { service: service.to_owned() };
        self.client.unary(&DESCRIBE, Codec::protobuf(), Codec::protobuf(), request).await
    }
}

fn without_reflection() -> Status {
    Status::unimplemented(
        "the server offers neither grpc.reflection.v1 nor v1alpha, which tell what can be called: turn \
         reflection on in it",
    )
}

/// Removes names that occur more than once from the list, and returns them.
pub(super) fn twice(services: &mut Vec<String>) -> Vec<String> {
    let mut repeated = Vec::new();
    services.sort();
    services.dedup_by(|later, earlier| {
        let is_same = later == earlier;
        if is_same {
            repeated.push(std::mem::take(later));
        }
        is_same
    });
    repeated.dedup();
    repeated
}

/// Formats each method of `service` as a line with columns.
pub(super) fn table(service: &str, methods: &[MethodDescription]) -> String {
    let mut table = Table::new();
    table.load_style(comfy_table::presets::NOTHING).force_no_tty();
    table.set_content_arrangement(ContentArrangement::Disabled);
    for method in methods {
        let side = |streams: bool, codec: u32, message: &str| {
            let what = match message {
                "" => codec_name(codec).into(),
                message => printable(short(message, service)),
            };
            if streams { format!("stream of {what}") } else { what.into_owned() }
        };
        let sent = side(method.streams_in, method.codec_in, &method.message_in);
        let got = side(method.streams_out, method.codec_out, &method.message_out);
        let got = format!("-> {got}");
        let idempotent = if method.idempotent { "idempotent" } else { "" };
        table.add_row([&*printable(&method.name), &sent, &got, idempotent]);
    }
    table.column_iter_mut().for_each(|column| _ = column.set_padding((2, 0)));
    table.lines().map(|line| format!("{}\n", line.trim_end())).collect()
}

/// Returns a message's name, without its package if the service is in the same.
fn short<'a>(message: &'a str, service: &str) -> &'a str {
    let package = service.rsplit_once('.').map_or("", |(package, _)| package);
    let rest = message.strip_prefix(package).and_then(|rest| rest.strip_prefix('.'));
    rest.filter(|_| !package.is_empty()).unwrap_or(message)
}

fn codec_name(codec: u32) -> &'static str {
    match codec {
        0 => "bytes",
        1 => "protobuf",
        2 => "JSON",
        _ => "other",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn methods_stand_in_columns() {
        let method = |name: &str, streams_in, codec_in, idempotent| MethodDescription {
            name: name.to_owned(),
            streams_in,
            streams_out: false,
            codec_in,
            codec_out: 0,
            idempotent,
            ..MethodDescription::default()
        };
        let put = MethodDescription {
            message_in: "shop.v1.Order".to_owned(),
            ..method("Put", true, 1, false)
        };
        let methods = [method("Say", false, 0, true), method("Collect", true, 2, false), put];
        insta::assert_snapshot!(table("shop.v1.Shop", &methods), @r"
          Say      bytes            -> bytes  idempotent
          Collect  stream of JSON   -> bytes
          Put      stream of Order  -> bytes
        ");
    }

    #[test]
    fn messages_of_other_packages_keep_their_names() {
        for (message, service, shown) in [
            ("shop.v1.Order", "shop.v1.Shop", "Order"),
            ("shop.v1.Order.Item", "shop.v1.Shop", "Order.Item"),
            ("shop.v1.Order", "shop.v10.Shop", "shop.v1.Order"),
            ("shop.v10.Order", "shop.v1.Shop", "shop.v10.Order"),
            ("google.protobuf.Empty", "shop.v1.Shop", "google.protobuf.Empty"),
            ("Order", "Shop", "Order"),
        ] {
            assert_eq!(short(message, service), shown);
        }
    }

    #[test]
    fn each_service_stands_once() {
        let mut services = ["b", "a", "b", "c", "b"].map(str::to_owned).to_vec();
        assert_eq!(twice(&mut services), ["b"]);
        assert_eq!(services, ["a", "b", "c"]);
    }
}
