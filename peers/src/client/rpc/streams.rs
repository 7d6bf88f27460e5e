//! `client stream` and `client flood`: streams of tonic.

use std::sync::Arc;
use std::time::Instant;

use bytes::Bytes;
use tokio::sync::mpsc;
use tokio::task::JoinSet;
use tokio_stream::wrappers::ReceiverStream;
use tonic::Request;
use tonic::client::Grpc;
use tonic::transport::Channel;

use super::tonic::{connect, path};
use crate::args::{self, Streams};
use crate::client::report::Report;
use crate::client::run::{Error, Next, Run, drive};
use crate::message::{FloodPattern, Messages, equals, joined};
use crate::tonic_echo::{BIDI, EchoCodec, FLOOD, flood_request};

/// Runs `client stream` and reports what was measured.
///
/// # Errors
/// If a connection cannot be made.
pub(crate) fn streams(options: &Streams) -> Result<Report, Error> {
    drive(&options.load, |run| async move {
        let messages = Arc::new(Messages::new(options.load.message_bytes));
        let mut connections = Vec::with_capacity(options.load.connections);
        for _ in 0..options.load.connections {
            connections.push(connect(&options.load.address).await?);
        }
        let mut tasks = JoinSet::new();
        for (number, grpc) in connections.into_iter().enumerate() {
            tasks.spawn(stream_in_turn(Streamer {
                grpc,
                run: run.clone(),
                messages: messages.clone(),
                connection: number as u32,
                frames: options.frames as u64,
                window: options.window as u64,
            }));
        }
        Ok(tasks)
    })
}

/// Runs `client flood` and reports what was measured.
///
/// # Errors
/// If the connection cannot be made.
pub(crate) fn flood(options: &args::FloodOptions) -> Result<Report, Error> {
    drive(&options.load, |run| async move {
        let grpc = connect(&options.load.address).await?;
        let message_bytes = options.load.message_bytes;
        let mut tasks = JoinSet::new();
        tasks.spawn(async move {
            if let Err(error) = receive_flood(grpc, &run, message_bytes).await {
                run.on_error(&error);
            }
        });
        Ok(tasks)
    })
}

/// One stream after another on one connection.
struct Streamer {
    grpc: Grpc<Channel>,
    run: Arc<Run>,
    messages: Arc<Messages>,
    connection: u32,
    frames: u64,
    window: u64,
}

async fn stream_in_turn(mut streamer: Streamer) {
    let mut first = 0;
    loop {
        let begun = Instant::now();
        if let Err(error) = streamer.stream(first).await {
            return streamer.run.on_error(&error);
        }
        if streamer.run.on_stream_end(begun) == Next::End {
            return;
        }
        first += streamer.frames;
    }
}

impl Streamer {
    /// One stream, whose first message has the number `first`.
    async fn stream(&mut self, first: u64) -> Result<(), Error> {
        let window = self.window.min(self.frames);
        let (sender, requests) = mpsc::channel(window as usize);
        for number in 0..window {
            sender.try_send(self.message(first + number))?;
        }
        // Dropping the sender ends the requests.
        let mut sender = Some(sender).filter(|_| window < self.frames);
        self.grpc.ready().await?;
        let requests = Request::new(ReceiverStream::new(requests));
        let mut replies = self.grpc.streaming(requests, path(BIDI), EchoCodec).await?.into_inner();
        for number in first..first + self.frames {
            let reply = replies.message().await?.ok_or("a stream ended too early")?;
            self.check(number, &reply);
            let next = number + window;
            if let Some(open) = &sender {
                open.send(self.message(next)).await?;
                if next + 1 == first + self.frames {
                    sender = None;
                }
            }
        }
        match replies.message().await? {
            None => Ok(()),
            Some(_) => Err("a stream had more replies than requests".into()),
        }
    }

    fn message(&self, number: u64) -> Bytes {
        let header = self.messages.header(self.connection, number);
        joined(self.messages.parts(&header, self.connection, number))
    }

    fn check(&self, number: u64, reply: &[u8]) {
        let header = self.messages.header(self.connection, number);
        let parts = self.messages.parts(&header, self.connection, number);
        self.run.on_message(equals(parts, reply));
    }
}

/// Receives until the run ends. More messages than can be asked for at once are an error too, after
/// more than four billion.
async fn receive_flood(
    mut grpc: Grpc<Channel>,
    run: &Run,
    message_bytes: usize,
) -> Result<(), Error> {
    let flood = FloodPattern::new(message_bytes);
    let request = Request::new(flood_request(u32::MAX, message_bytes as u32));
    grpc.ready().await?;
    let replies = grpc.server_streaming(request, path(FLOOD), EchoCodec).await?;
    let mut replies = replies.into_inner();
    for number in 0.. {
        let message = replies.message().await?.ok_or("the flood ended by itself")?;
        if run.on_message(flood.is_message(number, &message)) == Next::End {
            break;
        }
    }
    Ok(())
}
