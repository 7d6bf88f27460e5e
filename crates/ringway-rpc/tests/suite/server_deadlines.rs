//! Deadlines as seen by handlers that compute.

use std::sync::mpsc::{self, Sender};
use std::time::{Duration, Instant};

use ringway_rpc::{Client, Code, Context, Server, Status};

use crate::support::{LIMIT, end};

/// What a handler saw when its call was over.
struct Seen {
    remaining: Option<Duration>,
    reason: Option<Code>,
    /// The result of `done`.
    done: Option<Code>,
}

#[ringway_rpc::service(crate = "ringway_rpc")]
trait Cruncher {
    /// Blocks its core until its call is over.
    async fn crunch(&self, context: Context, of: u64) -> Result<u64, Status>;
}

struct Counting(Sender<Option<Seen>>);

impl Cruncher for Counting {
    async fn crunch(&self, context: Context, of: u64) -> Result<u64, Status> {
        let begun = Instant::now();
        while !context.is_cancelled() {
            if begun.elapsed() > LIMIT / 2 {
                self.0.send(None).expect("the test waits");
                return Ok(of);
            }
            std::hint::spin_loop();
        }
        let reason = context.cancel_reason().map(|status| status.code());
        let remaining = context.remaining();
        let done = context.done().await.map(|status| status.code());
        self.0.send(Some(Seen { remaining, reason, done })).expect("the test waits");
        Err(Status::deadline_exceeded("nobody waits"))
    }
}

#[test]
fn handler_that_blocks_its_core_sees_its_deadline_pass() {
    let (tell, told) = mpsc::channel();
    let server = Server::bind("tcp://127.0.0.1:0").expect("a free port").threads(1);
    let service = CruncherServer::per_core(move || Counting(tell.clone()));
    let server = server.service(service).start().expect("the server starts");
    let client = Client::connect(server.addresses()[0].clone()).expect("a good address");
    let client = CruncherClient::new(client);
    let call = client.crunch(1).timeout(Duration::from_millis(200));
    assert!(call.wait().expect_err("too late").is_deadline_exceeded());
    let seen = told.recv_timeout(LIMIT).expect("the handler ends");
    let seen = seen.expect("the handler has seen it");
    assert_eq!(seen.remaining, Some(Duration::ZERO));
    assert_eq!(
        (seen.reason, seen.done),
        (Some(Code::DeadlineExceeded), Some(Code::DeadlineExceeded))
    );
    end(server);
}
