//! `rpc.discover`: the document of OpenRPC that a server makes of its methods.

use ringway_http::Client;
use ringway_rpc::{Context, Next, Status};
use ringway_runtime::block_on;
use serde_json::{Value, json};

use crate::support::json_lines::JsonLines;
use crate::support::math::{Plain, serve_math};
use crate::support::web_caller::{ask, post};
use crate::support::{end, socket_addr};

const DISCOVER: &str = r#"{"jsonrpc":"2.0","method":"rpc.discover","id":1}"#;

fn serve() -> ringway_rpc::ServerHandle {
    let address = "tcp://127.0.0.1:0".parse().expect("an address");
    serve_math(address, &Plain::default(), |server| server)
}

/// The result in the text of an answer.
#[track_caller]
fn result(answer: &str) -> Value {
    let mut answer: Value = serde_json::from_str(answer).expect("JSON");
    assert!(answer["error"].is_null(), "{answer}");
    answer["result"].take()
}

#[track_caller]
fn method<'a>(document: &'a Value, name: &str) -> &'a Value {
    let methods = document["methods"].as_array().expect("a list");
    methods.iter().find(|method| method["name"] == name).unwrap_or_else(|| panic!("no {name}"))
}

/// Checks what the meta schema of OpenRPC requires, and that nothing is there which it forbids.
#[track_caller]
fn check_document(document: &Value) {
    #[track_caller]
    fn check(object: &Value, required: &[&str], optional: &[&str]) {
        let object = object.as_object().expect("an object");
        for name in required {
            assert!(object.contains_key(*name), "{name} is missing in {object:?}");
        }
        for name in object.keys() {
            let is_known = [required, optional].iter().any(|all| all.contains(&&**name));
            assert!(is_known || name.starts_with("x-"), "{name} is not allowed in {object:?}");
        }
    }
    check(document, &["openrpc", "info", "methods"], &["servers", "components", "externalDocs"]);
    assert_eq!(document["openrpc"], "1.2.6");
    check(&document["info"], &["title", "version"], &["description"]);
    assert!(document["info"]["title"].is_string() && document["info"]["version"].is_string());
    let mut names = Vec::new();
    for method in document["methods"].as_array().expect("a list") {
        check(method, &["name", "params"], &["result", "paramStructure", "description"]);
        names.push(method["name"].as_str().expect("a name"));
        let structure = method["paramStructure"].as_str().expect("a text");
        assert!(["by-name", "by-position", "either"].contains(&structure), "{structure}");
        let params = method["params"].as_array().expect("a list");
        for descriptor in params.iter().chain([&method["result"]]) {
            check(descriptor, &["name", "schema"], &["required", "description"]);
            assert!(descriptor["name"].is_string() && descriptor["schema"].is_object());
        }
        let of_param = |at: usize| params[at]["name"].as_str().expect("a name");
        assert!((1..params.len()).all(|at| of_param(at) != of_param(at - 1)), "{params:?}");
    }
    let all = names.len();
    names.sort_unstable();
    names.dedup();
    assert_eq!(names.len(), all, "names are unique");
}

#[test]
fn methods_are_listed_with_their_parameters() {
    let handle = serve();
    let document = result(&JsonLines::tcp(socket_addr(&handle)).ask(DISCOVER));
    check_document(&document);
    assert_eq!(document["info"]["title"], "spec.v1.Math");
    let integer = json!({"type": "integer"});
    assert_eq!(
        *method(&document, "spec.v1.Math/Subtract"),
        json!({
            "name": "spec.v1.Math/Subtract",
            "paramStructure": "either",
            "params": [
                {"name": "minuend", "schema": integer, "required": true},
                {"name": "subtrahend", "schema": integer, "required": true},
            ],
            "result": {"name": "result", "schema": integer},
        })
    );
    let natural = json!({"type": "integer", "minimum": 0});
    let person = method(&document, "spec.v1.Math/Person");
    assert_eq!(
        person["params"],
        json!([
            {"name": "name", "schema": {"type": "string"}, "required": true},
            {"name": "age", "schema": natural, "required": false},
        ])
    );
    assert_eq!(person["result"]["schema"]["properties"]["age"], natural);
    let sum = method(&document, "spec.v1.Math/Sum");
    assert_eq!(
        (&sum["params"][0]["name"], &sum["params"][0]["schema"]),
        (&"numbers".into(), &json!({"type": "array", "items": integer}))
    );
    assert_eq!(method(&document, "spec.v1.Math/GetData")["params"], json!([]));
    let bytes = method(&document, "spec.v1.Math/Bytes");
    assert_eq!(bytes["result"]["schema"]["contentEncoding"], "base64");
    let repeat = method(&document, "spec.v1.Math/Repeat");
    assert_eq!(repeat["result"], json!({"name": "subscription", "schema": integer}));
    assert_eq!(repeat["x-subscription"]["schema"], json!({"type": "string"}));
    // What JSON-RPC cannot call is not listed; messages without serde have their descriptors.
    assert!(!document.to_string().contains("Collect"));
    let check = method(&document, "grpc.health.v1.Health/Check");
    assert_eq!(check["params"][0]["name"], "service");
    assert_eq!(check["params"][0]["schema"], json!({"type": "string"}));
    assert_eq!(check["result"]["schema"]["properties"]["status"]["anyOf"][0]["enum"][1], "SERVING");
    end(handle);
}

#[test]
fn every_way_to_json_rpc_tells_the_same() {
    let handle = serve();
    let document = result(&JsonLines::tcp(socket_addr(&handle)).ask(DISCOVER));
    let posted = ask(&handle, post("/rpc", "content-type: application/json\r\n", DISCOVER));
    assert_eq!(result(&posted.text()), document);
    let url = format!("ws://{}/rpc", socket_addr(&handle));
    let text = block_on(async move {
        let mut socket = Client::new().websocket(&url).await?;
        socket.send_text(DISCOVER).await?;
        let text = socket.recv().await?.expect("an answer");
        Ok::<_, ringway_http::Error>(text.as_text().expect("a text").to_owned())
    });
    assert_eq!(result(&text.expect("it runs").expect("no error")), document);
    end(handle);
}

#[test]
fn interceptors_refuse_it_as_they_refuse_calls() {
    let address = "tcp://127.0.0.1:0".parse().expect("an address");
    let refuse = async |context: Context, next: Next| match context.metadata().get("authorization")
    {
        Some(_) => next.run(context).await,
        None => Err(Status::unauthenticated("a token is needed")),
    };
    let handle = serve_math(address, &Plain::default(), |server| server.intercept(refuse));
    let json = "content-type: application/json\r\n";
    let posted = ask(&handle, post("/rpc", json, DISCOVER)).text();
    for answer in [posted, JsonLines::tcp(socket_addr(&handle)).ask(DISCOVER)] {
        assert!(answer.contains("-32016") && answer.contains("a token is needed"), "{answer}");
    }
    let fields = format!("{json}authorization: Bearer x\r\n");
    check_document(&result(&ask(&handle, post("/rpc", &fields, DISCOVER)).text()));
    end(handle);
}

/// A short request has a long answer.
#[test]
fn a_batch_of_them_is_bounded() {
    let handle = serve();
    let mut connection = JsonLines::tcp(socket_addr(&handle));
    let batch = format!("[{}]", [DISCOVER; 1_000].join(","));
    let answer = connection.ask(&batch);
    let answers: Vec<Value> = serde_json::from_str(&answer).expect("JSON");
    let (told, refused): (Vec<_>, Vec<_>) =
        answers.iter().partition(|answer| answer["error"].is_null());
    assert_eq!(told.len() + refused.len(), 1_000);
    assert!(!told.is_empty() && answer.len() < 2 << 20, "{} bytes", answer.len());
    assert_eq!(refused[0]["error"]["code"], -32008);
    assert_eq!(refused[0]["error"]["data"], json!({"ringway": {"executed": false}}));
    // Who has read them may ask again.
    check_document(&result(&connection.ask(DISCOVER)));
    end(handle);
}
