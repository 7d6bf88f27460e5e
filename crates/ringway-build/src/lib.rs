//! From `.proto` files to messages and `#[service]` traits, in a build script, without protoc.
//!
//! ```no_run
//! // build.rs
//! fn main() -> Result<(), ringway_build::Error> {
//!     ringway_build::compile(&["proto/market.proto"], &["proto"])
//! }
//! ```
//!
//! ```text
//! // src/main.rs: one module for each package of the files
//! mod market {
//!     include!(concat!(env!("OUT_DIR"), "/market.v1.rs"));
//! }
//! use market::{Market, MarketClient, MarketServer, Quote};
//! ```
//!
//! The crate needs `ringway` and `prost`, with its feature `derive`. One with all of this is in the
//! directory `example` beside this crate's `src`.
//!
//! Each service becomes a trait with `#[ringway::rpc::service]` on it, each message a struct of prost.
//! A method whose `idempotency_level` is set becomes `#[method(idempotent)]`.

mod services;

use std::fmt;
use std::path::{Path, PathBuf};

use prost::Message as _;

use self::services::Services;

/// Generates code for `protos`, found in `includes` as their imports are, into cargo's `OUT_DIR`.
///
/// Cargo is told to run the build script again when one of the files or of their imports changes.
///
/// # Errors
/// As [`Builder::compile`].
pub fn compile(protos: &[impl AsRef<Path>], includes: &[impl AsRef<Path>]) -> Result<(), Error> {
    Builder::new().compile(protos, includes)
}

/// How to generate, where the defaults of [`compile`] do not fit.
#[derive(Clone, Debug)]
pub struct Builder {
    rpc_path: String,
    out_dir: Option<PathBuf>,
}

impl Builder {
    /// The defaults: generated code uses `::ringway::rpc`, and goes to cargo's `OUT_DIR`.
    pub fn new() -> Self {
        Self { rpc_path: "::ringway::rpc".to_owned(), out_dir: None }
    }

    /// Where generated code finds the RPC library, if not at `::ringway::rpc`.
    #[must_use]
    pub fn rpc_path(mut self, path: &str) -> Self {
        self.rpc_path = path.to_owned();
        self
    }

    /// Where to write the files, if not to `OUT_DIR`.
    #[must_use]
    pub fn out_dir(mut self, directory: impl Into<PathBuf>) -> Self {
        self.out_dir = Some(directory.into());
        self
    }

    /// Generates a file `package.name.rs` for each package, and one with the descriptors of all,
    /// which servers show to those who ask what they offer.
    ///
    /// # Errors
    /// A file that cannot be read or is not valid protobuf, with its line; no `OUT_DIR` because
    /// this is not a build script; a file that cannot be written.
    pub fn compile(
        &self,
        protos: &[impl AsRef<Path>],
        includes: &[impl AsRef<Path>],
    ) -> Result<(), Error> {
        let directory = match (&self.out_dir, std::env::var_os("OUT_DIR")) {
            (Some(directory), _) => directory.clone(),
            (None, Some(directory)) => directory.into(),
            (None, None) => return Err(Error::new("no OUT_DIR: call this from a build script")),
        };
        let descriptors = protox::compile(protos, includes).map_err(Error::new)?;
        for path in sources(descriptors.file.iter().map(|file| file.name()), includes) {
            println!("cargo::rerun-if-changed={}", path.display());
        }
        let file = directory.join(services::DESCRIPTORS_FILE);
        std::fs::write(&file, descriptors.encode_to_vec())
            .map_err(|error| Error::new(format!("cannot write {}: {error}", file.display())))?;
        let mut config = prost_build::Config::new();
        config
            .out_dir(&directory)
            .bytes(["."])
            .service_generator(Box::new(Services::new(&self.rpc_path)))
            .compile_fds(descriptors)
            .map_err(Error::new)
    }
}

/// Where the files of these names are, imports included; those built into the compiler are nowhere.
fn sources<'a>(
    names: impl Iterator<Item = &'a str>,
    includes: &[impl AsRef<Path>],
) -> Vec<PathBuf> {
    let place = |name| {
        let mut places = includes.iter().map(|directory| directory.as_ref().join(name));
        places.find(|path| path.exists())
    };
    names.filter_map(place).collect()
}

impl Default for Builder {
    fn default() -> Self {
        Self::new()
    }
}

/// Why no code was generated.
pub struct Error {
    what: String,
}

impl Error {
    fn new(what: impl fmt::Display) -> Self {
        Self { what: what.to_string() }
    }
}

/// The same as its display: what a build script that returns it prints.
impl fmt::Debug for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.what)
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.what)
    }
}

impl std::error::Error for Error {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cargo_watches_files_and_imports_wherever_they_are_included_from() {
        let root = Path::new(env!("CARGO_MANIFEST_DIR"));
        let includes = [root.join("tests/broken"), root.join("example/proto")];
        let names = ["google/protobuf/empty.proto", "market.proto", "broken.proto"];
        let expected = [includes[1].join("market.proto"), includes[0].join("broken.proto")];
        assert_eq!(sources(names.into_iter(), &includes), expected);
    }
}
