//! Servers of the test service.

use std::time::Duration;

use ringway::net::{Address, ServerTls};
use ringway::rpc::{Server, ServerHandle};
use ringway_interop::Tested;
use ringway_interop::testing::TestServiceServer;

pub(crate) fn serve() -> ServerHandle {
    serve_at("tcp://127.0.0.1:0".parse().expect("an address"))
}

pub(crate) fn serve_at(address: Address) -> ServerHandle {
    server(address).start().expect("the server starts")
}

pub(crate) fn serve_tls(tls: ServerTls) -> ServerHandle {
    let address = "tls://127.0.0.1:0".parse().expect("an address");
    server(address).tls(tls).start().expect("the server starts")
}

fn server(address: Address) -> Server {
    let server = Server::bind(address).expect("a free port").threads(1);
    server.service(TestServiceServer::new(Tested)).drain_timeout(Duration::from_secs(60))
}

/// The server's address, without the scheme.
pub(crate) fn host_and_port(server: &ServerHandle) -> String {
    let address = server.addresses()[0].to_string();
    let (_, place) = address.split_once("://").expect("a scheme");
    place.to_owned()
}

/// Ends a server and checks that nothing was cut off.
pub(crate) fn end(server: ServerHandle) {
    server.shutdown();
    let stats = server.clone();
    server.wait().expect("it ends in order");
    assert_eq!(stats.stats().cut_off, 0, "calls that were cut off");
}
