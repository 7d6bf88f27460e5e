//! A method as its server describes it.

use std::error::Error;
use std::sync::Arc;

use bytes::Bytes;
use ringway_rpc::reflection::{DescribeResponse, MethodDescription};
use ringway_rpc::{Client, Codec, Kind, Method, Status};

use super::catalogue::Catalogue;
use super::transcode::Transcoder;
use crate::args::Access;

/// A method with all that a call needs.
pub(crate) struct KnownMethod {
    pub(crate) method: &'static Method,
    /// Messages are bytes here, whatever their type is.
    pub(crate) codec_in: Codec<Bytes>,
    pub(crate) codec_out: Codec<Bytes>,
    pub(crate) transcoder: Arc<Transcoder>,
}

impl KnownMethod {
    /// Asks the server of `client`, reached by `access`, about the method `name`, which names its service too. With
    /// `is_binary` its messages stay raw bytes.
    ///
    /// # Errors
    /// There is no such method, the server cannot be asked, or nobody could write its messages.
    pub(crate) async fn find(
        access: &Access,
        client: &Client,
        name: &str,
        is_binary: bool,
    ) -> Result<Self, Box<dyn Error>> {
        let (service, method) = name.rsplit_once('/').ok_or("a method needs its service")?;
        let described = Catalogue::new(client, access.is_grpc()).find(service).await?;
        let found = described.methods.iter().find(|described| described.name == method);
        let found = found.ok_or_else(|| unknown_method(service, method, &described))?;
        let transcoder = match is_binary {
            true => Transcoder::raw(),
            false => Transcoder::new(service, found, &described.file_descriptor_set)?,
        };
        Ok(Self {
            method: leaked(name, found),
            codec_in: codec(found.codec_in),
            codec_out: codec(found.codec_out),
            transcoder: Arc::new(transcoder),
        })
    }
}

impl KnownMethod {
    /// Asks for the services, for what it takes to ask.
    ///
    /// # Errors
    /// The server's status.
    pub(crate) async fn ask(access: &Access, client: &Client) -> Result<(), Status> {
        Catalogue::new(client, access.is_grpc()).services().await.map(drop)
    }
}

fn unknown_method(service: &str, method: &str, described: &DescribeResponse) -> String {
    let names: Vec<&str> = described.methods.iter().map(|method| method.name.as_str()).collect();
    format!("{service} has no method {method}; it has {}", names.join(", "))
}

/// The library takes methods as statics; this process leaks one and ends after it.
fn leaked(name: &str, described: &MethodDescription) -> &'static Method {
    let kind = match (described.streams_in, described.streams_out) {
        (false, false) => Kind::Unary,
        (true, false) => Kind::ClientStream,
        (false, true) => Kind::ServerStream,
        (true, true) => Kind::Bidi,
    };
    Box::leak(Box::new(Method::new(String::leak(name.to_owned()), kind)))
}

fn codec(id: u32) -> Codec<Bytes> {
    Codec { id: id as u8, ..Codec::raw() }
}
