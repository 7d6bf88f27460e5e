//! Turns `.proto` files into messages and `#[service]` traits, in a build script and without protoc.
//!
//! ```no_run
//! // build.rs
//! fn main() -> Result<(), ringway_build::Error> {
//!     ringway_build::compile(&["proto/market.proto"], &["proto"])
//! }
//! ```
//!
//! ```text
//! // src/main.rs
//! mod market {
//!     include!(concat!(env!("OUT_DIR"), "/market.v1.rs"));
//! }
//! use market::{Market, MarketClient, MarketServer, Quote};
//! ```
//!
//! Your crate needs the dependencies `ringway` and `prost` (with its feature `derive`), and `prost-types` for
//! messages such as `google.protobuf.Timestamp`. The directory `example` beside this crate's `src` has a
//! complete crate.
//!
//! # What is generated
//!
//! - A file for each package. A single package can be included in any module. If packages use each other,
//!   modules must be nested like the packages: [`Builder::include_file`] writes a file that does so.
//! - For each message, a struct of prost, whose fields of type `bytes` are `Bytes`.
//! - For each service, a trait with `#[ringway::rpc::service]`. A method with an `idempotency_level` becomes
//!   `#[method(idempotent)]` or `#[method(no_side_effects)]`.
//! - Comments, as documentation. `option deprecated` becomes `#[deprecated]` on services, methods, fields and
//!   values, and a note in the documentation of messages and enums.
//!
//! A name that is already taken gets an underscore at its end: the methods `new` and `with`, which every client
//! has, become `new_` and `with_`, and the client of a service `Foo` is `FooClient_` if a message is called
//! `FooClient`. Names on the network are always those of the file.
//!
//! # What is refused
//!
//! - Editions, such as `edition = "2023"`.
//! - Two messages or enums of a package, or fields of a message, that are one name in Rust: `HTTPRequest` and
//!   `HttpRequest`, `foo_bar` and `fooBar`.
//! - With an [include file](Builder::include_file), a message with types in it beside a package of its name: `Cluster`
//!   of `mesh.v2`, and `mesh.v2.cluster`.

mod collisions;
mod comments;
mod deprecation;
mod descriptors;
mod error;
mod names;
mod protos;
mod scopes;
mod services;

use std::fmt;
use std::path::{Path, PathBuf};
use std::rc::Rc;

pub use prost_build;

pub use self::error::Error;
use self::services::Services;

/// Generates code for `protos` into cargo's `OUT_DIR`. The files and their imports are found in `includes`.
///
/// Cargo runs the build script again when one of the files or of their imports changes.
///
/// # Errors
/// Fails as [`Builder::compile`] does.
pub fn compile(protos: &[impl AsRef<Path>], includes: &[impl AsRef<Path>]) -> Result<(), Error> {
    Builder::new().compile(protos, includes)
}

/// Code generation with options that differ from the defaults of [`compile`].
#[derive(Clone)]
pub struct Builder {
    rpc_path: String,
    out_dir: Option<PathBuf>,
    include_file: Option<PathBuf>,
    configure: Rc<dyn Fn(&mut prost_build::Config)>,
}

impl Builder {
    /// Starts with the defaults: generated code uses `::ringway::rpc` and is written to cargo's `OUT_DIR`.
    pub fn new() -> Self {
        Self {
            rpc_path: "::ringway::rpc".to_owned(),
            out_dir: None,
            include_file: None,
            configure: Rc::new(|_| {}),
        }
    }

    /// Sets the path at which generated code finds the RPC library, `::ringway::rpc` by default.
    #[must_use]
    pub fn rpc_path(mut self, path: &str) -> Self {
        self.rpc_path = path.to_owned();
        self
    }

    /// Sets the directory for the files, `OUT_DIR` by default. It is created if it does not exist.
    ///
    /// The files refer to each other by relative paths, so they may be checked in and moved together.
    #[must_use]
    pub fn out_dir(mut self, directory: impl Into<PathBuf>) -> Self {
        self.out_dir = Some(directory.into());
        self
    }

    /// Writes one more file with this name, which has all packages in modules that are nested like the
    /// packages. Include it instead of the other files if packages use each other.
    ///
    /// ```text
    /// // build.rs
    /// ringway_build::Builder::new().include_file("protos.rs").compile(&["a.proto", "b.proto"], &["."])
    ///
    /// // src/main.rs
    /// mod protos {
    ///     include!(concat!(env!("OUT_DIR"), "/protos.rs"));
    /// }
    /// use protos::{market::v1::Quote, orders::v1::Order};
    /// ```
    #[must_use]
    pub fn include_file(mut self, name: impl Into<PathBuf>) -> Self {
        self.include_file = Some(name.into());
        self
    }

    /// Changes the settings of prost-build for messages, such as attributes, boxed fields and types of other
    /// crates. Its output directory, include file and service generator have no effect.
    ///
    /// ```no_run
    /// # fn main() -> Result<(), ringway_build::Error> {
    /// ringway_build::Builder::new()
    ///     .configure(|prost| {
    ///         prost.btree_map(["."]).type_attribute(".market.v1.Quote", "#[derive(PartialOrd)]");
    ///     })
    ///     .compile(&["proto/market.proto"], &["proto"])
    /// # }
    /// ```
    #[must_use]
    pub fn configure(mut self, configure: impl Fn(&mut prost_build::Config) + 'static) -> Self {
        self.configure = Rc::new(configure);
        self
    }

    /// Generates a file `package.name.rs` for each package, `_.rs` for files without a package, and
    /// `package.name.descriptors.bin` beside it if the package has services. Servers use the latter for
    /// reflection.
    ///
    /// It may be called several times with different packages.
    ///
    /// # Errors
    /// Fails if a file cannot be read or is not valid protobuf (the error has its line), if two of its names would be
    /// one in Rust, if there is no `OUT_DIR`
    /// because this is not a build script, if a file cannot be written or was already generated from other
    /// `.proto` files, and if [`rpc_path`](Self::rpc_path) is not a path.
    pub fn compile(
        &self,
        protos: &[impl AsRef<Path>],
        includes: &[impl AsRef<Path>],
    ) -> Result<(), Error> {
        let directory = self.directory()?;
        check_path(&self.rpc_path)?;
        let mut files = protos::read(protos, includes)?;
        collisions::check(&files, self.include_file.is_some())?;
        for path in sources(files.file.iter().map(|file| file.name()), includes) {
            println!("cargo::rerun-if-changed={}", path.display());
        }
        descriptors::write(&files, &directory)?;
        if let Some(name) = &self.include_file {
            let packages: Vec<&str> = files.file.iter().map(|file| file.package()).collect();
            let advice = "give each call's include_file a name of its own";
            descriptors::claim(directory.join(name), packages.join("\n").into(), advice)?;
        }
        comments::tidy(&mut files);
        deprecation::note(&mut files);
        let mut config = prost_build::Config::new();
        config.bytes(["."]);
        let services =
            Services { rpc_path: self.rpc_path.clone(), names: names::of_services(&files) };
        (self.configure)(&mut config);
        if let Some(name) = &self.include_file {
            config.include_file(name);
        }
        config.out_dir(&directory).service_generator(Box::new(services));
        let failed = |error| format!("cannot generate into {}: {error}", directory.display());
        config.compile_fds(files).map_err(|error| Error::new(failed(error)))
    }

    fn directory(&self) -> Result<PathBuf, Error> {
        let directory = match (&self.out_dir, std::env::var_os("OUT_DIR")) {
            (Some(directory), _) => directory.clone(),
            (None, Some(directory)) => directory.into(),
            (None, None) => {
                let what = "no OUT_DIR: call this from a build script, or set `Builder::out_dir`";
                return Err(Error::new(what));
            }
        };
        std::fs::create_dir_all(&directory)
            .map_err(|error| Error::new(format!("cannot make {}: {error}", directory.display())))?;
        Ok(directory)
    }
}

/// Checks that a path consists of identifiers with `::` between and perhaps before them.
fn check_path(path: &str) -> Result<(), Error> {
    let is_identifier = |part: &str| {
        !part.is_empty()
            && !part.starts_with(|char: char| char.is_ascii_digit())
            && part.chars().all(|char| char.is_alphanumeric() || char == '_')
    };
    match path.strip_prefix("::").unwrap_or(path).split("::").all(is_identifier) {
        true => Ok(()),
        false => {
            let example = "write one like ::ringway::rpc";
            Err(Error::new(format!("rpc_path {path:?} is not a path: {example}")))
        }
    }
}

/// Returns the paths of these files and their imports; files built into the compiler have none.
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

impl fmt::Debug for Builder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Builder")
            .field("rpc_path", &self.rpc_path)
            .field("out_dir", &self.out_dir)
            .field("include_file", &self.include_file)
            .finish_non_exhaustive()
    }
}

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
