//! Operations under way, on the core that awaits them or on another thread.

use std::any::Any;
use std::pin::{Pin, pin};
use std::rc::Rc;
use std::sync::Arc;
use std::task::{Context, Poll};

use ringway_net::blocking_refused;
use ringway_net::remote::{RemoteTask, TaskGone, background_core, block_on, mailbox};

use crate::client_core::ClientCore;
use crate::client_shared::ClientShared;
use crate::error::{Error, Fate, Kind, Result};
use crate::here::{self, CoreNumber, RunKey};

/// What a client does at the server: a value that runs on a core.
pub trait Operation: Send + 'static {
    /// What it returns.
    type Output: Send + 'static;

    /// Whose operation it is.
    fn client(&self) -> &Arc<ClientShared>;

    /// The core that it must run on; any if `None`.
    fn home(&self) -> Option<CoreNumber> {
        None
    }

    /// Runs it.
    fn run(self, core: OnCore) -> impl Future<Output = Result<Self::Output>> + 'static;
}

/// What a client has on the core that runs an operation.
pub struct OnCore(pub(crate) Rc<ClientCore>);

/// An operation under way: a future for cores, tasks of tokio and any other executor.
///
/// On a core, the operation runs right there, over the core's own connections. Elsewhere it runs on a core in
/// the background. Dropping it gives the operation up.
#[must_use = "an operation does nothing until it is awaited"]
pub struct Running<O: Operation> {
    state: State<O>,
}

enum State<O: Operation> {
    New(O),
    Here(RunKey),
    Elsewhere(RemoteTask<Result<O::Output>>),
    Over,
}

impl<O: Operation> Running<O> {
    pub(crate) fn new(operation: O) -> Self {
        Self { state: State::New(operation) }
    }

    /// Changes the operation, if it has not begun.
    pub(crate) fn with(mut self, change: impl FnOnce(&mut O)) -> Self {
        if let State::New(operation) = &mut self.state {
            change(operation);
        }
        self
    }

    fn poll_new(&mut self, operation: O, cx: &mut Context<'_>) -> Poll<Result<O::Output>> {
        let home = operation.home();
        match here::core_of(operation.client(), home) {
            Some(core) => {
                let key = here::begin(Box::pin(operation.run(OnCore(core))));
                self.state = State::Here(key);
                self.poll_here(key, cx)
            }
            None => match start_elsewhere(operation, home) {
                Ok(mut task) => match Pin::new(&mut task).poll(cx) {
                    Poll::Ready(output) => Poll::Ready(of_remote(output)),
                    Poll::Pending => {
                        self.state = State::Elsewhere(task);
                        Poll::Pending
                    }
                },
                Err(error) => Poll::Ready(Err(error)),
            },
        }
    }

    fn poll_here(&mut self, key: RunKey, cx: &mut Context<'_>) -> Poll<Result<O::Output>> {
        let mut output: Option<Result<O::Output>> = None;
        let place: &mut dyn Any = &mut output;
        match here::poll(key, cx, place) {
            Some(Poll::Pending) => return Poll::Pending,
            Some(Poll::Ready(())) => {}
            None => {
                let what = "an operation that had begun on a core was polled on another thread, or after the core's end";
                output = Some(Err(Error::new(Kind::Options, Fate::Unknown, what)));
            }
        }
        self.state = State::Over;
        here::end(key);
        Poll::Ready(output.expect("the operation has put it there"))
    }
}

impl<O: Operation> Future for Running<O> {
    type Output = Result<O::Output>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        match &mut self.state {
            State::Here(key) => {
                let key = *key;
                self.poll_here(key, cx)
            }
            State::Elsewhere(task) => {
                let output = std::task::ready!(Pin::new(task).poll(cx));
                self.state = State::Over;
                Poll::Ready(of_remote(output))
            }
            state => match std::mem::replace(state, State::Over) {
                State::New(operation) => self.poll_new(operation, cx),
                _ => panic!("an operation was polled after it had ended"),
            },
        }
    }
}

impl<O: Operation> Unpin for Running<O> {}

impl<O: Operation> Drop for Running<O> {
    fn drop(&mut self) {
        if let State::Here(key) = self.state {
            here::end(key);
        }
    }
}

fn start_elsewhere<O: Operation>(
    operation: O,
    home: Option<CoreNumber>,
) -> Result<RemoteTask<Result<O::Output>>> {
    let client = Arc::clone(operation.client());
    let (task, start) =
        RemoteTask::new("mongo operation from another thread", move || async move {
            match here::core_of(&client, home) {
                Some(core) => operation.run(OnCore(core)).await,
                None => Err(gone()),
            }
        });
    match home {
        // Without that core, the task is gone.
        Some(home) => mailbox::post(home, Box::new(start)),
        None => {
            let what = "no core can be used for operations of this thread";
            let failed = |kind, why: Box<dyn std::error::Error + Send + Sync>| {
                Error::new(kind, Fate::NotSent, what).with_source(why)
            };
            let core = background_core().map_err(|error| failed(Kind::Network, error.into()))?;
            let started = core.spawn(async move || start());
            drop(started.map_err(|error| failed(Kind::Limit, error.into()))?);
        }
    }
    Ok(task)
}

fn of_remote<T>(output: Result<Result<T>, TaskGone>) -> Result<T> {
    output.unwrap_or_else(|TaskGone| Err(gone()))
}

fn gone() -> Error {
    let what = "the operation ended without a result: it panicked, or its core has ended";
    Error::new(Kind::Ended, Fate::Unknown, what)
}

/// Blocks the thread until an operation, or anything else that this crate returns as a future, is ready.
///
/// # Errors
/// Those of the future; [`is_options`](Error::is_options) on a thread that must not block: a core, or one that
/// polls a task of tokio.
pub(crate) fn wait<T>(future: impl Future<Output = Result<T>>) -> Result<T> {
    match blocking_refused() {
        Some(why) => Err(Error::new(Kind::Options, Fate::NotSent, why)),
        None => block_on(pin!(future)),
    }
}

/// Waiting for the futures of this crate on a plain thread: the blocking face of the same client.
///
/// ```no_run
/// use bson::{Document, doc};
/// use ringway_mongo::{Client, Wait};
///
/// let client = Client::connect("mongodb://127.0.0.1")?;
/// let books = client.database("shop").collection::<Document>("books");
/// books.insert_one(&doc! { "title": "Emma" }).wait()?;
/// let mut cursor = books.find(doc! {}).wait()?;
/// while let Some(book) = cursor.next().wait()? {
///     println!("{book}");
/// }
/// # Ok::<(), ringway_mongo::Error>(())
/// ```
pub trait Wait {
    /// What comes out.
    type Ready;

    /// Blocks the thread until it is there.
    ///
    /// # Errors
    /// Those of awaiting it; [`is_options`](Error::is_options) on a thread that must not block: a core, or
    /// one that polls a task of tokio.
    fn wait(self) -> Result<Self::Ready>;
}

impl<T, F: IntoFuture<Output = Result<T>>> Wait for F {
    type Ready = T;

    fn wait(self) -> Result<T> {
        wait(self.into_future())
    }
}
