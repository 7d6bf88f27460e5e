//! Serves the files of a folder.

mod conditions;
mod content;
mod range;

use std::io::{self, ErrorKind};
use std::path::PathBuf;
use std::time::SystemTime;

use http::header::{
    ACCEPT_RANGES, CACHE_CONTROL, CONTENT_RANGE, CONTENT_TYPE, ETAG, HeaderValue, LAST_MODIFIED,
    LOCATION, X_CONTENT_TYPE_OPTIONS,
};
use http::{Method, StatusCode, Uri};
use ringway_runtime::fs::File;

use self::conditions::{Verdict, Version};
use self::content::Content;
use self::range::{Ranged, ranged};
use crate::body::{Body, Request, Response};
use crate::error::{Error, Result};
use crate::reply;

/// A folder whose files are served, given to [`Router::files`](crate::Router::files).
///
/// It answers GET and HEAD, supports one range, and sends what browsers need for caching: a tag, the time of the
/// last change, and 304 while the file is unchanged. The reply for a folder is its
/// `index.html`; no folder is listed. A file is read while its client receives it, and is never held whole in memory.
///
/// No path leads out of the folder: a path with `..` is not found, and the kernel rejects symbolic links that leave the folder (403).
/// Names that begin with a dot are not found, except `.well-known`.
#[derive(Clone, Debug)]
pub struct Files {
    root: PathBuf,
    cache_control: Option<HeaderValue>,
    serves_hidden: bool,
}

impl Files {
    /// Serves the files below a folder. The folder is looked up for each request, so it may be a link that changes.
    pub fn new(root: impl Into<PathBuf>) -> Self {
        Self { root: root.into(), cache_control: None, serves_hidden: false }
    }

    /// Sets the `cache-control` of every reply, such as `max-age=3600`. Without it, browsers guess how long a
    /// file stays fresh.
    ///
    /// # Panics
    /// Panics if the text cannot be the value of a header.
    #[must_use]
    pub fn cache_control(mut self, value: &'static str) -> Self {
        self.cache_control = Some(HeaderValue::from_static(value));
        self
    }

    /// Also serves files and folders whose names begin with a dot.
    #[must_use]
    pub fn hidden(mut self) -> Self {
        self.serves_hidden = true;
        self
    }

    /// Answers a request with the file at `path` below the folder; `path` is decoded.
    ///
    /// # Errors
    /// 404 if there is no such file, 403 if it is not readable or lies outside the folder, 412 if a condition
    /// fails, 416 if the range begins after the end of the file, 400 if the path has a zero byte, 503 if the process has
    /// no descriptor left, 500 for other errors of the file system.
    pub async fn respond(&self, request: &Request, path: &str) -> Result<Response> {
        self.check(path)?;
        let is_folder = path.is_empty() || path.ends_with('/');
        let path = if is_folder { format!("{path}index.html") } else { path.to_owned() };
        let file = match File::open_beneath(&self.root, &path).await {
            Ok(file) => file,
            Err(error) if error.kind() == ErrorKind::IsADirectory && !is_folder => {
                return Ok(to_folder(request.uri()));
            }
            Err(error) => return Err(refused(&path, &error)),
        };
        let metadata = file.metadata().await.map_err(|error| refused(&path, &error))?;
        let version = Version::new(&metadata, SystemTime::now());
        let mut response = self.answer(request, file, metadata.len, &version)?;
        let has_content = matches!(response.status(), StatusCode::OK | StatusCode::PARTIAL_CONTENT);
        if has_content {
            response.headers_mut().insert(CONTENT_TYPE, content_type(&path));
        }
        Ok(response)
    }

    fn check(&self, path: &str) -> Result {
        if path.contains('\0') {
            return Err(Error::bad_request("a path has no zero byte"));
        }
        let folders = path.strip_suffix('/').unwrap_or(path);
        let is_found = |part: &str| match part {
            "" | "." | ".." => false,
            ".well-known" => true,
            _ => self.serves_hidden || !part.starts_with('.'),
        };
        match path.is_empty() || folders.split('/').all(is_found) {
            true => Ok(()),
            false => Err(not_found()),
        }
    }

    fn answer(
        &self,
        request: &Request,
        file: File,
        length: u64,
        version: &Version,
    ) -> Result<Response> {
        let (mut part, mut status) = (0..length, StatusCode::OK);
        match version.judge(request.headers()) {
            Verdict::Unchanged => (part, status) = (0..0, StatusCode::NOT_MODIFIED),
            Verdict::Failed => {
                let message = "the file is another one than the request is meant for";
                return Err(Error::new(StatusCode::PRECONDITION_FAILED, message));
            }
            Verdict::Whole => {}
            Verdict::MayBeRanged if *request.method() != Method::GET => {}
            Verdict::MayBeRanged => match ranged(request.headers(), length) {
                Ranged::Whole => {}
                Ranged::Part(range) => (part, status) = (range, StatusCode::PARTIAL_CONTENT),
                Ranged::Outside => return Ok(outside(length)),
            },
        }
        let mut response = reply::status(status);
        let headers = response.headers_mut();
        headers.insert(ETAG, version.tag());
        headers.insert(LAST_MODIFIED, version.modified());
        if let Some(value) = &self.cache_control {
            headers.insert(CACHE_CONTROL, value.clone());
        }
        if status == StatusCode::NOT_MODIFIED {
            return Ok(response);
        }
        headers.insert(ACCEPT_RANGES, HeaderValue::from_static("bytes"));
        headers.insert(X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
        if status == StatusCode::PARTIAL_CONTENT {
            let range = format!("bytes {}-{}/{length}", part.start, part.end - 1);
            headers.insert(CONTENT_RANGE, range.try_into().expect("digits"));
        }
        *response.body_mut() = Body::sized_stream(part.end - part.start, Content::new(file, part));
        Ok(response)
    }
}

fn content_type(path: &str) -> HeaderValue {
    let guess = mime_guess::from_path(path).first_or_octet_stream();
    let is_text = guess.type_() == "text" || guess.subtype() == "javascript";
    let text = if is_text { format!("{guess}; charset=utf-8") } else { guess.to_string() };
    text.try_into().expect("a type is a token")
}

fn not_found() -> Error {
    Error::not_found("there is no such file")
}

/// Redirects to the same path with a slash at its end, so that links in the page lead below it. The location is
/// the last part of the path alone: a whole path that begins with two slashes would name another host.
pub(crate) fn to_folder(uri: &Uri) -> Response {
    let mut response = reply::status(StatusCode::PERMANENT_REDIRECT);
    let last = uri.path().rsplit('/').next().unwrap_or_default();
    let query = uri.query().map(|query| format!("?{query}")).unwrap_or_default();
    let location = format!("./{last}/{query}").try_into().expect("parts of a URI");
    response.headers_mut().insert(LOCATION, location);
    response
}

fn outside(length: u64) -> Response {
    let message = format!("the file has {length} bytes");
    let mut response = Response::from(Error::new(StatusCode::RANGE_NOT_SATISFIABLE, message));
    let range = format!("bytes */{length}").try_into().expect("digits");
    response.headers_mut().insert(CONTENT_RANGE, range);
    response
}

/// Returns the reply to a failure. It has no text of the file system, which may be secret.
fn refused(path: &str, error: &io::Error) -> Error {
    match error.kind() {
        ErrorKind::NotFound
        | ErrorKind::NotADirectory
        | ErrorKind::IsADirectory
        | ErrorKind::InvalidFilename
        | ErrorKind::InvalidInput => not_found(),
        ErrorKind::PermissionDenied | ErrorKind::CrossesDevices => {
            Error::new(StatusCode::FORBIDDEN, "this file is not for you")
        }
        _ if matches!(error.raw_os_error(), Some(EMFILE | ENFILE)) => {
            Error::unavailable("no more files can be opened at the moment")
        }
        ErrorKind::ResourceBusy => Error::unavailable("the disk is busy"),
        _ if matches!(error.raw_os_error(), Some(ELOOP | ENXIO)) => not_found(),
        _ => {
            tracing::warn!(path, %error, "a file cannot be served");
            Error::internal("the file cannot be read")
        }
    }
}

/// Linux error numbers without a stable `ErrorKind`: too many open files in the process or the system, a
/// circle of links, and a socket in place of a file.
const EMFILE: i32 = 24;
const ENFILE: i32 = 23;
const ELOOP: i32 = 40;
const ENXIO: i32 = 6;
