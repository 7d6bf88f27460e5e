//! `ringway call`: one call from the shell, or a list of what a server offers.

mod catalogue;
mod transcode;

use std::error::Error;
use std::io::{self, BufRead, Write};
use std::process::ExitCode;

use bytes::Bytes;
use ringway_net::ClientTls;
use ringway_rpc::reflection::{DescribeResponse, MethodDescription};
use ringway_rpc::{CallOptions, Client, Codec, Kind, Method, Status, Streaming};

use crate::args::{Ask, CallConfig};
use crate::stderr;
use catalogue::Catalogue;
use transcode::Transcoder;

/// Asks, prints the answer, and tells by the exit status whether there was one.
///
/// # Errors
/// An address that cannot be used, a message that is none, or output that cannot be written.
pub(crate) fn run(config: CallConfig) -> Result<ExitCode, Box<dyn Error>> {
    let client = client(&config)?;
    ringway_runtime::block_on(async move {
        let done = match &config.ask {
            Ask::List => list(&client).await,
            Ask::Call { method, message, metadata } => {
                call(&client, &config, method, message, metadata).await
            }
        };
        match done {
            Ok(()) => Ok(ExitCode::SUCCESS),
            Err(error) => match error.downcast_ref::<Status>() {
                Some(status) => {
                    stderr::complain(status);
                    Ok(ExitCode::FAILURE)
                }
                None => Err(error),
            },
        }
    })?
}

fn client(config: &CallConfig) -> Result<Client, Box<dyn Error>> {
    let options = CallOptions::new().timeout(config.timeout);
    let mut builder = Client::builder().address(config.addr.as_str()).options(options);
    if let Some(file) = &config.ca {
        let pem = std::fs::read(file)
            .map_err(|error| format!("cannot read {}: {error}", file.display()))?;
        builder = builder.tls(ClientTls::new().roots_pem(pem)?);
    }
    Ok(builder.build()?)
}

async fn list(client: &Client) -> Result<(), Box<dyn Error>> {
    let catalogue = Catalogue::new(client);
    let mut out = io::stdout().lock();
    for service in catalogue.services().await? {
        let described = catalogue.describe(&service).await?;
        writeln!(out, "{service}")?;
        write!(out, "{}", catalogue::table(&described.methods))?;
    }
    Ok(())
}

async fn call(
    client: &Client,
    config: &CallConfig,
    name: &str,
    message: &str,
    metadata: &[(String, String)],
) -> Result<(), Box<dyn Error>> {
    let (service, method) = name.rsplit_once('/').ok_or("a method needs its service")?;
    let described = Catalogue::new(client).describe(service).await?;
    let found = described.methods.iter().find(|described| described.name == method);
    let found = found.ok_or_else(|| unknown_method(service, method, &described))?;
    let transcoder = Transcoder::new(service, found, &described.file_descriptor_set)?;
    let mut requests = Vec::new();
    for text in texts(message, found.streams_in)? {
        requests.push(transcoder.request(&text)?);
    }
    let mut options = CallOptions::new().timeout(config.timeout);
    for (key, value) in metadata {
        options = options.metadata(key, value);
    }
    let asked = Asked { client: client.with(options), method: leaked(name, found), found };
    asked.ask(requests, &transcoder).await
}

fn unknown_method(service: &str, method: &str, described: &DescribeResponse) -> String {
    let names: Vec<&str> = described.methods.iter().map(|method| method.name.as_str()).collect();
    format!("{service} has no method {method}; it has {}", names.join(", "))
}

/// The messages to send: one, or one a line for a stream of requests. `-` stands for standard input.
fn texts(message: &str, streams: bool) -> io::Result<Vec<String>> {
    let text = match message {
        "-" => io::read_to_string(io::stdin().lock())?,
        text => text.to_owned(),
    };
    if !streams {
        return Ok(vec![text.strip_suffix('\n').unwrap_or(&text).to_owned()]);
    }
    text.as_bytes().lines().collect()
}

/// Methods are statics to the library; this process knows one, and ends after it.
fn leaked(name: &str, described: &MethodDescription) -> &'static Method {
    let kind = match (described.streams_in, described.streams_out) {
        (false, false) => Kind::Unary,
        (true, false) => Kind::ClientStream,
        (false, true) => Kind::ServerStream,
        (true, true) => Kind::Bidi,
    };
    Box::leak(Box::new(Method::new(String::leak(name.to_owned()), kind)))
}

struct Asked<'a> {
    client: Client,
    method: &'static Method,
    found: &'a MethodDescription,
}

impl Asked<'_> {
    async fn ask(
        &self,
        mut requests: Vec<Bytes>,
        transcoder: &Transcoder,
    ) -> Result<(), Box<dyn Error>> {
        let codec = |id: u32| Codec { id: id as u8, ..Codec::raw() };
        let (codec_in, codec_out) = (codec(self.found.codec_in), codec(self.found.codec_out));
        let (client, method) = (&self.client, self.method);
        match method.kind() {
            Kind::Unary => {
                let request = requests.pop().unwrap_or_default();
                let reply = client.unary(method, codec_in, codec_out, request).await?;
                print(transcoder, &reply)
            }
            Kind::ServerStream => {
                let request = requests.pop().unwrap_or_default();
                let replies = client.server_stream(method, codec_in, codec_out, request);
                print_all(transcoder, replies).await
            }
            Kind::ClientStream => {
                let (mut sink, reply) = client.client_stream(method, codec_in, codec_out);
                for request in requests {
                    sink.send(request).await?;
                }
                sink.finish();
                print(transcoder, &reply.await?)
            }
            Kind::Bidi => {
                let (mut sink, replies) = client.bidi(method, codec_in, codec_out);
                let sending = ringway_runtime::spawn(async move {
                    for request in requests {
                        sink.send(request).await?;
                    }
                    sink.finish();
                    Ok::<(), Status>(())
                });
                print_all(transcoder, replies).await?;
                sending.await??;
                Ok(())
            }
        }
    }
}

async fn print_all(
    transcoder: &Transcoder,
    mut replies: Streaming<Bytes>,
) -> Result<(), Box<dyn Error>> {
    while let Some(reply) = replies.next().await? {
        print(transcoder, &reply)?;
    }
    Ok(())
}

fn print(transcoder: &Transcoder, reply: &Bytes) -> Result<(), Box<dyn Error>> {
    let mut line = transcoder.reply(reply)?;
    line.push(b'\n');
    io::stdout().write_all(&line)?;
    Ok(())
}
