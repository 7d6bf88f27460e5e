//! What a server tells beside its calls: interceptors and switches apply to all of it, whichever way it is asked.

use ringway_http::{Router, text};
use ringway_rpc::{Server, ServerHandle, Status};

use crate::support::echo::{Echo, serve};
use crate::support::grpc_caller::GrpcCaller;
use crate::support::json_lines::JsonLines;
use crate::support::web_caller::{ask, head, post};
use crate::support::{end, socket_addr};

const DISCOVER: &str = r#"{"jsonrpc":"2.0","method":"rpc.discover","id":1}"#;
const CHECK: &str =
    r#"{"jsonrpc":"2.0","method":"grpc.health.v1.Health/Check","params":{},"id":1}"#;
const LIST: &[u8] = &[7 << 3 | 2, 1, b'*'];
const REFLECTION: &str = "grpc.reflection.v1.ServerReflection/ServerReflectionInfo";

fn posted(handle: &ServerHandle, text: &str) -> String {
    ask(handle, post("/rpc", "content-type: application/json\r\n", text)).text()
}

fn refuses(server: Server) -> Server {
    server.intercept(async |_, _| Err(Status::unauthenticated("a token is needed")))
}

#[test]
fn an_interceptor_guards_what_the_server_tells_of_itself() {
    let handle = serve(&Echo::default(), refuses);
    let mut lines = JsonLines::tcp(socket_addr(&handle));
    for asked in [DISCOVER, CHECK] {
        for answer in [posted(&handle, asked), lines.ask(asked)] {
            assert!(answer.contains("a token is needed"), "{answer}");
            assert!(!answer.contains("echo.Echo"), "{answer}");
        }
    }
    let mut grpc = GrpcCaller::connect(socket_addr(&handle));
    for (method, message) in [(REFLECTION, LIST), ("grpc.health.v1.Health/Check", b"")] {
        assert_eq!(grpc.call(method, message).status(), (16, "a token is needed"));
    }
    drop((grpc, lines));
    end(handle);
}

#[test]
fn reflection_can_be_switched_off_for_all_protocols() {
    let handle = serve(&Echo::default(), |server| server.reflection(false));
    let unknown = posted(&handle, DISCOVER);
    assert!(unknown.contains("-32601"), "{unknown}");
    let mut grpc = GrpcCaller::connect(socket_addr(&handle));
    for method in [REFLECTION, "ringway.reflection.v1.Reflection/List"] {
        assert_eq!(grpc.call(method, LIST).status().0, 12, "{method}");
    }
    assert_eq!(grpc.call("grpc.health.v1.Health/Check", b"").status().0, 0);
    drop(grpc);
    end(handle);
}

#[test]
fn lines_of_json_and_metrics_can_be_switched_off() {
    let own = Router::new().get("/metrics", async |_| Ok(text("of the program")));
    let handle = serve(&Echo::default(), |server| {
        server.json_rpc_lines(false).metrics_page(false).http_routes(own)
    });
    let mut lines = JsonLines::tcp(socket_addr(&handle));
    lines.send(format!("{CHECK}\n"));
    assert_eq!(lines.try_line(), None, "it is closed");
    assert!(posted(&handle, CHECK).contains("SERVING"));
    assert_eq!(ask(&handle, head("GET", "/metrics", "")).text(), "of the program");
    end(handle);
}
