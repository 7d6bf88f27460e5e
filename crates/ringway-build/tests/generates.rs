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
        "#[method(name = \"Quote\", no_side_effects)] async fn quote(&self, request: self::QuoteRequest,)",
        "/// Takes prices in. #[method(name = \"Upload\")] async fn upload(&self,",
        "requests: ::ringway_rpc::Streaming<self::Tick>,) -> ::core::result::Result<self::Summary, ::ringway_rpc::Status>;",
        "request: self::QuoteRequest, replies: ::ringway_rpc::Sink<self::Tick>,) -> ::core::result::Result<(),",
        "requests: ::ringway_rpc::Streaming<self::Order>, replies: ::ringway_rpc::Sink<self::Fill>,)",
        "pub note: ::prost::bytes::Bytes",
    ] {
        assert!(text.contains(expected), "{expected} is not in {text}");
    }
    let descriptors = std::fs::read(out.path().join("market.v1.descriptors.bin")).expect("written");
    assert!(descriptors.windows(9).any(|window| window == b"market.v1"));
}

#[test]
fn errors_name_the_file_the_line_and_the_fault() {
    let check = |file: &str, expected: &str| {
        let error = generate(&[file], "tests/broken").expect_err("it is not protobuf");
        assert!(error.contains(expected), "{error}");
    };
    check("missing.proto", "missing.proto");
    check("broken.proto", "broken.proto:3:18: name 'Nowhere' is not defined");
    check("syntax.proto", "syntax.proto:4:19: expected an integer, but found ';'");
    check("imports.proto", "imports.proto:3:1: import 'nowhere.proto' not found");
}

/// Before, the second call took the place of the first one's descriptors without a word.
#[test]
fn a_second_call_loses_nothing_of_the_first() {
    let out = tempfile::tempdir().expect("a directory");
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let built = Builder::new().out_dir(out.path().join("deep/er"));
    let compile = |protos: &[&str], include: &str| built.compile(protos, &[root.join(include)]);
    compile(&["market.proto"], "example/proto").expect("the first call");
    compile(&["broken.proto"], "tests/broken").expect_err("not protobuf");
    compile(&["comments.proto"], "traps/proto").expect("another package");
    compile(&["market.proto"], "example/proto").expect("the same once more");
    for file in ["market.v1.descriptors.bin", "traps.comments.v1.descriptors.bin"] {
        let written = std::fs::read(out.path().join("deep/er").join(file));
        assert!(!written.expect(file).is_empty());
    }
    let error = compile(&["more.proto"], "tests/other").expect_err("one package, two calls");
    for part in ["market.v1.rs", "an earlier call", "give all files of a package to one call"] {
        assert!(error.to_string().contains(part), "{error}");
    }
}

#[test]
fn a_path_that_is_none_is_an_error() {
    for path in ["", "::", "ringway rpc", "::ringway::", "a::1b", "ringway.rpc"] {
        let built = Builder::new().rpc_path(path).out_dir(std::env::temp_dir());
        let error = built.compile(&["market.proto"], &["example/proto"]).expect_err(path);
        assert!(error.to_string().contains("write one like ::ringway::rpc"), "{error}");
    }
}
