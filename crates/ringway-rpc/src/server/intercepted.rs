//! A service with its own interceptors.

use std::rc::Rc;

use super::interceptor::{self, Handlers, Intercept, MakeIntercept, Next, Reply};
use crate::call::context::Context;
use crate::call::method::Method;
use crate::call::status::Status;
use crate::service::{Begin, Handler, Methods, Registered, Service, ServiceDescriptor, Started};

/// A service whose calls pass interceptors that the server's other services do not have. The `intercept`
/// method of a generated server makes it.
///
/// ```
/// use ringway_rpc::{Context, Next, Server, Status, service};
///
/// #[service(crate = "ringway_rpc")]
/// trait Bank {
///     async fn balance(&self, name: String) -> Result<u64, Status>;
/// }
///
/// struct Rich;
///
/// impl Bank for Rich {
///     async fn balance(&self, _: String) -> Result<u64, Status> {
///         Ok(1_000_000)
///     }
/// }
///
/// // Health and reflection are answered without a token.
/// let bank = BankServer::new(Rich).intercept(async |context: Context, next: Next| {
///     match context.metadata().get("authorization") {
///         Some("Bearer open sesame") => next.run(context).await,
///         _ => Err(Status::unauthenticated("a token is needed")),
///     }
/// });
/// let server = Server::bind("tcp://127.0.0.1:0")?.service(bank);
/// # Ok::<(), ringway_net::Error>(())
/// ```
pub struct Intercepted<S> {
    service: S,
    /// The interceptors, outermost first.
    interceptors: Vec<MakeIntercept>,
}

impl<S: Service> Intercepted<S> {
    /// Runs `interceptor` around every call of `service`.
    pub fn new<F>(service: S, interceptor: F) -> Self
    where
        F: AsyncFn(Context, Next) -> Result<Reply, Status> + Clone + Send + Sync + 'static,
    {
        Self { service, interceptors: Vec::new() }.intercept(interceptor)
    }

    /// Adds an interceptor inside those that were added before.
    #[must_use]
    pub fn intercept<F>(mut self, interceptor: F) -> Self
    where
        F: AsyncFn(Context, Next) -> Result<Reply, Status> + Clone + Send + Sync + 'static,
    {
        self.interceptors.push(interceptor::make(interceptor));
        self
    }
}

impl<S: Service> Service for Intercepted<S> {
    fn descriptor(&self) -> &'static ServiceDescriptor {
        self.service.descriptor()
    }

    fn register(&self, methods: &mut Methods) {
        let mut own = Methods::default();
        self.service.register(&mut own);
        let interceptors: Rc<[Intercept]> = self.interceptors.iter().map(|make| make()).collect();
        for entry in own.into_entries() {
            let interceptors = Rc::clone(&interceptors);
            let (method, handler) = (entry.method, entry.handler);
            let inside = InterceptedMethod { interceptors, method, handler };
            let handler = Box::new(InterceptedHandler(Rc::new(inside)));
            methods.push(Registered { handler, ..entry });
        }
    }
}

/// A method's handler together with the interceptors of its service.
struct InterceptedMethod {
    interceptors: Rc<[Intercept]>,
    method: &'static Method,
    handler: Box<dyn Handler>,
}

impl Handlers for InterceptedMethod {
    fn interceptor(&self, passed: usize) -> Option<&Intercept> {
        self.interceptors.get(passed)
    }

    fn handler(&self, _the_one: usize) -> &dyn Handler {
        &*self.handler
    }

    fn method(&self, _the_one: usize) -> &'static Method {
        self.method
    }
}

/// The handler that the server calls instead of the service's own.
struct InterceptedHandler(Rc<InterceptedMethod>);

impl Handler for InterceptedHandler {
    fn start(&self, begin: Begin<'_>, out: &mut Vec<u8>) -> Started {
        interceptor::start(Rc::clone(&self.0) as _, 0, begin, out)
    }
}

impl<S: Service> std::fmt::Debug for Intercepted<S> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("Intercepted").field(&self.descriptor().name).finish()
    }
}
