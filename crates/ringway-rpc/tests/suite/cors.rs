//! Calls by pages of other origins.

use std::time::Duration;

use ringway_rpc::{Cors, Server, ServerHandle};

use crate::support::end;
use crate::support::web_caller::{Answer, ask, frame, head, post};
use crate::support::web_service::{Reports, start};

const PAGE: &str = "https://app.example";
const JSON: &str = "content-type: application/json\r\n";

fn call(handle: &ServerHandle, method: &str, origin: &str, fields: &str, body: &str) -> Answer {
    let fields = format!("{fields}origin: {origin}\r\n");
    ask(handle, post(&format!("/web.v1.Web/{method}"), &fields, body))
}

fn preflight(handle: &ServerHandle, origin: &str, fields: &str) -> Answer {
    let fields = format!("origin: {origin}\r\naccess-control-request-method: POST\r\n{fields}");
    ask(handle, head("OPTIONS", "/web.v1.Web/Put", &fields))
}

fn calls(handle: &ServerHandle) -> u64 {
    handle.metrics().methods.iter().map(|method| method.started).sum()
}

#[test]
fn without_a_setting_no_page_of_another_origin_reaches_a_handler() {
    let handle = start(Reports::default(), |server| server);
    for origin in [PAGE, "null", "http://here:81", "https://here.example"] {
        let web = "content-type: application/grpc-web+json\r\n";
        let stream = "content-type: application/connect+json\r\n";
        let message = String::from_utf8(frame(0, "1")).expect("ASCII");
        for answer in [
            call(&handle, "Put", origin, JSON, "\"x\""),
            call(&handle, "Put", origin, web, &message),
            call(&handle, "Count", origin, stream, &message),
            ask(&handle, head("GET", "/web.v1.Web/Look?a", &format!("origin: {origin}\r\n"))),
            preflight(&handle, origin, ""),
        ] {
            let is_web = answer.field("grpc-status") == Some("7");
            assert!(answer.status == 403 || is_web, "{origin}: {answer:?}");
            assert_eq!(answer.field("access-control-allow-origin"), None);
        }
    }
    // A form or script may send these to any origin without a preflight request, so they are no calls.
    for kind in ["text/plain", "application/x-www-form-urlencoded", "multipart/form-data"] {
        let fields = format!("content-type: {kind}\r\n");
        let answer = ask(&handle, post("/web.v1.Web/Put", &fields, "\"x\""));
        assert_eq!(answer.status, 415);
    }
    assert_eq!(calls(&handle), 0);
    assert_eq!(call(&handle, "Put", "http://here", JSON, "\"x\"").text(), "\"x\"");
    end(handle);
}

/// A page of another host can have its own name lead here (DNS rebinding).
#[test]
fn over_loopback_a_page_of_a_name_with_a_dot_is_foreign() {
    let named = |bytes: Vec<u8>, host: &str| {
        let text = String::from_utf8(bytes).expect("ASCII");
        text.replacen("host: here", &format!("host: {host}"), 1)
    };
    let put = |host: &str, fields: &str| {
        let fields = format!("{JSON}{fields}");
        named(post("/web.v1.Web/Put", &fields, "\"x\""), host)
    };
    let look = |host: &str, fields: &str| named(head("GET", LOOK, fields).into_bytes(), host);
    let evil = "evil.example:9000";
    let from_evil = format!("origin: http://{evil}\r\n");
    let handle = start(Reports::default(), |server| server);
    for request in [put(evil, &from_evil), look(evil, ""), look(evil, &from_evil)] {
        let answer = ask(&handle, &request);
        assert_eq!(answer.status, 403, "{request}: {answer:?}");
        let text = answer.text();
        assert!(text.contains("localhost") && text.contains(evil), "{answer:?}");
        assert!(text.contains("Server::hosts"), "{answer:?}");
    }
    // A page may set all of them.
    for field in FIELDS_OF_PROXIES {
        for fields in [format!("{from_evil}{field}: x\r\n"), format!("{field}: x\r\n")] {
            let request = look(evil, &fields);
            assert_eq!(ask(&handle, &request).status, 403, "{request}");
        }
        let request = put(evil, &format!("{from_evil}{field}: x\r\n"));
        assert_eq!(ask(&handle, &request).status, 403, "{request}");
    }
    let same = format!("{from_evil}sec-fetch-site: same-origin\r\n");
    assert_eq!(ask(&handle, put(evil, &same)).status, 403, "the browser takes them for one");
    assert_eq!(calls(&handle), 0);
    // A browser names the port that it connects to, so a request without one came to a proxy.
    let shop = "origin: http://shop.example\r\n";
    for request in [
        put(evil, ""), // no page: browsers tell the origin of a POST
        put("shop.example", shop),
        put("shop.example:443", "origin: https://shop.example:443\r\n"),
        look("shop.example", ""),
        put("localhost:9000", "origin: http://localhost:9000\r\n"),
        put("127.0.0.1:9000", "origin: http://127.0.0.1:9000\r\n"),
        look("here", ""),
        named(head("GET", "/metrics", "").into_bytes(), evil),
    ] {
        assert_eq!(ask(&handle, &request).status, 200, "{request}");
    }
    end(handle);
    let handle = start(Reports::default(), |server| server.hosts(["shop.example", "a.example:1"]));
    for (host, origin, status) in [
        ("shop.example:9000", "http://shop.example:9000", 200),
        ("a.example:1", "http://a.example:1", 200),
        ("a.example", "http://a.example", 403),
        (evil, &*format!("http://{evil}"), 403),
        ("evil.example", "http://evil.example", 403),
        ("localhost:9000", "http://localhost:9000", 200),
    ] {
        let request = put(host, &format!("origin: {origin}\r\n"));
        assert_eq!(ask(&handle, &request).status, status, "{request}");
    }
    end(handle);
    let cors = Cors::of_origins([format!("http://{evil}")]);
    let handle = start(Reports::default(), |server| server.cors(cors));
    for request in [put(evil, &from_evil), look(evil, "")] {
        assert_eq!(ask(&handle, &request).status, 200, "{request}");
    }
    end(handle);
}

const FIELDS_OF_PROXIES: [&str; 5] =
    ["forwarded", "x-forwarded-for", "x-forwarded-host", "x-forwarded-proto", "x-real-ip"];

/// Proxies drop the port of `Host`, or put their own name for the server in its place.
#[test]
fn own_pages_behind_a_proxy_call_or_are_told_which_setting_lets_them() {
    let put = |handle: &ServerHandle, host: &str, fields: &str| {
        let request = post("/web.v1.Web/Put", &format!("{JSON}{fields}"), "\"x\"");
        let request = String::from_utf8(request).expect("ASCII");
        ask(handle, request.replacen("host: here", &format!("host: {host}"), 1))
    };
    let origin = "origin: http://shop.example:8080\r\n";
    let hosts = ["127.0.0.1:9000", "backend", "shop.example"];
    let handle = start(Reports::default(), |server| server);
    for host in hosts {
        let refused = put(&handle, host, origin);
        assert_eq!(refused.status, 403, "{host}");
        let text = refused.text();
        for told in ["http://shop.example:8080", host, "Server::hosts", "Server::cors"] {
            assert!(text.contains(told), "{told}: {text}");
        }
        assert!(text.contains("permission_denied"), "{text}");
        // Only the browser sets this field, for pages by TLS and of the same machine.
        let same = format!("{origin}sec-fetch-site: same-origin\r\n");
        assert_eq!(put(&handle, host, &same).status, 200, "{host}");
        for other in ["same-site", "cross-site", "none"] {
            let fields = format!("{origin}sec-fetch-site: {other}\r\n");
            assert_eq!(put(&handle, host, &fields).status, 403, "{host}");
        }
    }
    end(handle);
    let handle = start(Reports::default(), |server| server.hosts(["shop.example"]));
    for host in hosts {
        assert_eq!(put(&handle, host, origin).status, 200, "{host}");
        assert_eq!(put(&handle, host, "origin: http://b.example\r\n").status, 403, "{host}");
    }
    end(handle);
    let server = Server::bind("tcp://127.0.0.1:0").expect("an address");
    let error = server.hosts(["https://shop.example"]).start().expect_err("no host");
    assert!(error.to_string().contains("is not a host"), "{error}");
}

const LOOK: &str = "/web.v1.Web/Look?connect=v1&encoding=json&message=%22x%22";

#[test]
fn a_page_that_is_allowed_is_told_what_it_may_send_and_read() {
    let cors = Cors::of_origins([PAGE, "http://localhost:8080"])
        .allow_headers(["authorization"])
        .expose_headers(["trailer-cost"])
        .max_age(Duration::from_secs(60));
    let handle = start(Reports::default(), |server| server.cors(cors));
    let asked = preflight(&handle, PAGE, "access-control-request-headers: content-type\r\n");
    assert_eq!((asked.status, asked.body.len()), (204, 0));
    assert_eq!(asked.field("access-control-allow-origin"), Some(PAGE));
    assert_eq!(asked.field("access-control-allow-methods"), Some("get, post"));
    assert_eq!(asked.field("access-control-max-age"), Some("60"));
    assert_eq!(asked.field("access-control-allow-credentials"), None);
    let headers = asked.field("access-control-allow-headers").expect("a list");
    for name in ["content-type", "connect-timeout-ms", "x-grpc-web", "authorization"] {
        assert!(headers.split(", ").any(|allowed| allowed == name), "{name} is not in {headers}");
    }
    assert_eq!(calls(&handle), 0, "a question is no call");
    let private = "access-control-request-private-network: true\r\n";
    let private = preflight(&handle, PAGE, private);
    assert_eq!(private.field("access-control-allow-private-network"), Some("true"));

    let answer = call(&handle, "Put", PAGE, JSON, "\"x\"");
    assert_eq!((answer.status, answer.text()), (200, "\"x\"".into()));
    assert_eq!(answer.field("access-control-allow-origin"), Some(PAGE));
    let exposed = answer.field("access-control-expose-headers").expect("a list");
    assert!(exposed.contains("grpc-status") && exposed.ends_with("trailer-cost"), "{exposed}");
    let failed = call(&handle, "Fail", PAGE, JSON, "\"x\"");
    assert_eq!((failed.status, failed.field("access-control-allow-origin")), (404, Some(PAGE)));
    let unknown = call(&handle, "Nothing", PAGE, JSON, "\"x\"");
    assert_eq!((unknown.status, unknown.field("access-control-allow-origin")), (404, Some(PAGE)));
    let own = ask(&handle, post("/web.v1.Web/Put", JSON, "\"x\""));
    assert_eq!(
        (own.field("vary"), own.field("access-control-allow-origin")),
        (Some("origin"), None)
    );
    for foreign in ["https://app.example:444", "http://app.example", "null"] {
        let refused = call(&handle, "Put", foreign, JSON, "\"x\"");
        assert_eq!((refused.status, refused.field("access-control-allow-origin")), (403, None));
    }
    end(handle);
}

#[test]
fn any_page_may_be_allowed_and_settings_that_make_no_sense_are_refused() {
    let handle = start(Reports::default(), |server| server.cors(Cors::any_origin()));
    let answer = call(&handle, "Put", "null", JSON, "\"x\"");
    assert_eq!((answer.status, answer.field("access-control-allow-origin")), (200, Some("*")));
    end(handle);
    let credentials = Cors::of_origins([PAGE]).allow_credentials();
    let handle = start(Reports::default(), |server| server.cors(credentials));
    let answer = call(&handle, "Put", PAGE, JSON, "\"x\"");
    assert_eq!(answer.field("access-control-allow-credentials"), Some("true"));
    end(handle);
    let start = |cors| Server::bind("tcp://127.0.0.1:0").expect("an address").cors(cors).start();
    let error = start(Cors::any_origin().allow_credentials()).expect_err("unsafe").to_string();
    assert!(error.contains("has to name its origins"), "{error}");
    assert!(start(Cors::of_origins(["https://*.example"])).is_err());
}
