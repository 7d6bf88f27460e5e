//! The messages in the body of a request.

use ringway_http::http::StatusCode;
use ringway_http::{Error, RequestBody};
use ringway_wire::grpc::{Message, MessageError, Messages};
use ringway_wire::native::Piece;
use ringway_wire::web::{Base64Text, BrokenBase64};

use super::protocol::Framing;
use crate::call::status::Status;

/// Reads framed messages as they arrive.
pub(super) struct Envelopes {
    body: RequestBody,
    text: Option<Base64Text>,
    messages: Messages,
    /// Received and not taken yet.
    rest: Piece<'static>,
    is_over: bool,
}

impl Envelopes {
    pub(super) fn new(framing: Framing, body: RequestBody, message_bytes_max: usize) -> Self {
        let len_max = u32::try_from(message_bytes_max).unwrap_or(u32::MAX);
        Self {
            body,
            text: (framing == Framing::GrpcWebText).then(Base64Text::default),
            messages: Messages::new(len_max),
            rest: Piece::EMPTY,
            is_over: false,
        }
    }

    /// The next message; `None` at the end.
    ///
    /// # Errors
    /// When the body is cut or is no sequence of messages.
    pub(super) async fn next(&mut self) -> Result<Option<Message<'static>>, Status> {
        loop {
            let found = self.messages.next(&mut self.rest).map_err(broken)?;
            self.body.keep(self.messages.incomplete_len() + self.rest.len());
            if found.is_some() {
                return Ok(found);
            }
            if self.is_over {
                self.messages.finish().map_err(broken)?;
                return Ok(None);
            }
            self.receive().await?;
        }
    }

    async fn receive(&mut self) -> Result<(), Status> {
        let Some(chunk) = self.body.chunk().await.map_err(|error| not_whole(&error))? else {
            self.is_over = true;
            return self.text.as_ref().map_or(Ok(()), Base64Text::finish).map_err(no_base64);
        };
        let bytes = match &mut self.text {
            None => chunk,
            Some(text) => {
                let mut bytes = Vec::with_capacity(chunk.len());
                text.decode(&chunk, &mut bytes).map_err(no_base64)?;
                bytes.into()
            }
        };
        self.rest = Piece::Owned(bytes);
        Ok(())
    }

    /// The one message of a request that has one.
    ///
    /// # Errors
    /// As [`next`](Self::next), and UNIMPLEMENTED when there are none or more.
    pub(super) async fn single(mut self) -> Result<Message<'static>, Status> {
        let count = |text| Err(Status::unimplemented(text));
        let Some(message) = self.next().await? else {
            return count("the method takes one message, and none was sent");
        };
        match self.next().await? {
            None => Ok(message),
            Some(_) => count("the method takes one message, and more were sent"),
        }
    }
}

fn broken(error: MessageError) -> Status {
    match error {
        MessageError::TooLong { .. } => Status::resource_exhausted(error.to_string()),
        _ => Status::invalid_argument(error.to_string()),
    }
}

fn no_base64(error: BrokenBase64) -> Status {
    Status::invalid_argument(error.to_string())
}

/// Why a body ended early, for a client that may still read the answer.
pub(super) fn not_whole(error: &Error) -> Status {
    let message = error.message().to_owned();
    match error.status() {
        StatusCode::PAYLOAD_TOO_LARGE => Status::resource_exhausted(message),
        // The server is short of memory: the same as for unary calls, and not the client's fault.
        StatusCode::SERVICE_UNAVAILABLE => Status::unavailable(message),
        StatusCode::REQUEST_TIMEOUT => Status::deadline_exceeded(message),
        _ => Status::invalid_argument(message),
    }
}
