//! Servers that end while grpc-go calls them without pause: no call fails.

use std::io::{BufRead, BufReader, Write};
use std::process::{Child, ChildStdout, Stdio};

use ringway::net::Address;
use ringway::rpc::ServerHandle;

use crate::go;
use crate::support::{end, host_and_port, serve, serve_at};

/// Number of calls before, between and after the steps of a test.
const CALLS: usize = 2_000;

/// The program that calls without pause.
struct Load {
    program: Child,
    lines: BufReader<ChildStdout>,
}

impl Load {
    fn begin(servers: &[&ServerHandle]) -> Self {
        let mut command = go::program("drain");
        command.args(servers.iter().map(|server| host_and_port(server)));
        let piped = command.stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut program = piped.spawn().expect("it starts");
        let lines = BufReader::new(program.stdout.take().expect("it is piped"));
        Self { program, lines }
    }

    /// Waits until that many more calls were answered, or one failed.
    fn calls(&mut self, more: usize) {
        let input = self.program.stdin.as_mut().expect("it is piped");
        writeln!(input, "{more}").expect("the program reads");
        assert_eq!(self.line(), "done");
    }

    /// Lets the callers finish and checks that all calls were answered. Returns their number.
    fn end(mut self) -> u64 {
        drop(self.program.stdin.take());
        let answered = self.line();
        let status = self.program.wait().expect("a program of ours");
        assert!(status.success(), "a call has failed: {status}");
        answered.parse().expect("a number")
    }

    fn line(&mut self) -> String {
        let mut line = String::new();
        self.lines.read_line(&mut line).expect("text");
        line.trim_end().to_owned()
    }
}

/// Drains a server and starts another one at its address.
fn restart(server: ServerHandle) -> ServerHandle {
    let address: Address = server.addresses()[0].clone();
    end(server);
    serve_at(address)
}

/// Counts the calls that its handlers have begun; still known after its end.
fn executed(servers: &[ServerHandle]) -> u64 {
    let methods = servers.iter().flat_map(|server| server.metrics().methods);
    methods.map(|method| method.started).sum()
}

#[test]
fn one_of_two_servers_drains() {
    let (first, second) = (serve(), serve());
    let mut load = Load::begin(&[&first, &second]);
    load.calls(CALLS);
    end(first.clone());
    load.calls(CALLS);
    let answered = load.end();
    end(second.clone());
    assert_eq!(executed(&[first, second]), answered, "each is executed once");
}

#[test]
fn two_servers_are_replaced_one_after_the_other() {
    let mut servers = vec![serve(), serve()];
    let mut load = Load::begin(&[&servers[0], &servers[1]]);
    for at in 0..2 {
        load.calls(CALLS);
        servers.push(restart(servers[at].clone()));
        load.calls(CALLS);
    }
    let answered = load.end();
    servers[2..].iter().cloned().for_each(end);
    assert_eq!(executed(&servers), answered, "each is executed once");
}

#[test]
fn the_only_server_is_restarted_and_calls_wait_for_it() {
    let first = serve();
    let mut load = Load::begin(&[&first]);
    load.calls(CALLS);
    let second = restart(first.clone());
    load.calls(CALLS);
    let answered = load.end();
    end(second.clone());
    assert_eq!(executed(&[first, second]), answered, "each is executed once");
}

/// grpc-go sends a PING with the answer to nearly each DATA frame, to measure the path.
#[test]
fn a_client_that_measures_the_path_all_the_time_is_borne() {
    let server = serve();
    let mut load = Load::begin(&[&server]);
    load.calls(15 * CALLS);
    let answered = load.end();
    let stats = server.stats();
    end(server.clone());
    assert_eq!((stats.violations, executed(&[server])), (0, answered));
}
