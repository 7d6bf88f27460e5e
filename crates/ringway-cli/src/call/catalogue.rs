//! What a server says of itself.

use std::fmt::Write;

use ringway_rpc::reflection::{
    DescribeRequest, DescribeResponse, ListRequest, ListResponse, MethodDescription,
};
use ringway_rpc::{Client, Codec, Kind, Method, Status};

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

    pub(super) async fn describe(&self, service: &str) -> Result<DescribeResponse, Status> {
        let request = DescribeRequest { service: service.to_owned() };
        self.client.unary(&DESCRIBE, Codec::protobuf(), Codec::protobuf(), request).await
    }
}

/// One line a method, in columns.
pub(super) fn table(methods: &[MethodDescription]) -> String {
    let width = methods.iter().map(|method| method.name.len()).max().unwrap_or(0);
    let mut out = String::new();
    for method in methods {
        let side = |streams: bool, codec: u32| {
            let codec = codec_name(codec);
            if streams { format!("stream of {codec}") } else { codec.to_owned() }
        };
        let sent = side(method.streams_in, method.codec_in);
        let got = side(method.streams_out, method.codec_out);
        let idempotent = if method.idempotent { "  idempotent" } else { "" };
        let line = format!("  {:width$}  {sent:18} -> {got:18}{idempotent}", method.name);
        writeln!(out, "{}", line.trim_end()).expect("writing to a string");
    }
    out
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
        };
        let methods = [method("Say", false, 0, true), method("Collect", true, 2, false)];
        insta::assert_snapshot!(table(&methods), @r"
          Say      bytes              -> bytes               idempotent
          Collect  stream of JSON     -> bytes
        ");
    }
}
