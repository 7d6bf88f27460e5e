//! The service and its client, made with Ringway.

use ringway::rpc::{Client, Context, Server, ServerHandle, Sink, Status, Streaming};

use self::tally::{Number, Tally, TallyClient, TallyServer};
use crate::CALLER;

#[allow(unreachable_pub)] // it is made for modules that are
mod tally {
    include!(concat!(env!("OUT_DIR"), "/tally.v1.rs"));
}

struct Numbers;

impl Tally for Numbers {
    async fn square(&self, number: Number) -> Result<Number, Status> {
        if number.value < 0 {
            return Err(Status::invalid_argument("no number below zero"));
        }
        let context = Context::current().expect("a handler has one");
        if let Some(caller) = context.metadata().get(CALLER.0) {
            context.set_initial_metadata(CALLER.0, caller).expect("it has come as metadata");
        }
        Ok(Number { value: number.value * number.value })
    }

    async fn sum(&self, mut numbers: Streaming<Number>) -> Result<Number, Status> {
        let mut value = 0;
        while let Some(number) = numbers.next().await? {
            value += number.value;
        }
        Ok(Number { value })
    }

    async fn count(&self, number: Number, mut numbers: Sink<Number>) -> Result<(), Status> {
        for value in 1..=number.value {
            numbers.send(Number { value }).await?;
        }
        Ok(())
    }

    async fn double(
        &self,
        mut numbers: Streaming<Number>,
        mut doubles: Sink<Number>,
    ) -> Result<(), Status> {
        while let Some(number) = numbers.next().await? {
            doubles.send(Number { value: 2 * number.value }).await?;
        }
        Ok(())
    }
}

/// Starts a server on its own port.
pub(crate) fn serve() -> ringway::Result<ServerHandle> {
    Server::bind("tcp://127.0.0.1:0")?.service(TallyServer::new(Numbers)).start()
}

/// Calls each method. Returns the replies.
pub(crate) async fn call(address: String) -> Result<Vec<String>, Status> {
    let tally = TallyClient::new(Client::connect(address)?);
    let mut report = Vec::new();
    let squared = tally.square(Number { value: 12 }).metadata(CALLER.0, CALLER.1).full().await?;
    let caller = squared.metadata.get(CALLER.0).unwrap_or("nobody");
    report.push(format!("square of 12: {}, served to {caller}", squared.message.value));
    if let Err(status) = tally.square(Number { value: -1 }).await {
        report.push(format!("square of -1: {}, {}", status.code(), status.message()));
    }
    let (mut numbers, sum) = tally.sum();
    for value in 1..=3 {
        numbers.send(Number { value }).await?;
    }
    numbers.finish();
    report.push(format!("sum of 1, 2, 3: {}", sum.await?.value));
    report.push(format!("count to 3: {:?}", all(tally.count(Number { value: 3 })).await?));
    let (mut numbers, doubles) = tally.double();
    for value in [7, 8] {
        numbers.send(Number { value }).await?;
    }
    numbers.finish();
    report.push(format!("double of 7, 8: {:?}", all(doubles).await?));
    Ok(report)
}

async fn all(mut numbers: Streaming<Number>) -> Result<Vec<i64>, Status> {
    let mut values = Vec::new();
    while let Some(number) = numbers.next().await? {
        values.push(number.value);
    }
    Ok(values)
}
