//! The service and its client, made with tonic.

use std::error::Error;
use std::pin::Pin;

use tokio_stream::{Stream, StreamExt};
use tonic::metadata::MetadataValue;
use tonic::transport::server::TcpIncoming;
use tonic::{Code, Request, Response, Status, Streaming};

use self::tally::{Number, tally_client::TallyClient, tally_server as server};
use crate::CALLER;

#[allow(unreachable_pub, clippy::too_many_lines)] // generated code
mod tally {
    include!(concat!(env!("OUT_DIR"), "/tonic/tally.v1.rs"));
}

struct Numbers;

type Replies = Pin<Box<dyn Stream<Item = Result<Number, Status>> + Send>>;

#[tonic::async_trait]
impl server::Tally for Numbers {
    type CountStream = Replies;
    type DoubleStream = Replies;

    async fn square(&self, request: Request<Number>) -> Result<Response<Number>, Status> {
        let value = request.get_ref().value;
        if value < 0 {
            return Err(Status::invalid_argument("no number below zero"));
        }
        let mut response = Response::new(Number { value: value * value });
        if let Some(caller) = request.metadata().get(CALLER.0) {
            response.metadata_mut().insert(CALLER.0, caller.clone());
        }
        Ok(response)
    }

    async fn sum(&self, numbers: Request<Streaming<Number>>) -> Result<Response<Number>, Status> {
        let (mut numbers, mut value) = (numbers.into_inner(), 0);
        while let Some(number) = numbers.message().await? {
            value += number.value;
        }
        Ok(Response::new(Number { value }))
    }

    async fn count(&self, number: Request<Number>) -> Result<Response<Replies>, Status> {
        let numbers = (1..=number.get_ref().value).map(|value| Ok(Number { value }));
        Ok(Response::new(Box::pin(tokio_stream::iter(numbers))))
    }

    async fn double(
        &self,
        numbers: Request<Streaming<Number>>,
    ) -> Result<Response<Replies>, Status> {
        let twice = |number: Number| Number { value: 2 * number.value };
        Ok(Response::new(Box::pin(numbers.into_inner().map(move |number| number.map(twice)))))
    }
}

/// Serves in a task. Returns the address.
pub(crate) fn serve() -> Result<String, Box<dyn Error>> {
    let incoming = TcpIncoming::bind("127.0.0.1:0".parse()?)?;
    let address = format!("grpc://{}", incoming.local_addr()?);
    let service = server::TallyServer::new(Numbers);
    tokio::spawn(tonic::transport::Server::builder().serve_with_incoming(service, incoming));
    Ok(address)
}

/// Calls each method. Returns the replies.
pub(crate) async fn call(address: String) -> Result<Vec<String>, Box<dyn Error>> {
    let mut tally = TallyClient::connect(address.replace("tcp:", "http:")).await?;
    let mut report = Vec::new();
    let mut request = Request::new(Number { value: 12 });
    request.metadata_mut().insert(CALLER.0, MetadataValue::from_static(CALLER.1));
    let squared = tally.square(request).await?;
    let caller = squared.metadata().get(CALLER.0).map_or(Ok("nobody"), |caller| caller.to_str())?;
    report.push(format!("square of 12: {}, served to {caller}", squared.get_ref().value));
    if let Err(status) = tally.square(Number { value: -1 }).await {
        let code = if status.code() == Code::InvalidArgument { "INVALID_ARGUMENT" } else { "?" };
        report.push(format!("square of -1: {code}, {}", status.message()));
    }
    let number = |value| Number { value };
    let sum = tally.sum(tokio_stream::iter((1..=3).map(number))).await?;
    report.push(format!("sum of 1, 2, 3: {}", sum.get_ref().value));
    report.push(format!("count to 3: {:?}", all(tally.count(number(3)).await?).await?));
    let doubles = tally.double(tokio_stream::iter([7, 8].map(number))).await?;
    report.push(format!("double of 7, 8: {:?}", all(doubles).await?));
    Ok(report)
}

async fn all(numbers: Response<Streaming<Number>>) -> Result<Vec<i64>, Status> {
    let values = numbers.into_inner().map(|number| number.map(|number| number.value));
    values.collect().await
}
