//! The services of a server, asked for by reflection.

use std::error::Error;

use comfy_table::{ContentArrangement, Table};
use ringway_rpc::reflection::{
    DescribeRequest, DescribeResponse, ListRequest, ListResponse, MethodDescription,
};
use ringway_rpc::{Client, Codec, Kind, Method, Status};

use crate::foreign::printable;

static LIST: Method =
    Method::new("ringway.reflection.v1.Reflection/List", Kind::Unary).idempotent();
static DESCRIBE: Method =
    Method::new("ringway.reflection.v1.Reflection/Describe", Kind::Unary).idempotent();

/// The reflection service of a server.
pub(super) struct Catalogue<'a> {
    client: &'a Client,
}

impl<'a> Catalogue<'a> {
    pub(super) fn new(client: &'a Client) -> Self {
        Self { client }
    }

    /// The names of all services.
    pub(super) async fn services(&self) -> Result<Vec<String>, Status> {
        let (codec_in, codec_out) = (Codec::protobuf(), Codec::<ListResponse>::protobuf());
        let list = self.client.unary(&LIST, codec_in, codec_out, ListRequest {});
        Ok(list.await?.services)
    }

    /// The description of a service that is to be called.
    ///
    /// # Errors
    /// The server's; where it does not know the service, with those of the same name in other packages.
    pub(super) async fn find(&self, service: &str) -> Result<DescribeResponse, Box<dyn Error>> {
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

    pub(super) async fn describe(&self, service: &str) -> Result<DescribeResponse, Status> {
        let request = DescribeRequest { service: service.to_owned() };
        self.client.unary(&DESCRIBE, Codec::protobuf(), Codec::protobuf(), request).await
    }
}

/// Takes out what is in the list more than once, and returns it.
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

/// One line a method, in columns.
pub(super) fn table(methods: &[MethodDescription]) -> String {
    let mut table = Table::new();
    table.load_style(comfy_table::presets::NOTHING).force_no_tty();
    table.set_content_arrangement(ContentArrangement::Disabled);
    for method in methods {
        let side = |streams: bool, codec: u32| {
            let codec = codec_name(codec);
            if streams { format!("stream of {codec}") } else { codec.to_owned() }
        };
        let sent = side(method.streams_in, method.codec_in);
        let got = format!("-> {}", side(method.streams_out, method.codec_out));
        let idempotent = if method.idempotent { "idempotent" } else { "" };
        table.add_row([&*printable(&method.name), &sent, &got, idempotent]);
    }
    table.column_iter_mut().for_each(|column| _ = column.set_padding((2, 0)));
    table.lines().map(|line| format!("{}\n", line.trim_end())).collect()
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
        let methods = [method("Say", false, 0, true), method("Collect", true, 2, false)];
        insta::assert_snapshot!(table(&methods), @r"
          Say      bytes           -> bytes  idempotent
          Collect  stream of JSON  -> bytes
        ");
    }

    #[test]
    fn each_service_stands_once() {
        let mut services = ["b", "a", "b", "c", "b"].map(str::to_owned).to_vec();
        assert_eq!(twice(&mut services), ["b"]);
        assert_eq!(services, ["a", "b", "c"]);
    }
}
