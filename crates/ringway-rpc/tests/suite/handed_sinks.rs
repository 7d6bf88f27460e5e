//! Handlers that exchange their streams.

use std::cell::RefCell;
use std::rc::Rc;

use bytes::Bytes;
use ringway_rpc::{Client, Context, Server, Sink, Status, Streaming, service};
use ringway_runtime::sync::Notify;

#[service(package = "swap.v1", crate = "ringway_rpc")]
trait Swap {
    /// Passes its sink to the next call's handler, which answers both in the same poll.
    async fn meet(
        &self,
        context: Context,
        names: Streaming<Bytes>,
        out: Sink<Bytes>,
    ) -> Result<(), Status>;
}

#[derive(Default)]
struct Meeting {
    waiting: RefCell<Option<Sink<Bytes>>>,
    met: Rc<Notify>,
}

impl Swap for Meeting {
    async fn meet(
        &self,
        context: Context,
        mut names: Streaming<Bytes>,
        mut out: Sink<Bytes>,
    ) -> Result<(), Status> {
        let name = names.next().await?.expect("a name comes first");
        context.set_initial_metadata("who", &name)?;
        let other = self.waiting.borrow_mut().take();
        match other {
            None => {
                self.waiting.replace(Some(out));
                self.met.notified().await;
            }
            Some(mut other) => {
                other.try_send(name.clone()).map_err(|_| Status::aborted("no room"))?;
                out.try_send(name).map_err(|_| Status::aborted("no room"))?;
                drop(other);
                self.met.notify_one();
            }
        }
        Ok(())
    }
}

#[test]
fn each_stream_has_its_own_handlers_metadata() {
    let server = Server::bind("tcp://127.0.0.1:0").expect("a free port").threads(1);
    let server = server.service(SwapServer::per_core(Meeting::default));
    let server = server.start().expect("the server starts");
    let address = server.addresses()[0].clone();
    let test = async move {
        let client = SwapClient::new(Client::builder().address(address).build()?);
        for _ in 0..20 {
            // Both calls in one turn, so that the server gets them together and starts them in
            // place.
            let calls = ["first", "second"].map(|name| {
                let (mut names, mut out) = client.meet();
                ringway_runtime::spawn(async move {
                    names.send(Bytes::from(name)).await?;
                    let initial = out.metadata().await?;
                    let said = out.next().await?;
                    Ok::<_, Status>((initial.get("who").map(str::to_owned), said))
                })
            });
            let [first, second] = calls;
            let (first, second) =
                (first.await.expect("no panic")?, second.await.expect("no panic")?);
            assert_eq!(first.0.as_deref(), Some("first"), "of its own handler");
            assert_eq!(second.0.as_deref(), Some("second"), "of its own handler");
            assert!(first.1 == second.1 && first.1.is_some(), "both got one handler's message");
        }
        Ok::<(), Status>(())
    };
    ringway_runtime::block_on(test).expect("a core").expect("the calls succeed");
    server.shutdown();
    server.wait().expect("an end in order");
}
