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

fn compile(protos: &[&str], include: &Path, nested: bool) -> Result<tempfile::TempDir, String> {
    let out = tempfile::tempdir().expect("a directory");
    let mut built = Builder::new().out_dir(out.path());
    if nested {
        built = built.include_file("all.rs");
    }
    built.compile(protos, &[include]).map_err(|error| error.to_string()).map(|()| out)
}

#[test]
fn an_edition_is_refused_by_a_sentence() {
    let broken = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/broken");
    let error = compile(&["edition.proto"], &broken, false).expect_err("an edition");
    let expected = "edition.proto: `edition = \"2023\"` is not read: write `syntax = \"proto3\"`";
    assert!(error.starts_with(expected), "{error}");
}

#[test]
fn the_mark_of_an_encoding_is_skipped() {
    let protos = tempfile::tempdir().expect("a directory");
    let write = |name, text| std::fs::write(protos.path().join(name), text).expect("it is written");
    write(
        "bom.proto",
        "\u{feff}syntax = \"proto3\"; package bom; import \"in.proto\"; message M { N n = 1; }",
    );
    write("in.proto", "\u{feff}syntax = \"proto3\"; package bom; message N {}");
    let out = compile(&["bom.proto"], protos.path(), false).expect("protoc takes it as well");
    let text = std::fs::read_to_string(out.path().join("bom.rs")).expect("one package");
    assert!(text.contains("struct M") && text.contains("struct N"), "{text}");
}

/// The files of the Envoy proxy, as a whole, were refused in any order.
#[test]
fn names_are_looked_up_in_what_a_file_imports() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/scopes");
    let files = ["common.proto", "other.proto", "cluster.proto"];
    for order in [[0, 1, 2], [1, 0, 2], [2, 1, 0], [1, 2, 0]] {
        let protos = order.map(|at| files[at]);
        let out =
            compile(&protos, &root, true).unwrap_or_else(|error| panic!("{protos:?}: {error}"));
        let text = std::fs::read_to_string(out.path().join("mesh.ext.clusters.proxy.v1.rs"));
        let text = text.expect("a package");
        for expected in [
            "config: ::core::option::Option<super::super::super::common::v1::Config>",
            "enumeration = \"super::super::super::super::super::common::v1::config::Kind\"",
            "request: super::super::super::common::v1::Config",
        ] {
            assert!(squeezed(&text).contains(expected), "{expected} is not in {text}");
        }
    }
}

#[test]
fn names_that_would_be_one_in_rust_are_told() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/collisions");
    for (protos, expected) in [
        (
            &["types.proto"][..],
            "types.proto: the types `HTTPRequest` and `HttpRequest` of package `collisions.types` \
             would both be `HttpRequest` in Rust: rename one",
        ),
        (&["inner.proto"], "the types `URL` and `Url` of message `Outer` would both be `Url`"),
        (
            &["fields.proto"],
            "the fields `foo_bar` and `fooBar` of message `M` would both be `foo_bar`",
        ),
        (
            &["json.proto"],
            "the fields `foo_bar` and `fooBar` of message `M` would both be `fooBar` in JSON",
        ),
        (
            &["choice.proto"],
            "the fields `fooBar` and `foo_bar` of message `M` would both be `foo_bar`",
        ),
        (&["values.proto"], "the values `MON` and `Mon` of enum `Day` would both be `Mon` in Rust"),
        (
            &["module.proto", "package.proto"],
            "module.proto: the message `Cluster` of package `collisions.module.v2` and the package \
             `collisions.module.v2.cluster` would both have the module `cluster` in Rust",
        ),
    ] {
        let error = compile(protos, &root, true).expect_err(protos[0]);
        assert!(error.contains(expected), "{error}");
    }
    for protos in ["module.proto", "member.proto"] {
        compile(&[protos], &root, true).expect("nothing collides");
    }
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
