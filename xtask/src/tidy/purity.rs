//! What the code of one layer must not mention: I/O and clocks in wire, protocols in the
//! runtime, logic in the façade.

use super::finding::Finding;
use super::lexer::{Kind, Token};
use super::tree::Tree;

/// `ringway-wire` turns bytes into messages; it has no I/O, clock, task or unsafe.
pub(crate) fn check_wire(tree: &Tree) -> Vec<Finding> {
    const WORDS: &[&str] = &["SystemTime", "async", "await", "unsafe", "tokio"];
    const STD: &[&str] = &["fs", "net", "os", "process", "thread"];
    check_tokens(tree, "crates/ringway-wire/src/", |tokens, i| {
        let token = &tokens[i];
        let is_clock = is_path(tokens, i, "Instant", "now");
        let is_io = STD.contains(&token.text.as_str()) && is_in_std(tokens, i);
        let is_forbidden = is_clock || is_io || WORDS.iter().any(|word| token.is(word));
        is_forbidden.then(|| {
            format!("`{}` in ringway-wire, which has no I/O, clock, async or unsafe", token.text)
        })
    })
}

/// `ringway-runtime` carries bytes and names no protocol.
pub(crate) fn check_runtime(tree: &Tree) -> Vec<Finding> {
    const PROTOCOLS: &[&str] = &[
        "bson",
        "etcd",
        "grpc",
        "http",
        "http1",
        "http2",
        "https",
        "hyper",
        "json",
        "jsonrpc",
        "mongo",
        "mongodb",
        "protobuf",
        "redis",
        "rpc",
        "rustls",
        "socks",
        "websocket",
    ];
    check_tokens(tree, "crates/ringway-runtime/src/", |tokens, i| {
        let token = &tokens[i];
        let named =
            parts(&token.text).into_iter().find(|part| PROTOCOLS.contains(&part.as_str()))?;
        (token.kind == Kind::Word)
            .then(|| format!("`{}` names a protocol ({named}); the runtime knows none", token.text))
    })
}

/// `ringway` only exports again what the libraries have.
pub(crate) fn check_facade(tree: &Tree) -> Vec<Finding> {
    const ITEMS: &[&str] =
        &["const", "enum", "fn", "impl", "macro_rules", "static", "struct", "trait", "union"];
    check_tokens(tree, "crates/ringway/src/", |tokens, i| {
        let item = ITEMS.iter().find(|item| tokens[i].is(item))?;
        Some(format!("`{item}` in the facade, which holds only re-exports"))
    })
}

fn check_tokens(
    tree: &Tree,
    prefix: &str,
    complaint: impl Fn(&[Token], usize) -> Option<String>,
) -> Vec<Finding> {
    let mut findings = Vec::new();
    for (file, source) in tree.sources(prefix).filter(|(file, _)| !file.is_test) {
        let tokens = source.product_tokens();
        let complaints = (0..tokens.len()).filter_map(|i| Some((i, complaint(&tokens, i)?)));
        findings.extend(
            complaints
                .map(|(i, message)| Finding::new("purity", &file.path, tokens[i].line, message)),
        );
    }
    findings
}

/// Whether `first::second` starts at index `at`.
fn is_path(tokens: &[Token], at: usize, first: &str, second: &str) -> bool {
    match &tokens[at..] {
        [a, b, c, d, ..] => a.is(first) && b.is(":") && c.is(":") && d.is(second),
        _ => false,
    }
}

/// Whether the word at index `at` comes directly below `std`: `std::net`, `use std::{fmt, net}`.
fn is_in_std(tokens: &[Token], at: usize) -> bool {
    let is_below_std = |i: usize| i >= 3 && is_path(tokens, i - 3, "std", &tokens[i].text);
    let is_listed = at > 0 && (tokens[at - 1].is("{") || tokens[at - 1].is(","));
    if is_below_std(at) || !is_listed {
        return is_below_std(at);
    }
    let mut depth = 0_usize;
    for i in (0..at).rev().take_while(|&i| !tokens[i].is(";")) {
        if tokens[i].is("}") {
            depth += 1;
        } else if tokens[i].is("{") && depth == 0 {
            return is_below_std(i);
        } else if tokens[i].is("{") {
            depth -= 1;
        }
    }
    false
}

/// The words of an identifier in lower case: `HttpServer` and `http_server` give `http`, `server`.
fn parts(identifier: &str) -> Vec<String> {
    let mut parts = vec![String::new()];
    let mut was_lower = false;
    for c in identifier.chars() {
        if c == '_' || (c.is_uppercase() && was_lower) {
            parts.push(String::new());
        }
        if c != '_'
            && let Some(part) = parts.last_mut()
        {
            part.extend(c.to_lowercase());
        }
        was_lower = c.is_lowercase() || c.is_ascii_digit();
    }
    parts
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check_text(check: fn(&Tree) -> Vec<Finding>, path: &str, text: &str, expected: usize) {
        assert_eq!(check(&Tree::sample(&[(path, text)])).len(), expected, "{text}");
    }

    #[test]
    fn wire_has_no_io_and_no_clock() {
        for bad in [
            "use std::net::TcpStream;",
            "use std::{fmt, net::TcpStream};",
            "use std::{fmt::{self, Debug}, thread};",
            "fn f() { std::fs::read(x); }",
            "fn f() { let now = Instant::now(); }",
            "fn f(at: SystemTime) {}",
            "async fn f() {}",
            "fn f() { unsafe { g() } }",
        ] {
            check_text(check_wire, "crates/ringway-wire/src/a.rs", bad, 1);
        }
    }

    #[test]
    fn wire_may_take_time_as_an_argument() {
        for good in [
            "use std::{fmt, time::Instant}; fn f(now: Instant, net: u8) { crate::net::g(os) }",
            "use std::fmt; use own::{net, fs};",
            "/// Never `unsafe`, never async.\nconst A: &str = \"async\";",
            "#[cfg(test)]\nmod tests { use std::thread; }",
        ] {
            check_text(check_wire, "crates/ringway-wire/src/a.rs", good, 0);
        }
    }

    #[test]
    fn the_runtime_names_no_protocol() {
        let path = "crates/ringway-runtime/src/a.rs";
        for bad in
            ["struct HttpServer;", "fn parse_json() {}", "use hyper;", "const RPC_MAX: u8 = 1;"]
        {
            check_text(check_runtime, path, bad, 1);
        }
        check_text(check_runtime, path, "fn carpc() {} // http\nconst A: &str = \"json\";", 0);
    }

    #[test]
    fn the_facade_has_no_logic() {
        let path = "crates/ringway/src/lib.rs";
        check_text(check_facade, path, "pub fn f() {}", 1);
        check_text(
            check_facade,
            path,
            "//! fn main\npub use ringway_net as net;\npub mod a { pub use b::c; }",
            0,
        );
    }
}
