//! Calls from a program that runs on tokio: the client's handles are `Send`, so that tokio's tasks,
//! timers and combinators may have them. A core of ours in the background serves the connections.
//!
//! Run it: `cargo run --release --example rpc_from_tokio`. It calls itself and ends.

use std::time::Duration;

use ringway::rpc::{Server, Sink, Status};
use tokio::task::{JoinSet, spawn_blocking};
use tokio::time::timeout;

#[ringway::service(package = "math.v1")]
trait Math {
    async fn square(&self, number: u64) -> Result<u64, Status>;
    async fn count(&self, to: u64, numbers: Sink<u64>) -> Result<(), Status>;
    async fn largest_prime(&self, above: u64) -> Result<u64, Status>;
}

struct Calculator;

impl Math for Calculator {
    async fn square(&self, number: u64) -> Result<u64, Status> {
        number.checked_mul(number).ok_or_else(|| Status::out_of_range("the square is too large"))
    }

    async fn count(&self, to: u64, mut numbers: Sink<u64>) -> Result<(), Status> {
        for number in 1..=to {
            numbers.send(number).await?;
        }
        Ok(())
    }

    async fn largest_prime(&self, _above: u64) -> Result<u64, Status> {
        std::future::pending().await
    }
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> ringway::Result {
    let server = Server::bind("tcp://127.0.0.1:0")?.service(MathServer::new(Calculator)).start()?;
    println!("listening on {}", server.addresses()[0]);
    let math = MathClient::connect(&server.addresses()[0])?;

    let mut squares = JoinSet::new();
    for number in 1..=100 {
        squares.spawn(math.square(number));
    }
    let mut sum = 0;
    for square in squares.join_all().await {
        sum += square?;
    }
    println!("sum of squares: {sum}");

    let mut numbers = math.count(1000);
    let counting = tokio::spawn(async move {
        let mut sum = 0;
        while let Some(number) = numbers.next().await? {
            sum += number;
        }
        Ok::<u64, Status>(sum)
    });
    println!("sum of numbers: {}", counting.await.expect("the task does not panic")?);

    // Dropping a call cancels it, whoever does so: here tokio's timer.
    let prime = timeout(Duration::from_millis(50), math.largest_prime(0)).await;
    println!("largest prime: {prime:?}");

    server.shutdown();
    spawn_blocking(move || server.wait()).await.expect("it does not panic")
}
