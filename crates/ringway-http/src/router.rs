//! Finds the handler of a request.

use std::sync::Arc;

use http::header::{ALLOW, HeaderValue};
use http::{Method, StatusCode};
use percent_encoding::percent_decode_str;

use crate::body::{Request, Response};
use crate::contained::{Contained, Handling};
use crate::error::{Error, Result};
use crate::files::{Files, to_folder};

type Handler = Arc<dyn Fn(Request) -> Handling<'static, Response> + Send + Sync>;

/// Handlers by path and method.
///
/// A path may have parameters, as in `/users/{id}`, and may end in one that takes the rest, as in
/// `/files/{*path}`. Handlers read them with [`param`]. A fixed path takes precedence over one with parameters.
/// A request whose path has routes, but none for its method, gets 405 with the list of methods. A GET route also answers HEAD.
///
/// # Examples
///
/// ```
/// use ringway_http::{Error, Router, json, param};
///
/// let router = Router::new()
///     .get("/users/{id}", async |request| match param(&request, "id").parse::<u64>() {
///         Ok(id) => json(&id),
///         Err(_) => Err(Error::bad_request("an id is a number")),
///     })
///     .post("/users", async |request| {
///         let name: String = request.into_body().json().await?;
///         json(&name.len())
///     });
/// # drop(router);
/// ```
#[derive(Clone, Default)]
pub struct Router {
    paths: matchit::Router<usize>,
    routes: Vec<Route>,
    /// The paths below which files are served, without their slash.
    folders: Vec<String>,
    fallback: Option<Handler>,
}

#[derive(Clone)]
struct Route {
    path: String,
    methods: Vec<(Method, Handler)>,
}

impl Router {
    /// Makes a router that answers 404 to every request.
    pub fn new() -> Self {
        Self::default()
    }

    /// Routes GET and HEAD requests for `path` to `handler`.
    ///
    /// # Panics
    /// Panics as [`route`](Self::route) does.
    pub fn get<F>(self, path: &str, handler: F) -> Self
    where
        F: AsyncFn(Request) -> Result<Response> + Send + Sync + 'static,
    {
        self.route(Method::GET, path, handler)
    }

    /// Routes POST requests for `path` to `handler`.
    ///
    /// # Panics
    /// Panics as [`route`](Self::route) does.
    pub fn post<F>(self, path: &str, handler: F) -> Self
    where
        F: AsyncFn(Request) -> Result<Response> + Send + Sync + 'static,
    {
        self.route(Method::POST, path, handler)
    }

    /// Routes requests with one method for `path` to `handler`.
    ///
    /// # Panics
    /// Panics if the path does not begin with `/`, is malformed, is ambiguous with another one, or already has
    /// that method. These are mistakes of the program, found when it starts.
    pub fn route<F>(mut self, method: Method, path: &str, handler: F) -> Self
    where
        F: AsyncFn(Request) -> Result<Response> + Send + Sync + 'static,
    {
        assert!(path.starts_with('/'), "the path {path:?} of a route has to begin with `/`");
        let at = self.routes.iter().position(|route| route.path == path).unwrap_or_else(|| {
            let at = self.routes.len();
            if let Err(error) = self.paths.insert(path, at) {
                panic!("the path {path:?} cannot be a route: {error}");
            }
            self.routes.push(Route { path: path.to_owned(), methods: Vec::new() });
            at
        });
        let methods = &mut self.routes[at].methods;
        assert!(
            methods.iter().all(|(known, _)| *known != method),
            "{method} {path} has a handler already"
        );
        methods.push((method, boxed(handler)));
        self
    }

    /// Serves the files of a folder below `prefix`, such as `/static`, which itself is redirected to `/static/` if it has no
    /// route. A prefix of `/` takes all paths without a route.
    ///
    /// # Panics
    /// Panics as [`route`](Self::route) does.
    ///
    /// # Examples
    ///
    /// ```
    /// use ringway_http::{Files, Router};
    ///
    /// let router = Router::new().files("/static", Files::new("/srv/www"));
    /// # drop(router);
    /// ```
    pub fn files(mut self, prefix: &str, files: Files) -> Self {
        let (prefix, files) = (prefix.trim_end_matches('/'), Arc::new(files));
        self.folders.push(prefix.to_owned());
        let below = Arc::clone(&files);
        self.get(&format!("{prefix}/"), async move |request| files.respond(&request, "").await)
            .get(&format!("{prefix}/{{*path}}"), async move |request| {
                below.respond(&request, param(&request, "path")).await
            })
    }

    /// Sets the handler of requests that no route matches; without one they get 404.
    pub fn fallback<F>(mut self, handler: F) -> Self
    where
        F: AsyncFn(Request) -> Result<Response> + Send + Sync + 'static,
    {
        self.fallback = Some(boxed(handler));
        self
    }

    /// Whether some method of `path` has a route.
    pub fn has(&self, path: &str) -> bool {
        self.fallback.is_some() || self.paths.at(path).is_ok() || self.is_folder(path)
    }

    fn is_folder(&self, path: &str) -> bool {
        self.folders.iter().any(|folder| folder == path)
    }

    /// Answers a request by its route.
    pub async fn respond(&self, request: Request) -> Response {
        match self.handle(request).await {
            Ok(response) => response,
            Err(error) => error.into(),
        }
    }

    async fn handle(&self, mut request: Request) -> Result<Response> {
        let Ok(found) = self.paths.at(request.uri().path()) else {
            return match &self.fallback {
                _ if self.is_folder(request.uri().path()) => Ok(to_folder(request.uri())),
                Some(fallback) => Contained::begin(|| fallback(request)).await,
                None => Err(Error::not_found("there is nothing at this path")),
            };
        };
        let methods = &self.routes[*found.value].methods;
        let params = decoded(found.params)?;
        let of = |wanted: &Method| methods.iter().find(|(method, _)| method == wanted);
        let own = of(request.method());
        let as_get = || of(&Method::GET).filter(|_| request.method() == Method::HEAD);
        let Some((_, handler)) = own.or_else(as_get) else { return Ok(not_allowed(methods)) };
        if !params.0.is_empty() {
            request.extensions_mut().insert(params);
        }
        Contained::begin(|| handler(request)).await
    }
}

impl std::fmt::Debug for Router {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let mut map = f.debug_map();
        for Route { path, methods } in &self.routes {
            map.entry(path, &methods.iter().map(|(method, _)| method).collect::<Vec<_>>());
        }
        map.finish()
    }
}

fn boxed<F>(handler: F) -> Handler
where
    F: AsyncFn(Request) -> Result<Response> + Send + Sync + 'static,
{
    let handler = Arc::new(handler);
    Arc::new(move |request| {
        let handler = Arc::clone(&handler);
        Box::pin(async move { handler(request).await })
    })
}

fn not_allowed(methods: &[(Method, Handler)]) -> Response {
    let names: Vec<_> = methods.iter().map(|(method, _)| method.as_str()).collect();
    let allowed = names.join(", ");
    let message = format!("this path answers {allowed}");
    let mut response: Response = Error::new(StatusCode::METHOD_NOT_ALLOWED, message).into();
    let allowed = HeaderValue::from_str(&allowed).expect("methods are tokens");
    response.headers_mut().insert(ALLOW, allowed);
    response
}

/// The decoded parameters of a request's path, stored in its extensions.
#[derive(Clone, Default, PartialEq, Eq, Debug)]
pub struct Params(Vec<(String, String)>);

impl Params {
    /// Returns a parameter's value.
    pub fn get(&self, name: &str) -> Option<&str> {
        self.0.iter().find(|(known, _)| known == name).map(|(_, value)| &**value)
    }
}

/// Returns a parameter of the request's path, or an empty string if the route has none of this name.
pub fn param<'r>(request: &'r Request, name: &str) -> &'r str {
    let params = request.extensions().get::<Params>();
    params.and_then(|params| params.get(name)).unwrap_or_default()
}

fn decoded(params: matchit::Params<'_, '_>) -> Result<Params> {
    let decode = |(name, value): (&str, &str)| match percent_decode_str(value).decode_utf8() {
        Ok(value) => Ok((name.to_owned(), value.into_owned())),
        Err(_) => {
            Err(Error::bad_request(format!("the path's parameter {name} is not valid UTF-8")))
        }
    };
    params.iter().map(decode).collect::<Result<_>>().map(Params)
}
