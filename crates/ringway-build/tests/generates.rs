//! What the generator writes.

use std::path::Path;

use ringway_build::Builder;

fn generate(protos: &[&str], include: &str) -> Result<(tempfile::TempDir, String), String> {
    let out = tempfile::tempdir().expect("a directory");
    let include = Path::new(env!("CARGO_MANIFEST_DIR")).join(include);
    let built = Builder::new().rpc_path("::ringway_rpc").out_dir(out.path());
    built.compile(protos, &[include]).map_err(|error| error.to_string())?;
    let text = std::fs::read_to_string(out.path().join("market.v1.rs")).expect("one package");
    Ok((out, text))
}

/// Formatting is not what is compared.
fn squeezed(text: &str) -> String {
    let words: Vec<_> = text.split_whitespace().collect();
    words.join(" ").replace("( ", "(").replace(" )", ")")
}

#[test]
fn a_service_becomes_a_trait() {
    let (out, text) = generate(&["market.proto"], "example/proto").expect("a good file");
    let text = squeezed(&text);
    for expected in [
        "/// A small market. #[::ringway_rpc::service(",
        "crate = \"::ringway_rpc\", package = \"market.v1\", name = \"Market\",",
        "pub trait Market {",
        "#[method(name = \"Quote\", idempotent)] async fn quote(&self, request: QuoteRequest,)",
        "/// Takes prices in. #[method(name = \"Upload\")] async fn upload(&self,",
        "requests: ::ringway_rpc::Streaming<Tick>,) -> Result<Summary, ::ringway_rpc::Status>;",
        "request: QuoteRequest, replies: ::ringway_rpc::Sink<Tick>,) -> Result<(),",
        "requests: ::ringway_rpc::Streaming<Order>, replies: ::ringway_rpc::Sink<Fill>,)",
        "pub note: ::prost::bytes::Bytes",
    ] {
        assert!(text.contains(expected), "{expected} is not in {text}");
    }
    let descriptors = std::fs::read(out.path().join("ringway_descriptors.bin")).expect("written");
    assert!(descriptors.windows(9).any(|window| window == b"market.v1"));
}

#[test]
fn errors_name_the_file_and_the_fault() {
    let error = generate(&["missing.proto"], "example/proto").expect_err("there is no such file");
    assert!(error.contains("missing.proto"), "{error}");
    let error = generate(&["broken.proto"], "tests/broken").expect_err("it is not protobuf");
    assert!(error.contains("Nowhere"), "{error}");
}
