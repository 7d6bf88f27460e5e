//! A trait for each service.

use std::fmt::Write as _;

use prost_build::{Method, Service, ServiceGenerator};

/// Writes services as traits that `#[service]` understands.
pub(crate) struct Services {
    rpc_path: String,
}

impl Services {
    pub(crate) fn new(rpc_path: &str) -> Self {
        Self { rpc_path: rpc_path.to_owned() }
    }

    fn write_trait(&self, service: &Service, out: &mut String) -> std::fmt::Result {
        let path = &self.rpc_path;
        write_comments(&service.comments.leading, "", out)?;
        writeln!(out, "#[{path}::service(")?;
        writeln!(out, "    crate = \"{path}\",")?;
        writeln!(out, "    package = {:?},", service.package)?;
        writeln!(out, "    name = {:?},", service.proto_name)?;
        let file = format!("concat!(env!(\"OUT_DIR\"), \"/{DESCRIPTORS_FILE}\")");
        writeln!(out, "    descriptors = include_bytes!({file})")?;
        writeln!(out, ")]")?;
        writeln!(out, "pub trait {} {{", service.name)?;
        for method in &service.methods {
            self.write_method(method, out)?;
        }
        writeln!(out, "}}")
    }

    fn write_method(&self, method: &Method, out: &mut String) -> std::fmt::Result {
        let path = &self.rpc_path;
        write_comments(&method.comments.leading, "    ", out)?;
        let idempotent = if is_idempotent(method) { ", idempotent" } else { "" };
        writeln!(out, "    #[method(name = {:?}{idempotent})]", method.proto_name)?;
        let request = match method.client_streaming {
            true => format!("requests: {path}::Streaming<{}>", method.input_type),
            false => format!("request: {}", method.input_type),
        };
        let (sink, reply) = match method.server_streaming {
            true => (format!(", replies: {path}::Sink<{}>", method.output_type), "()"),
            false => (String::new(), method.output_type.as_str()),
        };
        writeln!(out, "    async fn {}(&self, {request}{sink})", method.name)?;
        writeln!(out, "        -> Result<{reply}, {path}::Status>;")
    }
}

impl ServiceGenerator for Services {
    fn generate(&mut self, service: Service, out: &mut String) {
        self.write_trait(&service, out).expect("writing to a string");
    }
}

fn write_comments(lines: &[String], indent: &str, out: &mut String) -> std::fmt::Result {
    for line in lines.iter().flat_map(|text| text.lines()) {
        writeln!(out, "{indent}///{line}")?;
    }
    Ok(())
}

/// Whether the file says that the method may be called again (`idempotency_level`).
fn is_idempotent(method: &Method) -> bool {
    matches!(method.options.idempotency_level, Some(NO_SIDE_EFFECTS | IDEMPOTENT))
}

// Values of google.protobuf.MethodOptions.IdempotencyLevel.
const NO_SIDE_EFFECTS: i32 = 1;
const IDEMPOTENT: i32 = 2;

/// The descriptors of all files, as a `google.protobuf.FileDescriptorSet`.
pub(crate) const DESCRIPTORS_FILE: &str = "ringway_descriptors.bin";
