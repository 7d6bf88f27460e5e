//! Generates a trait for each service.

use std::collections::{HashMap, HashSet};
use std::fmt::Write as _;

use prost_build::{Method, Service, ServiceGenerator};

use crate::descriptors;
use crate::names::{self, ServiceNames};

/// Writes services as traits that `#[service]` understands.
pub(crate) struct Services {
    pub(crate) rpc_path: String,
    /// By package and name.
    pub(crate) names: HashMap<(String, String), ServiceNames>,
}

impl Services {
    fn write_trait(&self, service: &Service, out: &mut String) -> std::fmt::Result {
        let path = &self.rpc_path;
        let key = (service.package.clone(), service.proto_name.clone());
        let names = self.names.get(&key).expect("every service of the files has names");
        service.comments.append_with_indent(0, out);
        writeln!(out, "#[{path}::service(")?;
        writeln!(out, "    crate = {path:?},")?;
        writeln!(out, "    package = {:?},", service.package)?;
        writeln!(out, "    name = {:?},", service.proto_name)?;
        let ServiceNames { the_trait, server, client } = names;
        if *server != format!("{the_trait}Server") || *client != format!("{the_trait}Client") {
            writeln!(out, "    server = {server:?}, client = {client:?},")?;
        }
        // Relative to the file that this is written to, wherever that is.
        let file = descriptors::file_of(&service.package);
        writeln!(out, "    descriptors = include_bytes!({file:?})")?;
        writeln!(out, ")]")?;
        write_deprecated(service.options.deprecated(), out)?;
        writeln!(out, "pub trait {the_trait} {{")?;
        let mut taken = HashSet::from(OF_EVERY_CLIENT.map(str::to_owned));
        for method in &service.methods {
            self.write_method(method, &names::unique(method.name.clone(), &mut taken), out)?;
        }
        writeln!(out, "}}")
    }

    fn write_method(&self, method: &Method, name: &str, out: &mut String) -> std::fmt::Result {
        let path = &self.rpc_path;
        method.comments.append_with_indent(1, out);
        let option = option_of(method);
        writeln!(out, "    #[method(name = {:?}{option})]", method.proto_name)?;
        write_deprecated(method.options.deprecated(), out)?;
        let (input, output) = (placed(&method.input_type), placed(&method.output_type));
        let request = match method.client_streaming {
            true => format!("requests: {path}::Streaming<{input}>"),
            false => format!("request: {input}"),
        };
        let (sink, reply) = match method.server_streaming {
            true => (format!(", replies: {path}::Sink<{output}>"), "()"),
            false => (String::new(), &*output),
        };
        writeln!(out, "    async fn {name}(&self, {request}{sink})")?;
        writeln!(out, "        -> ::core::result::Result<{reply}, {path}::Status>;")
    }
}

impl ServiceGenerator for Services {
    fn generate(&mut self, service: Service, out: &mut String) {
        self.write_trait(&service, out).expect("writing to a string");
    }
}

/// A message with its path, so that `#[service]` does not take it for one of its own types.
fn placed(message: &str) -> String {
    let is_std = message == "()" || STD_TYPES.contains(&message);
    match is_std || message.starts_with("::") || message.starts_with("super::") {
        true => message.to_owned(),
        false => format!("self::{message}"),
    }
}

/// Rust types that prost-build uses for protobuf's wrappers, besides types that are written with their crate.
const STD_TYPES: [&str; 7] = ["bool", "u32", "u64", "i32", "i64", "f32", "f64"];

/// The functions of a client that are not methods of the service.
const OF_EVERY_CLIENT: [&str; 2] = ["new", "with"];

fn write_deprecated(is_deprecated: bool, out: &mut String) -> std::fmt::Result {
    if is_deprecated {
        writeln!(out, "#[deprecated]")?;
    }
    Ok(())
}

/// The method's `idempotency_level`.
fn option_of(method: &Method) -> &'static str {
    match method.options.idempotency_level {
        Some(NO_SIDE_EFFECTS) => ", no_side_effects",
        Some(IDEMPOTENT) => ", idempotent",
        _ => "",
    }
}

// Values of google.protobuf.MethodOptions.IdempotencyLevel.
const NO_SIDE_EFFECTS: i32 = 1;
const IDEMPOTENT: i32 = 2;
