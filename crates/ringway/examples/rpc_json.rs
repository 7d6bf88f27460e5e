//! One service, called as JSON-RPC by whatever people have: curl, a socket, a page, libraries of other languages.
//!
//! Run it: `cargo run --release --example rpc_json -- 127.0.0.1:9000`; then open <http://localhost:9000/>, or
//!
//! ```sh
//! curl -H 'content-type: application/json' -d '{"jsonrpc":"2.0","method":"total","params":[1.5,4],"id":1}' http://localhost:9000/rpc
//! echo '{"jsonrpc":"2.0","method":"total","params":{"count":4,"price":1.5},"id":1}' | nc -N localhost 9000
//! npx jayson --url http://localhost:9000/rpc --method total --params '[1.5,4]'
//! ```

use std::time::Duration;

use ringway::http::{Router, html};
use ringway::rpc::{Context, Server, Sink, Status};
use ringway::runtime::sleep;

#[ringway::service(package = "shop.v1")]
trait Shop {
    #[method(no_side_effects)]
    async fn total(&self, price: f64, count: u32) -> Result<f64, Status>;
    /// A subscription, for JSON-RPC.
    async fn prices(&self, context: Context, first: f64, prices: Sink<f64>) -> Result<(), Status>;
}

struct Corner;

impl Shop for Corner {
    async fn total(&self, price: f64, count: u32) -> Result<f64, Status> {
        if count == 0 {
            return Err(Status::invalid_argument("nothing is ordered"));
        }
        Ok(price * f64::from(count))
    }

    async fn prices(
        &self,
        context: Context,
        first: f64,
        mut prices: Sink<f64>,
    ) -> Result<(), Status> {
        for step in 0.. {
            prices.send(first + f64::from(step)).await?; // waits for a slow reader
            if context.until_draining(sleep(Duration::from_millis(100))).await.is_none() {
                break;
            }
        }
        Ok(())
    }
}

fn main() -> ringway::Result {
    let address = std::env::args().nth(1).unwrap_or_else(|| "127.0.0.1:9000".to_owned());
    let server = Server::bind(format!("tcp://{address}"))?.service(ShopServer::new(Corner));
    let routes = Router::new().get("/", async |_| Ok(html(PAGE)));
    let server = server.on_ready(|addresses| println!("listening on {}", addresses[0]));
    server.http_routes(routes).serve()
}

/// Asks by POST, and subscribes over a WebSocket.
const PAGE: &str = r#"<!doctype html><title>Shop</title>
<p>Four for 1.50: <output id="total"></output></p><p>Prices: <output id="prices"></output></p>
<button id="stop">Enough</button>
<script type="module">
const $ = (id) => document.getElementById(id);
const call = (method, params, id) => JSON.stringify({ jsonrpc: "2.0", method, params, id });
const headers = { "content-type": "application/json" };
const answer = await fetch("/rpc", { method: "POST", headers, body: call("total", [1.5, 4], 1) });
$("total").textContent = (await answer.json()).result;

const socket = new WebSocket(`ws://${location.host}/rpc`);
let subscription;
socket.onopen = () => socket.send(call("prices", [10], "prices"));
socket.onmessage = ({ data }) => {
  const { id, result, params } = JSON.parse(data);
  if (id === "prices") subscription = result;
  else if (id === "stop") $("stop").textContent = `stopped: ${result}`;
  else if (params.subscription === subscription && !params.end) $("prices").append(`${params.result} `);
};
$("stop").onclick = () => socket.send(call("rpc.unsubscribe", [subscription], "stop"));
</script>"#;
