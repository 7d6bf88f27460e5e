//! A gateway: axum on tokio accepts HTTP with JSON and calls a Ringway service.
//!
//! Run it: `cargo run -p ringway-interop --example axum_gateway`. It starts both, sends the gateway a few requests
//! as curl would, prints the replies, and ends. With the argument `serve` it runs until interrupted.

use std::error::Error;
use std::time::Duration;

use axum::extract::{Path, State};
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use axum::{Json, Router};
use ringway::rpc::{Code, Server, ServerHandle, Status};
use serde::{Deserialize, Serialize};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::oneshot;

#[derive(Debug, Clone, Serialize, Deserialize)]
struct Quote {
    symbol: String,
    cents: u64,
}

#[ringway::service(package = "market.v1")]
trait Market {
    #[method(idempotent)]
    async fn quote(&self, symbol: String) -> Result<Quote, Status>;
}

struct Prices;

impl Market for Prices {
    async fn quote(&self, symbol: String) -> Result<Quote, Status> {
        match symbol.as_str() {
            "RING" => Ok(Quote { symbol, cents: 4_200 }),
            _ => Err(Status::not_found(format!("nobody trades {symbol}"))),
        }
    }
}

/// The service runs on its own cores; tokio tasks call it through the client.
fn service() -> Result<ServerHandle, ringway::Error> {
    Server::bind("tcp://127.0.0.1:0")?.threads(1).service(MarketServer::new(Prices)).start()
}

fn gateway(market: MarketClient) -> Router {
    Router::new().route("/quotes/{symbol}", get(quote)).with_state(market)
}

/// The longest wait for a price.
const PATIENCE: Duration = Duration::from_secs(2);

async fn quote(
    State(market): State<MarketClient>,
    Path(symbol): Path<String>,
) -> Result<Json<Quote>, Failure> {
    Ok(Json(market.quote(symbol).timeout(PATIENCE).await?))
}

/// Converts the status of a failed call to an HTTP response.
struct Failure(Status);

impl From<Status> for Failure {
    fn from(status: Status) -> Self {
        Self(status)
    }
}

impl IntoResponse for Failure {
    fn into_response(self) -> Response {
        let code = match self.0.code() {
            Code::InvalidArgument | Code::FailedPrecondition | Code::OutOfRange => {
                StatusCode::BAD_REQUEST
            }
            Code::Unauthenticated => StatusCode::UNAUTHORIZED,
            Code::PermissionDenied => StatusCode::FORBIDDEN,
            Code::NotFound => StatusCode::NOT_FOUND,
            Code::AlreadyExists | Code::Aborted => StatusCode::CONFLICT,
            Code::ResourceExhausted => StatusCode::TOO_MANY_REQUESTS,
            Code::Unavailable => StatusCode::SERVICE_UNAVAILABLE,
            Code::DeadlineExceeded => StatusCode::GATEWAY_TIMEOUT,
            _ => StatusCode::INTERNAL_SERVER_ERROR,
        };
        (code, self.0.message().to_owned()).into_response()
    }
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn Error>> {
    let service = service()?;
    let market = MarketClient::connect(service.addresses())?;
    let listener = TcpListener::bind("127.0.0.1:0").await?;
    let address = listener.local_addr()?;
    let (stop, stopped) = oneshot::channel();
    let gateway = tokio::spawn(async move {
        let stopped = async { _ = stopped.await };
        axum::serve(listener, gateway(market)).with_graceful_shutdown(stopped).await
    });
    if std::env::args().nth(1).as_deref() == Some("serve") {
        println!("curl http://{address}/quotes/RING");
        return gateway.await?.map_err(Into::into);
    }
    for path in ["/quotes/RING", "/quotes/TORUS"] {
        println!("GET {path}: {}", ask(&address.to_string(), path).await?);
    }
    service.shutdown();
    service.ended().await?;
    println!(
        "GET /quotes/RING without a service: {}",
        ask(&address.to_string(), "/quotes/RING").await?
    );
    _ = stop.send(()); // Fails only if the gateway has ended, which the next line tells.
    gateway.await??;
    Ok(())
}

/// Sends a plain request. Returns the status and body of the reply.
async fn ask(address: &str, path: &str) -> Result<String, Box<dyn Error>> {
    let mut connection = TcpStream::connect(address).await?;
    let request = format!("GET {path} HTTP/1.1\r\nhost: {address}\r\nconnection: close\r\n\r\n");
    connection.write_all(request.as_bytes()).await?;
    let mut answer = String::new();
    connection.read_to_string(&mut answer).await?;
    let status = answer.split_whitespace().nth(1).ok_or("no status")?;
    let body = answer.split_once("\r\n\r\n").ok_or("no body")?.1;
    Ok(format!("{status} {body}"))
}
