//! The cases of grpc-go's interoperability client. Left out are those about Google accounts and
//! out-of-band load reports.

use ringway::net::ServerTls;
use ringway::rpc::ServerHandle;

use crate::go;
use crate::support::{end, host_and_port, serve, serve_tls};

/// Runs one case against a server, with flags beside those for the address.
fn run(server: &ServerHandle, case: &str, flags: &[&str]) {
    let place = host_and_port(server);
    let (host, port) = place.rsplit_once(':').expect("a port");
    let mut client = go::program("client");
    client.args(["--server_host", host, "--server_port", port, "--test_case", case]);
    let output = client.args(flags).output().expect("it starts");
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{case}: {}\n{said}", output.status);
}

fn run_alone(case: &str, flags: &[&str]) {
    let server = serve();
    run(&server, case, flags);
    end(server);
}

/// Defines a test with the name of each case.
macro_rules! cases {
    ($($case:ident)*) => {$(
        #[test]
        fn $case() {
            run_alone(stringify!($case), &[]);
        }
    )*};
}

cases! {
    empty_unary
    large_unary
    client_streaming
    server_streaming
    ping_pong
    empty_stream
    timeout_on_sleeping_server
    cancel_after_begin
    cancel_after_first_response
    status_code_and_message
    special_status_message
    custom_metadata
    unimplemented_method
    unimplemented_service
    pick_first_unary
}

/// This balancer hands load reports to the case.
#[test]
fn orca_per_rpc() {
    let config = r#"{"loadBalancingConfig": [{"test_backend_metrics_load_balancer": {}}]}"#;
    run_alone("orca_per_rpc", &["--service_config_json", config]);
}

/// Sends many large calls; the time that one takes is not judged.
const SOAK: [&str; 4] = [
    "--soak_iterations=200",
    "--soak_num_threads=4",
    "--soak_per_iteration_max_acceptable_latency_ms=60000",
    "--soak_overall_timeout_seconds=60",
];

#[test]
fn rpc_soak() {
    run_alone("rpc_soak", &SOAK);
}

/// Each call has its own connection.
#[test]
fn channel_soak() {
    run_alone("channel_soak", &SOAK);
}

#[test]
fn calls_over_tls() {
    let made = rcgen::generate_simple_self_signed(["localhost".to_owned()]).expect("made");
    let chain = made.cert.pem();
    let file = concat!(env!("CARGO_TARGET_TMPDIR"), "/certificate.pem");
    std::fs::write(file, &chain).expect("a file of ours");
    let tls = ServerTls::from_pem(&chain, made.signing_key.serialize_pem()).expect("a pair");
    let server = serve_tls(tls);
    let flags =
        ["--use_tls", "--use_test_ca", "--ca_file", file, "--server_host_override", "localhost"];
    for case in ["large_unary", "ping_pong", "custom_metadata", "cancel_after_first_response"] {
        run(&server, case, &flags);
    }
    end(server);
}
