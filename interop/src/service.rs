//! The methods of the test service.

use std::time::Duration;

use bytes::Bytes;
use prost::Message as _;
use ringway::rpc::{Code, Context, Sink, Status, Streaming};
use ringway::runtime::sleep;

use crate::limits::{BODY_BYTES_MAX, KEPT_REQUESTS_MAX};
use crate::testing::{
    EchoStatus, Empty, OrcaLoadReport, Payload, SimpleRequest, SimpleResponse,
    StreamingInputCallRequest, StreamingInputCallResponse, StreamingOutputCallRequest,
    StreamingOutputCallResponse, TestOrcaReport, TestService,
};

/// The test service.
#[derive(Clone, Copy, Debug)]
pub struct Tested;

impl TestService for Tested {
    async fn empty_call(&self, _request: Empty) -> Result<Empty, Status> {
        echo_metadata()?;
        Ok(Empty {})
    }

    async fn unary_call(&self, request: SimpleRequest) -> Result<SimpleResponse, Status> {
        echo_metadata()?;
        if let Some(report) = request.orca_per_query_report {
            report_load(report)?;
        }
        fail_as_asked(request.response_status)?;
        let payload = Some(payload(request.response_size)?);
        let server_id = request.fill_server_id.then(|| std::process::id().to_string());
        Ok(SimpleResponse { payload, server_id: server_id.unwrap_or_default() })
    }

    async fn cacheable_unary_call(&self, request: SimpleRequest) -> Result<SimpleResponse, Status> {
        self.unary_call(request).await
    }

    async fn streaming_output_call(
        &self,
        request: StreamingOutputCallRequest,
        mut replies: Sink<StreamingOutputCallResponse>,
    ) -> Result<(), Status> {
        echo_metadata()?;
        answer(request, &mut replies).await
    }

    async fn streaming_input_call(
        &self,
        mut requests: Streaming<StreamingInputCallRequest>,
    ) -> Result<StreamingInputCallResponse, Status> {
        echo_metadata()?;
        let mut size = 0_i32;
        while let Some(request) = requests.next().await? {
            let len = request.payload.unwrap_or_default().body.len();
            let len = i32::try_from(len).expect("a message is no larger than a size of one");
            let more = size.checked_add(len);
            size = more.ok_or_else(|| Status::out_of_range("no 32 bits count that many bytes"))?;
        }
        Ok(StreamingInputCallResponse { aggregated_payload_size: size })
    }

    async fn full_duplex_call(
        &self,
        mut requests: Streaming<StreamingOutputCallRequest>,
        mut replies: Sink<StreamingOutputCallResponse>,
    ) -> Result<(), Status> {
        echo_metadata()?;
        while let Some(request) = requests.next().await? {
            answer(request, &mut replies).await?;
        }
        Ok(())
    }

    async fn half_duplex_call(
        &self,
        mut requests: Streaming<StreamingOutputCallRequest>,
        mut replies: Sink<StreamingOutputCallResponse>,
    ) -> Result<(), Status> {
        echo_metadata()?;
        let mut kept = Vec::new();
        while let Some(request) = requests.next().await? {
            if kept.len() == KEPT_REQUESTS_MAX {
                return Err(Status::resource_exhausted("too many requests to be kept"));
            }
            kept.push(request);
        }
        for request in kept {
            answer(request, &mut replies).await?;
        }
        Ok(())
    }

    async fn unimplemented_call(&self, _request: Empty) -> Result<Empty, Status> {
        Err(Status::unimplemented("as its name says"))
    }
}

/// Answers one request of a stream with the requested status or all the requested bodies.
async fn answer(
    request: StreamingOutputCallRequest,
    replies: &mut Sink<StreamingOutputCallResponse>,
) -> Result<(), Status> {
    fail_as_asked(request.response_status)?;
    for wanted in request.response_parameters {
        if let Some(micros) = u64::try_from(wanted.interval_us).ok().filter(|&micros| micros > 0) {
            sleep(Duration::from_micros(micros)).await;
        }
        let payload = Some(payload(wanted.size)?);
        replies.send(StreamingOutputCallResponse { payload }).await?;
    }
    Ok(())
}

fn payload(size: i32) -> Result<Payload, Status> {
    match usize::try_from(size) {
        Ok(size) if size <= BODY_BYTES_MAX => Ok(Payload { body: Bytes::from(vec![0; size]) }),
        Ok(_) => Err(Status::resource_exhausted("a body that large is not made")),
        Err(_) => Err(Status::invalid_argument("the size of a body is negative")),
    }
}

fn fail_as_asked(status: Option<EchoStatus>) -> Result<(), Status> {
    match status {
        Some(EchoStatus { code, message }) if code != 0 => {
            let code = u8::try_from(code).map_or(Code::Unknown, Code::from_wire);
            Err(Status::new(code, message))
        }
        _ => Ok(()),
    }
}

const ECHO_INITIAL: &str = "x-grpc-test-echo-initial";
const ECHO_TRAILING: &str = "x-grpc-test-echo-trailing-bin";

/// Echoes two of the caller's metadata entries, one before the first message and one at the end.
fn echo_metadata() -> Result<(), Status> {
    let context = current()?;
    if let Some(value) = context.metadata().get(ECHO_INITIAL) {
        context.set_initial_metadata(ECHO_INITIAL, value).map_err(invalid)?;
    }
    if let Some(value) = context.metadata().get_bin(ECHO_TRAILING) {
        context.set_trailer(ECHO_TRAILING, value).map_err(invalid)?;
    }
    Ok(())
}

fn report_load(report: TestOrcaReport) -> Result<(), Status> {
    let report = OrcaLoadReport {
        cpu_utilization: report.cpu_utilization,
        mem_utilization: report.memory_utilization,
        request_cost: report.request_cost,
        utilization: report.utilization,
    };
    current()?.set_trailer("endpoint-load-metrics-bin", report.encode_to_vec()).map_err(invalid)
}

fn current() -> Result<Context, Status> {
    Context::current().ok_or_else(|| Status::internal("there is no call"))
}

fn invalid(error: ringway::rpc::InvalidMetadata) -> Status {
    Status::internal(error.to_string())
}
