//! `ringway call`: one call from the shell, or a list of what a server offers.

mod catalogue;
mod input;
mod output;
mod transcode;

use std::error::Error;
use std::io::{self, Write};
use std::process::ExitCode;
use std::sync::Arc;

use bytes::Bytes;
use ringway_net::ClientTls;
use ringway_rpc::reflection::{DescribeResponse, MethodDescription};
use ringway_rpc::{CallOptions, Client, Codec, Kind, Method, Streaming};

use crate::args::{Ask, CallConfig};
use crate::foreign::printable;
use crate::limits::CALL_TIMEOUT;
use crate::stderr;
use catalogue::Catalogue;
use input::{Input, Shape};
use output::Output;
use transcode::Transcoder;

/// Asks, prints the answer, and tells by the exit status whether there was one.
///
/// # Errors
/// An address or a certificate that cannot be used; no core.
pub(crate) fn run(config: CallConfig) -> Result<ExitCode, Box<dyn Error>> {
    let client = client(&config)?;
    ringway_runtime::block_on(async move {
        let done = match &config.ask {
            Ask::List => list(&client).await,
            Ask::Call { method, message, is_binary } => {
                let output = Output::new(*is_binary);
                call(&client, &config, method, Input::of(message), output).await
            }
        };
        Ok(done.map_or_else(|error| failed(&*error), |()| ExitCode::SUCCESS))
    })?
}

/// Says why there is no answer, in which a server may have had its say.
fn failed(error: &(dyn Error + 'static)) -> ExitCode {
    let is_unread = |error: &io::Error| error.kind() == io::ErrorKind::BrokenPipe;
    if error.downcast_ref().is_some_and(is_unread) {
        return ExitCode::SUCCESS; // as behind `| head`, which has read enough
    }
    stderr::complain(printable(&error.to_string()));
    ExitCode::FAILURE
}

/// Of whatever is asked, the questions before a call too.
fn options(config: &CallConfig) -> CallOptions {
    let options = CallOptions::new().timeout(config.timeout.unwrap_or(CALL_TIMEOUT));
    config.metadata.iter().fold(options, |options, (key, value)| options.metadata(key, value))
}

fn client(config: &CallConfig) -> Result<Client, Box<dyn Error>> {
    let options = options(config);
    let mut builder = Client::builder().address(config.addr.as_str()).options(options);
    if let Some(file) = &config.ca {
        let pem = std::fs::read(file)
            .map_err(|error| format!("cannot read {}: {error}", file.display()))?;
        builder = builder.tls(ClientTls::new().roots_pem(pem)?);
    }
    Ok(builder.build()?)
}

/// All services, those too of which the server says no more than the name.
async fn list(client: &Client) -> Result<(), Box<dyn Error>> {
    let catalogue = Catalogue::new(client);
    let mut out = io::stdout();
    let mut services = catalogue.services().await?;
    let mut failure = None;
    for name in catalogue::twice(&mut services) {
        stderr::complain(format_args!(
            "{} is listed twice; the server describes one of the two, which may not be the one that it serves",
            printable(&name)
        ));
    }
    for service in services {
        match catalogue.describe(&service).await {
            Ok(described) => {
                let table = catalogue::table(&described.methods);
                write!(out, "{}\n{table}", printable(&service))?;
            }
            Err(status) => {
                writeln!(out, "{}", printable(&service))?;
                failure.get_or_insert(format!("{service} cannot be described: {status}"));
            }
        }
    }
    failure.map_or(Ok(()), |failure| Err(failure.into()))
}

async fn call(
    client: &Client,
    config: &CallConfig,
    name: &str,
    input: Input,
    output: Output,
) -> Result<(), Box<dyn Error>> {
    let (service, method) = name.rsplit_once('/').ok_or("a method needs its service")?;
    let described = Catalogue::new(client).find(service).await?;
    let found = described.methods.iter().find(|described| described.name == method);
    let found = found.ok_or_else(|| unknown_method(service, method, &described))?;
    let transcoder = match output.is_binary {
        true => Transcoder::raw(),
        false => Transcoder::new(service, found, &described.file_descriptor_set)?,
    };
    let streaming = match config.timeout {
        Some(_) => client.clone(),
        None => client.with(options(config).no_timeout()),
    };
    let asked = Asked {
        client,
        streaming,
        method: leaked(name, found),
        codec_in: codec(found.codec_in),
        codec_out: codec(found.codec_out),
        transcoder: Arc::new(transcoder),
        output,
    };
    asked.ask(input).await
}

fn unknown_method(service: &str, method: &str, described: &DescribeResponse) -> String {
    let names: Vec<&str> = described.methods.iter().map(|method| method.name.as_str()).collect();
    format!("{service} has no method {method}; it has {}", names.join(", "))
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

/// Messages are bytes here, whatever the method calls them.
fn codec(id: u32) -> Codec<Bytes> {
    Codec { id: id as u8, ..Codec::raw() }
}

struct Asked<'a> {
    client: &'a Client,
    /// The same for streams, which may take for ever unless somebody has said how long.
    streaming: Client,
    method: &'static Method,
    codec_in: Codec<Bytes>,
    codec_out: Codec<Bytes>,
    transcoder: Arc<Transcoder>,
    output: Output,
}

impl Asked<'_> {
    async fn ask(&self, input: Input) -> Result<(), Box<dyn Error>> {
        match self.method.kind() {
            Kind::Unary => {
                let request = self.one_request(input).await?;
                let (codec_in, codec_out) = (self.codec_in, self.codec_out);
                let reply = self.client.unary(self.method, codec_in, codec_out, request).await?;
                self.output.print(&self.transcoder, &reply)
            }
            Kind::ServerStream => {
                let request = self.one_request(input).await?;
                let (codec_in, codec_out) = (self.codec_in, self.codec_out);
                let replies =
                    self.streaming.server_stream(self.method, codec_in, codec_out, request);
                self.print_all(replies).await
            }
            Kind::ClientStream => {
                let (sink, reply) =
                    self.streaming.client_stream(self.method, self.codec_in, self.codec_out);
                let wrong = input::send(input, self.shape(), sink)?;
                let reply = reply.await;
                self.unless(wrong.get())?;
                self.output.print(&self.transcoder, &reply?)
            }
            Kind::Bidi => {
                let (sink, replies) =
                    self.streaming.bidi(self.method, self.codec_in, self.codec_out);
                let wrong = input::send(input, self.shape(), sink)?;
                let printed = self.print_all(replies).await;
                self.unless(wrong.get())?;
                printed
            }
        }
    }

    fn shape(&self) -> Shape {
        match self.output.is_binary {
            true => Shape::Whole,
            false => Shape::Lines(Arc::clone(&self.transcoder)),
        }
    }

    /// The one request of a method that takes no stream.
    async fn one_request(&self, input: Input) -> Result<Bytes, Box<dyn Error>> {
        let reading = ringway_runtime::spawn_blocking(move || input.whole())?;
        let bytes = reading.await.map_err(|_| "reading the request has panicked")??;
        match self.output.is_binary {
            true => Ok(bytes.into()),
            false => Ok(self.transcoder.request(&input::without_end(bytes))?),
        }
    }

    /// What is wrong with the input is why the call was cancelled.
    fn unless(&self, wrong: Option<&String>) -> Result<(), Box<dyn Error>> {
        wrong.map_or(Ok(()), |why| Err(why.as_str().into()))
    }

    async fn print_all(&self, mut replies: Streaming<Bytes>) -> Result<(), Box<dyn Error>> {
        while let Some(reply) = replies.next().await? {
            self.output.print(&self.transcoder, &reply)?;
        }
        Ok(())
    }
}
