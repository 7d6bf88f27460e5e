//! `ringway call`: one call from the shell, or a list of what a server offers.

mod access;
mod catalogue;
mod expected;
mod grpc_messages;
mod grpc_reflection;
mod input;
mod json_rpc;
mod method;
mod output;
mod transcode;

use std::error::Error;
use std::io::{self, Write};
use std::process::ExitCode;
use std::sync::Arc;

use bytes::Bytes;
use ringway_rpc::{Client, Kind, Streaming};

use crate::args::{Ask, CallConfig};
use crate::foreign::printable;
use crate::stderr;
use catalogue::Catalogue;
use input::{Input, Shape};
use output::Output;

pub(crate) use expected::Expected;
pub(crate) use input::whole_message;
pub(crate) use method::KnownMethod;

/// Makes the call, prints its reply, and returns the exit status.
///
/// # Errors
/// An address or a certificate is invalid, or there is no core.
pub(crate) fn run(config: CallConfig) -> Result<ExitCode, Box<dyn Error>> {
    let client = config.access.client()?;
    ringway_runtime::block_on(async move {
        let done = match &config.ask {
            Ask::List => list(Catalogue::new(&client, config.access.is_grpc())).await,
            Ask::Call { method, message, .. } if config.access.is_json_rpc() => {
                json_rpc::call(client, method, Input::of(message)).await
            }
            Ask::Call { method, message, is_binary } => {
                let output = Output::new(*is_binary);
                call(&client, &config, method, Input::of(message), output).await
            }
        };
        Ok(done.map_or_else(|error| failed(&*error), |()| ExitCode::SUCCESS))
    })?
}

/// Prints why there is no reply; the server may have written parts of the text.
fn failed(error: &(dyn Error + 'static)) -> ExitCode {
    let is_unread = |error: &io::Error| error.kind() == io::ErrorKind::BrokenPipe;
    if error.downcast_ref().is_some_and(is_unread) {
        return ExitCode::SUCCESS; // as behind `| head`, which has read enough
    }
    stderr::complain(printable(&error.to_string()));
    ExitCode::FAILURE
}

/// Lists all services, also those of which the server tells only the name.
async fn list(mut catalogue: Catalogue<'_>) -> Result<(), Box<dyn Error>> {
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
                let table = catalogue::table(&service, &described.methods);
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
    let method = KnownMethod::find(&config.access, client, name, output.is_binary).await?;
    let streaming = match config.access.timeout {
        Some(_) => client.clone(),
        None => client.with(config.access.options().no_timeout()),
    };
    let asked = Asked { client, streaming, method, output };
    asked.ask(input).await
}

struct Asked<'a> {
    client: &'a Client,
    /// Does the same for streams, which have no time limit by default.
    streaming: Client,
    method: KnownMethod,
    output: Output,
}

impl Asked<'_> {
    async fn ask(&self, input: Input) -> Result<(), Box<dyn Error>> {
        let KnownMethod { method, codec_in, codec_out, transcoder } = &self.method;
        match method.kind() {
            Kind::Unary => {
                let request = self.one_request(input).await?;
                let reply = self.client.unary(method, *codec_in, *codec_out, request).await?;
                self.output.print(transcoder, &reply)
            }
            Kind::ServerStream => {
                let request = self.one_request(input).await?;
                let replies = self.streaming.server_stream(method, *codec_in, *codec_out, request);
                self.print_all(replies).await
            }
            Kind::ClientStream => {
                let (sink, reply) = self.streaming.client_stream(method, *codec_in, *codec_out);
                let wrong = input::send(input, self.shape(), sink)?;
                let reply = reply.await;
                self.unless(wrong.get())?;
                self.output.print(transcoder, &reply?)
            }
            Kind::Bidi => {
                let (sink, replies) = self.streaming.bidi(method, *codec_in, *codec_out);
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
            false => Shape::Lines(Arc::clone(&self.method.transcoder)),
        }
    }

    /// Returns the one request of a method without a request stream.
    async fn one_request(&self, input: Input) -> Result<Bytes, Box<dyn Error>> {
        let reading = ringway_runtime::spawn_blocking(move || input.whole())?;
        let bytes = reading.await.map_err(|_| "reading the request panicked")??;
        match self.output.is_binary {
            true => Ok(bytes.into()),
            false => Ok(self.method.transcoder.request(&input::without_end(bytes))?),
        }
    }

    /// Returns the error of the input, if there is one: it is why the call was cancelled.
    fn unless(&self, wrong: Option<&String>) -> Result<(), Box<dyn Error>> {
        wrong.map_or(Ok(()), |why| Err(why.as_str().into()))
    }

    async fn print_all(&self, mut replies: Streaming<Bytes>) -> Result<(), Box<dyn Error>> {
        while let Some(reply) = replies.next().await? {
            self.output.print(&self.method.transcoder, &reply)?;
        }
        Ok(())
    }
}
