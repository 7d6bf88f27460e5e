//! The server under test: what each method answers is part of its request.

use std::error::Error;
use std::time::Duration;

use bytes::Bytes;
use prost::Message as _;
use prost_types::Any;
use ringway::net::{ClientAuth, ServerTls};
use ringway::rpc::{Code, Compression, Context, Metadata, Server, Sink, Status, Streaming};
use ringway::runtime::sleep;

use crate::messages::{self, RpcStatus, headers, packed};
use crate::suite::conformance_payload::RequestInfo;
use crate::suite::unary_response_definition::Response;
use crate::suite::{
    BidiStreamRequest, BidiStreamResponse, ClientStreamRequest, ClientStreamResponse,
    ConformancePayload, ConformanceService, ConformanceServiceServer, Header,
    IdempotentUnaryRequest, IdempotentUnaryResponse, ServerCompatRequest, ServerCompatResponse,
    ServerStreamRequest, ServerStreamResponse, StreamResponseDefinition, UnaryRequest,
    UnaryResponse, UnaryResponseDefinition, UnimplementedRequest, UnimplementedResponse,
};

/// Serves as the suite asks, until the suite ends it.
pub(crate) fn run() -> Result<(), Box<dyn Error>> {
    let wanted: ServerCompatRequest = messages::read()?.ok_or("the suite asks for nothing")?;
    let scheme = if wanted.use_tls { "tls" } else { "tcp" };
    let mut server = Server::bind(format!("{scheme}://127.0.0.1:0"))?.threads(1);
    let mut pem_cert = Bytes::new();
    if wanted.use_tls {
        let own = wanted.server_creds.ok_or("the suite gives no certificate")?;
        let mut tls = ServerTls::from_pem(&own.cert, &own.key)?;
        if !wanted.client_tls_cert.is_empty() {
            tls = tls.client_auth(&wanted.client_tls_cert, ClientAuth::Required)?;
        }
        server = server.tls(tls);
        pem_cert = own.cert;
    }
    if wanted.message_receive_limit > 0 {
        server = server.message_bytes_max(wanted.message_receive_limit);
    }
    let compression = Compression::of_all_services().reply_bytes_min(0);
    let service = ConformanceServiceServer::new(Subject);
    let handle = server.compression(compression).service(service).start()?;
    let address = handle.addresses()[0].to_string();
    let (_, port) = address.rsplit_once(':').ok_or("an address without a port")?;
    let port = port.parse()?;
    messages::write(&ServerCompatResponse { host: "127.0.0.1".to_owned(), port, pem_cert })?;
    Ok(handle.wait_for_signal()?)
}

struct Subject;

/// A call under way: what its answers tell of its request.
struct Call {
    context: Context,
    timeout: Option<Duration>,
    /// Requests that no answer has told of.
    untold: Vec<Any>,
    /// Whether an answer has told of headers and time; it is told once.
    is_told: bool,
}

impl Call {
    fn new() -> Self {
        let context = Context::current().expect("a handler has the context of its call");
        let timeout = context.remaining();
        Self { context, timeout, untold: Vec::new(), is_told: false }
    }

    fn of(request: Any) -> Self {
        let mut call = Self::new();
        call.untold.push(request);
        call
    }

    fn info(&mut self) -> RequestInfo {
        let requests = std::mem::take(&mut self.untold);
        if std::mem::replace(&mut self.is_told, true) {
            return RequestInfo { requests, ..RequestInfo::default() };
        }
        let timeout_ms = self.timeout.map(|it| i64::try_from(it.as_millis()).unwrap_or(i64::MAX));
        let request_headers = headers(self.context.metadata());
        RequestInfo { request_headers, timeout_ms, requests, connect_get_info: None }
    }

    fn payload(&mut self, data: Bytes) -> ConformancePayload {
        ConformancePayload { data, request_info: Some(self.info()) }
    }

    fn set_metadata(&self, initial: &[Header], trailing: &[Header]) -> Result<(), Status> {
        for header in initial {
            for value in messages::values(header) {
                self.context.append_initial_metadata(&header.name, value)?;
            }
        }
        for header in trailing {
            for value in messages::values(header) {
                self.context.append_trailer(&header.name, value)?;
            }
        }
        Ok(())
    }

    /// A failure as the suite wants it, with what no answer has told of.
    fn failure(
        &mut self,
        error: crate::suite::Error,
        trailing: &[Header],
        tells_request: bool,
    ) -> Result<Status, Status> {
        let mut metadata = Metadata::new();
        for header in trailing {
            for value in messages::values(header) {
                metadata.append(&header.name, value)?;
            }
        }
        let message = error.message.unwrap_or_default();
        let code = Code::from_wire(u8::try_from(error.code).unwrap_or(u8::MAX));
        let mut details = error.details;
        if tells_request {
            details.push(packed("ConformancePayload.RequestInfo", &self.info()));
        }
        let status = Status::new(code, message.clone()).with_metadata(metadata);
        if details.is_empty() {
            return Ok(status);
        }
        let details = RpcStatus { code: error.code, message, details };
        Ok(status.with_details(details.encode_to_vec()))
    }

    async fn answer(
        &mut self,
        wanted: Option<UnaryResponseDefinition>,
    ) -> Result<Option<ConformancePayload>, Status> {
        let Some(wanted) = wanted else { return Ok(Some(self.payload(Bytes::new()))) };
        let (initial, trailing) = (&wanted.response_headers, &wanted.response_trailers);
        pause(wanted.response_delay_ms).await;
        match wanted.response {
            Some(Response::Error(error)) => {
                self.set_metadata(initial, &[])?;
                Err(self.failure(error, trailing, true)?)
            }
            Some(Response::ResponseData(data)) => {
                self.set_metadata(initial, trailing)?;
                Ok(Some(self.payload(data)))
            }
            None => {
                self.set_metadata(initial, trailing)?;
                Ok(Some(self.payload(Bytes::new())))
            }
        }
    }

    fn begin_stream(&self, wanted: &StreamResponseDefinition) -> Result<(), Status> {
        let trailing = match wanted.error {
            Some(_) => &[],
            None => &*wanted.response_trailers,
        };
        self.set_metadata(&wanted.response_headers, trailing)
    }

    fn end_stream(&mut self, wanted: StreamResponseDefinition, sent: usize) -> Result<(), Status> {
        match wanted.error {
            Some(error) => Err(self.failure(error, &wanted.response_trailers, sent == 0)?),
            None => Ok(()),
        }
    }
}

async fn pause(ms: u32) {
    if ms > 0 {
        sleep(Duration::from_millis(ms.into())).await;
    }
}

impl ConformanceService for Subject {
    async fn unary(&self, request: UnaryRequest) -> Result<UnaryResponse, Status> {
        let mut call = Call::of(packed("UnaryRequest", &request));
        Ok(UnaryResponse { payload: call.answer(request.response_definition).await? })
    }

    async fn idempotent_unary(
        &self,
        request: IdempotentUnaryRequest,
    ) -> Result<IdempotentUnaryResponse, Status> {
        let mut call = Call::of(packed("IdempotentUnaryRequest", &request));
        Ok(IdempotentUnaryResponse { payload: call.answer(request.response_definition).await? })
    }

    async fn unimplemented(
        &self,
        _: UnimplementedRequest,
    ) -> Result<UnimplementedResponse, Status> {
        Err(Status::unimplemented("the suite wants this method to be missing"))
    }

    async fn client_stream(
        &self,
        mut requests: Streaming<ClientStreamRequest>,
    ) -> Result<ClientStreamResponse, Status> {
        let (mut call, mut wanted) = (Call::new(), None);
        while let Some(request) = requests.next().await? {
            call.untold.push(packed("ClientStreamRequest", &request));
            if call.untold.len() == 1 {
                wanted = request.response_definition;
            }
        }
        Ok(ClientStreamResponse { payload: call.answer(wanted).await? })
    }

    async fn server_stream(
        &self,
        request: ServerStreamRequest,
        mut replies: Sink<ServerStreamResponse>,
    ) -> Result<(), Status> {
        let mut call = Call::of(packed("ServerStreamRequest", &request));
        let Some(mut wanted) = request.response_definition else { return Ok(()) };
        call.begin_stream(&wanted)?;
        let answers = std::mem::take(&mut wanted.response_data);
        let sent = answers.len();
        for data in answers {
            pause(wanted.response_delay_ms).await;
            let payload = Some(call.payload(data));
            replies.send(ServerStreamResponse { payload }).await?;
        }
        call.end_stream(wanted, sent)
    }

    async fn bidi_stream(
        &self,
        mut requests: Streaming<BidiStreamRequest>,
        mut replies: Sink<BidiStreamResponse>,
    ) -> Result<(), Status> {
        let mut call = Call::new();
        let Some(first) = requests.next().await? else { return Ok(()) };
        call.untold.push(packed("BidiStreamRequest", &first));
        let mut wanted = first.response_definition.unwrap_or_default();
        call.begin_stream(&wanted)?;
        let answers = std::mem::take(&mut wanted.response_data);
        let sent = answers.len();
        let mut answers = answers.into_iter();
        loop {
            if first.full_duplex {
                let Some(data) = answers.next() else { break };
                pause(wanted.response_delay_ms).await;
                let payload = Some(call.payload(data));
                replies.send(BidiStreamResponse { payload }).await?;
            }
            let Some(request) = requests.next().await? else { break };
            call.untold.push(packed("BidiStreamRequest", &request));
        }
        for data in answers {
            pause(wanted.response_delay_ms).await;
            let payload = Some(call.payload(data));
            replies.send(BidiStreamResponse { payload }).await?;
        }
        call.end_stream(wanted, sent)
    }
}
