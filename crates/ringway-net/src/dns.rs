//! DNS off the cores: one thread looks up names for all clients of the process.
//!
//! The library runs on tokio, so its questions run there. A core never waits for it: it awaits the answer.

use std::future::Future;
use std::io;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::{Mutex, PoisonError};
use std::thread;
use std::time::Duration;

use hickory_resolver::config::{NameServerConfig, ResolverConfig};
use hickory_resolver::net::NetError;
use hickory_resolver::net::runtime::TokioRuntimeProvider;
use hickory_resolver::{Resolver, TokioResolver};
use tokio::sync::{mpsc, oneshot};

pub use hickory_resolver;

use crate::limits;

type Question = Pin<Box<dyn Future<Output = ()> + Send>>;

static THREAD: Mutex<Option<mpsc::Sender<Question>>> = Mutex::new(None);

/// Asks name servers: the system's, or the one at `server`. Dropping the future gives the question up.
///
/// Each question has a resolver of its own, so that changes of the system's configuration are seen and no record
/// outlives its TTL. The question ends after `limit`. The time is that of the thread, so any executor may poll the future.
///
/// # Errors
/// The error of the question, or a sentence that says why it was not asked, or that its time is over.
pub async fn ask<T, Q, F>(
    server: Option<SocketAddr>,
    limit: Duration,
    question: Q,
) -> Result<T, String>
where
    T: Send + 'static,
    Q: FnOnce(TokioResolver) -> F + Send + 'static,
    F: Future<Output = Result<T, String>> + Send,
{
    let (mut answer, answered) = oneshot::channel();
    let job: Question = Box::pin(async move {
        let asked = async {
            let resolver = resolver(server).map_err(|error| error.to_string())?;
            question(resolver).await
        };
        tokio::select! {
            () = answer.closed() => {}
            found = tokio::time::timeout(limit, asked) => {
                let found = found.unwrap_or_else(|_| Err(format!("no answer within {limit:?}")));
                drop(answer.send(found));
            }
        }
    });
    let jobs = jobs().map_err(|error| format!("the thread for DNS cannot be started: {error}"))?;
    if jobs.try_send(job).is_err() {
        return Err("too many names are being looked up".to_owned());
    }
    answered.await.unwrap_or_else(|_| Err("the look-up ended without an answer".to_owned()))
}

/// The queue of the thread, which is started at first use.
fn jobs() -> io::Result<mpsc::Sender<Question>> {
    let mut thread = THREAD.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(jobs) = thread.as_ref().filter(|jobs| !jobs.is_closed()) {
        return Ok(jobs.clone());
    }
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let (jobs, mut queue) = mpsc::channel::<Question>(limits::DNS_QUESTIONS_MAX);
    let serve = async move {
        while let Some(job) = queue.recv().await {
            tokio::spawn(job);
        }
    };
    thread::Builder::new().name("ringway-dns".into()).spawn(move || runtime.block_on(serve))?;
    Ok(thread.insert(jobs).clone())
}

fn resolver(server: Option<SocketAddr>) -> Result<TokioResolver, NetError> {
    let Some(server) = server else {
        return Resolver::builder_tokio()?.build();
    };
    let mut config = NameServerConfig::udp_and_tcp(server.ip());
    config.connections.iter_mut().for_each(|connection| connection.port = server.port());
    let config = ResolverConfig::from_parts(None, Vec::new(), vec![config]);
    let mut builder = Resolver::builder_with_config(config, TokioRuntimeProvider::default());
    builder.options_mut().timeout = limits::DNS_SERVER_TIMEOUT;
    builder.build()
}
