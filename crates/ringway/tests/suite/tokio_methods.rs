//! Methods that use libraries of tokio.

use std::rc::Rc;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use ringway::rpc::{Context, Server, Sink, Status, Streaming};
use tokio::sync::Notify;
use tokio::sync::oneshot;

#[ringway::service]
trait Tokios {
    #[method(tokio)]
    async fn sleep(&self, context: Context, ms: u64) -> Result<String, Status>;

    #[method(tokio)]
    async fn panics(&self, text: String) -> Result<String, Status>;

    #[method(tokio)]
    async fn doubled(&self, numbers: Streaming<u64>, doubled: Sink<u64>) -> Result<(), Status>;

    /// Without the option.
    async fn plain(&self, request: ()) -> Result<bool, Status>;

    /// Runs there until its caller is gone.
    async fn runs(&self, request: ()) -> Result<(), Status>;

    async fn run_panics(&self, text: String) -> Result<(), Status>;
}

struct Service {
    begun: Arc<Notify>,
    held: Mutex<Option<oneshot::Sender<()>>>,
}

impl Tokios for Service {
    async fn sleep(&self, context: Context, ms: u64) -> Result<String, Status> {
        let own = Rc::new(ms); // of this core
        tokio::time::sleep(Duration::from_millis(ms)).await;
        let is_current = Context::current().is_some();
        Ok(format!("{own} {} {is_current}", context.method().short_name()))
    }

    async fn panics(&self, text: String) -> Result<String, Status> {
        tokio::time::sleep(Duration::from_millis(1)).await;
        panic!("{text}")
    }

    async fn doubled(&self, mut numbers: Streaming<u64>, mut out: Sink<u64>) -> Result<(), Status> {
        while let Some(number) = numbers.next().await? {
            tokio::time::sleep(Duration::from_millis(1)).await;
            out.send(number * 2).await?;
        }
        Ok(())
    }

    async fn plain(&self, (): ()) -> Result<bool, Status> {
        Ok(tokio::runtime::Handle::try_current().is_ok())
    }

    async fn runs(&self, (): ()) -> Result<(), Status> {
        let (begun, held) = (Arc::clone(&self.begun), self.held.lock().expect("whole").take());
        let runs = ringway::tokio::run(async move {
            let _held = held;
            begun.notify_one();
            std::future::pending::<()>().await;
        });
        Ok(runs.await?)
    }

    async fn run_panics(&self, text: String) -> Result<(), Status> {
        Ok(ringway::tokio::run(async move { panic!("{text}") }).await?)
    }
}

#[test]
fn methods_of_tokio() {
    let (held, dropped) = oneshot::channel();
    let begun = Arc::new(Notify::new());
    let service = Service { begun: Arc::clone(&begun), held: Mutex::new(Some(held)) };
    let server = Server::bind("tcp://127.0.0.1:0").expect("a port");
    let server = server.threads(1).service(TokiosServer::new(service)).start().expect("it starts");
    let tokios = TokiosClient::connect(server.addresses()).expect("an address");
    let test = async move {
        assert_eq!(tokios.sleep(3).await?, "3 Sleep true");
        assert!(!tokios.plain(()).await?, "others are not within tokio");

        let panicked = tokios.panics("loudly".into()).await.expect_err("it panics");
        assert!(panicked.is_internal() && !panicked.message().contains("loudly"), "{panicked}");
        let panicked = tokios.run_panics("there".into()).await.expect_err("it panics there");
        assert!(panicked.is_internal() && panicked.message().contains("there"), "{panicked}");

        let (mut numbers, mut doubled) = tokios.doubled();
        numbers.send(4).await?;
        assert_eq!(doubled.next().await?, Some(8));
        numbers.finish();
        assert_eq!(doubled.next().await?, None);

        let running = ringway::runtime::spawn(tokios.runs(()));
        begun.notified().await;
        running.abort();
        dropped.await.expect_err("what ran on tokio is dropped when its caller goes");
        Ok::<(), Status>(())
    };
    let limited = ringway::runtime::timeout(Duration::from_secs(60), test);
    ringway::runtime::block_on(limited).expect("a core").expect("in time").expect("no failure");
    server.shutdown();
    server.wait().expect("it ends");
}
