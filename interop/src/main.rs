//! Serves gRPC's test service at the address in its argument until SIGTERM or SIGINT.

use ringway::rpc::Server;
use ringway_interop::Tested;
use ringway_interop::testing::TestServiceServer;

fn main() -> ringway::Result {
    let address = std::env::args().nth(1).unwrap_or("tcp://127.0.0.1:10000".into());
    let server = Server::bind(address)?.service(TestServiceServer::new(Tested));
    server.on_ready(|addresses| println!("listening on {}", addresses[0])).serve()
}
