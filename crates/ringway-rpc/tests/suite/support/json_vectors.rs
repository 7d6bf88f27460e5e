//! Texts of JSON-RPC and their replies: the vectors of the specification's section 7, and edge cases.

/// A text and its reply, which is empty if there is none.
pub(crate) const VECTORS: &[(&str, &str)] = &[
    (
        r#"{"jsonrpc": "2.0", "method": "subtract", "params": [42, 23], "id": 1}"#,
        r#"{"jsonrpc":"2.0","result":19,"id":1}"#,
    ),
    (
        r#"{"jsonrpc": "2.0", "method": "subtract", "params": [23, 42], "id": 2}"#,
        r#"{"jsonrpc":"2.0","result":-19,"id":2}"#,
    ),
    (
        r#"{"jsonrpc": "2.0", "method": "subtract", "params": {"subtrahend": 23, "minuend": 42}, "id": 3}"#,
        r#"{"jsonrpc":"2.0","result":19,"id":3}"#,
    ),
    (
        r#"{"jsonrpc": "2.0", "method": "subtract", "params": {"minuend": 42, "subtrahend": 23}, "id": 4}"#,
        r#"{"jsonrpc":"2.0","result":19,"id":4}"#,
    ),
    (r#"{"jsonrpc": "2.0", "method": "update", "params": [1,2,3,4,5]}"#, ""),
    (r#"{"jsonrpc": "2.0", "method": "foobar"}"#, ""),
    (
        r#"{"jsonrpc": "2.0", "method": "foobar", "id": "1"}"#,
        r#"{"jsonrpc":"2.0","error":{"code":-32601,"message":"the server has no method foobar"},"id":"1"}"#,
    ),
    (
        r#"{"jsonrpc": "2.0", "method": "foobar, "params": "bar", "baz]"#,
        r#"{"jsonrpc":"2.0","error":{"code":-32700,"message":"Parse error"},"id":null}"#,
    ),
    (
        r#"{"jsonrpc": "2.0", "method": 1, "params": "bar"}"#,
        r#"{"jsonrpc":"2.0","error":{"code":-32600,"message":"Invalid Request"},"id":null}"#,
    ),
    (
        r#"[ {"jsonrpc": "2.0", "method": "sum", "params": [1,2,4], "id": "1"}, {"jsonrpc": "2.0", "method" ]"#,
        r#"{"jsonrpc":"2.0","error":{"code":-32700,"message":"Parse error"},"id":null}"#,
    ),
    ("[]", r#"{"jsonrpc":"2.0","error":{"code":-32600,"message":"Invalid Request"},"id":null}"#),
    ("[1]", r#"[{"jsonrpc":"2.0","error":{"code":-32600,"message":"Invalid Request"},"id":null}]"#),
    (
        "[1,2,3]",
        r#"[{"jsonrpc":"2.0","error":{"code":-32600,"message":"Invalid Request"},"id":null},{"jsonrpc":"2.0","error":{"code":-32600,"message":"Invalid Request"},"id":null},{"jsonrpc":"2.0","error":{"code":-32600,"message":"Invalid Request"},"id":null}]"#,
    ),
    (
        r#"[ {"jsonrpc": "2.0", "method": "sum", "params": [1,2,4], "id": "1"}, {"jsonrpc": "2.0", "method": "notify_hello", "params": [7]}, {"jsonrpc": "2.0", "method": "subtract", "params": [42,23], "id": "2"}, {"foo": "boo"}, {"jsonrpc": "2.0", "method": "foo.get", "params": {"name": "myself"}, "id": "5"}, {"jsonrpc": "2.0", "method": "get_data", "id": "9"} ]"#,
        r#"[{"jsonrpc":"2.0","error":{"code":-32600,"message":"Invalid Request"},"id":null},{"jsonrpc":"2.0","result":7,"id":"1"},{"jsonrpc":"2.0","result":19,"id":"2"},{"jsonrpc":"2.0","error":{"code":-32601,"message":"the server has no method foo.get"},"id":"5"},{"jsonrpc":"2.0","result":["hello",5],"id":"9"}]"#,
    ),
    (
        r#"[ {"jsonrpc": "2.0", "method": "notify_hello", "params": [7]}, {"jsonrpc": "2.0", "method": "update", "params": [1,2,4]} ]"#,
        "",
    ),
];

/// Edge cases of ids, parameters, names and failures.
pub(crate) const EDGES: &[(&str, &str)] = &[
    (
        r#"{"jsonrpc":"2.0","method":"sum","id":123456789012345678901234567890.50}"#,
        r#"{"jsonrpc":"2.0","result":0,"id":123456789012345678901234567890.50}"#,
    ),
    (
        r#"{"jsonrpc":"2.0","method":"sum","params":[[1,2]],"id":null}"#,
        r#"{"jsonrpc":"2.0","result":3,"id":null}"#,
    ),
    (
        r#"{"jsonrpc":"2.0","method":"sum","params":{"numbers":[1,2]},"id":"\u0061 a rather long id"}"#,
        r#"{"jsonrpc":"2.0","result":3,"id":"\u0061 a rather long id"}"#,
    ),
    (
        r#"{"jsonrpc":"2.0","method":"raw","params":[12345678901234567890.123456789012345678901],"id":1}"#,
        r#"{"jsonrpc":"2.0","result":12345678901234567890.123456789012345678901,"id":1}"#,
    ),
    (
        r#"{"jsonrpc":"2.0","method":"raw","params":[null],"id":1,"id":2}"#,
        r#"{"jsonrpc":"2.0","result":null,"id":2}"#,
    ),
    (
        r#"{"jsonrpc":"2.0","method":"person","params":{"name":"Ann"},"id":1}"#,
        r#"{"jsonrpc":"2.0","result":{"name":"Ann","age":0},"id":1}"#,
    ),
    (
        r#"{"jsonrpc":"2.0","method":"spec.v1.Math/Person","params":[{"name":"Ann","age":3}],"id":1}"#,
        r#"{"jsonrpc":"2.0","result":{"name":"Ann","age":3},"id":1}"#,
    ),
    (
        r#"{"jsonrpc":"2.0","method":"Math.Person","params":["Ann",3],"id":1}"#,
        r#"{"jsonrpc":"2.0","result":{"name":"Ann","age":3},"id":1}"#,
    ),
    (
        r#"{"jsonrpc":"2.0","method":"sh\u006fut","params":{"text":"\u00e9"},"id":1}"#,
        r#"{"jsonrpc":"2.0","result":"É","id":1}"#,
    ),
    (
        r#"{"jsonrpc":"2.0","method":"bytes","params":["aGk="],"id":1}"#,
        r#"{"jsonrpc":"2.0","result":"aGk=","id":1}"#,
    ),
    (
        r#"{"jsonrpc":"2.0","method":"shout","params":[7],"id":1}"#,
        r#"{"jsonrpc":"2.0","error":{"code":-32602,"message":"the message is not a valid String in JSON: invalid type: integer `7`, expected a string at line 1 column 1"},"id":1}"#,
    ),
    (
        r#"{"jsonrpc":"2.0","method":"shout","params":["a","b"],"id":1}"#,
        r#"{"jsonrpc":"2.0","error":{"code":-32602,"message":"the method does not take these parameters"},"id":1}"#,
    ),
    (
        r#"{"jsonrpc":"2.0","method":"fail","params":["json"],"id":1}"#,
        r#"{"jsonrpc":"2.0","error":{"code":-32005,"message":"no such user","data":{"user": 7}},"id":1}"#,
    ),
    (
        r#"{"jsonrpc":"2.0","method":"fail","params":["bytes"],"id":1}"#,
        r#"{"jsonrpc":"2.0","error":{"code":-32010,"message":"again","data":{"ringway":{"details":"/wA="}}},"id":1}"#,
    ),
    (
        r#"{"jsonrpc":"2.0","method":"fail","params":["wait"],"id":1}"#,
        r#"{"jsonrpc":"2.0","error":{"code":-32014,"message":"busy","data":{"ringway":{"pushback_ms":250}}},"id":1}"#,
    ),
    (
        r#"{"jsonrpc":"2.0","method":"fail","params":["a \"quote\"\n"],"id":1}"#,
        r#"{"jsonrpc":"2.0","error":{"code":-32002,"message":"a \"quote\"\n"},"id":1}"#,
    ),
    (
        r#"{"jsonrpc":"2.0","method":"panic","params":["secret"],"id":1}"#,
        r#"{"jsonrpc":"2.0","error":{"code":-32603,"message":"the handler failed"},"id":1}"#,
    ),
    (r#"{"jsonrpc":"2.0","method":"panic","params":["secret"]}"#, ""),
    (
        r#"{"jsonrpc":"2.0","method":"rpc.ping","id":1}"#,
        r#"{"jsonrpc":"2.0","result":true,"id":1}"#,
    ),
    (
        r#"{"jsonrpc":"2.0","method":"rpc.unsubscribe","params":[7],"id":1}"#,
        r#"{"jsonrpc":"2.0","result":false,"id":1}"#,
    ),
    (
        r#"{"jsonrpc":"2.0","method":"rpc.other","id":1}"#,
        r#"{"jsonrpc":"2.0","error":{"code":-32601,"message":"the server has no method rpc.other"},"id":1}"#,
    ),
    (
        r#"{"jsonrpc":"2.0","method":"collect","params":[],"id":1}"#,
        r#"{"jsonrpc":"2.0","error":{"code":-32601,"message":"spec.v1.Math/Collect takes a stream, which JSON-RPC cannot carry"},"id":1}"#,
    ),
    (
        r#"{"jsonrpc":"2.0","method":"sum","id":{}}"#,
        r#"{"jsonrpc":"2.0","error":{"code":-32600,"message":"Invalid Request"},"id":null}"#,
    ),
    (
        r#"{"jsonrpc":"1.0","method":"sum","id":"mine"}"#,
        r#"{"jsonrpc":"2.0","error":{"code":-32600,"message":"Invalid Request"},"id":"mine"}"#,
    ),
    (
        r#"[{"jsonrpc":"2.0","method":"sum","id":7},{"jsonrpc":"2.0","method":"sum","id":7}]"#,
        r#"[{"jsonrpc":"2.0","result":0,"id":7},{"jsonrpc":"2.0","result":0,"id":7}]"#,
    ),
];

/// Texts that are no messages or exceed a bound, with their replies, for a server whose messages have at most
/// [`MESSAGE_BYTES`].
pub(crate) fn refused() -> Vec<(String, &'static str)> {
    let nested = |levels: usize| {
        let (open, close) = ("[".repeat(levels), "]".repeat(levels));
        format!(r#"{{"jsonrpc":"2.0","method":"raw","params":[{open}{close}],"id":7}}"#)
    };
    let with_id = |len: usize| {
        format!(r#"{{"jsonrpc":"2.0","method":"sum","id":"{}"}}"#, "x".repeat(len - 2))
    };
    let not_json = r#"{"jsonrpc":"2.0","error":{"code":-32700,"message":"Parse error"},"id":null}"#;
    let invalid =
        r#"{"jsonrpc":"2.0","error":{"code":-32600,"message":"Invalid Request"},"id":null}"#;
    vec![
        ("nonsense".into(), not_json),
        ("{} {}".into(), not_json),
        ("[\"\\ud800\"]".into(), not_json),
        (format!(r#"{{"a":{}"#, "[".repeat(4_000)), not_json),
        ("{}".into(), invalid),
        ("\"text\"".into(), invalid),
        (
            nested(100),
            r#"{"jsonrpc":"2.0","error":{"code":-32600,"message":"Invalid Request"},"id":7}"#,
        ),
        (
            nested(4_000),
            r#"{"jsonrpc":"2.0","error":{"code":-32600,"message":"Invalid Request"},"id":7}"#,
        ),
        (format!("[{}1]", "1,".repeat(1_000)), invalid),
        (with_id(4_097), invalid),
    ]
}

/// The longest message of a server that gets [`refused`].
pub(crate) const MESSAGE_BYTES: u32 = 10_000;
