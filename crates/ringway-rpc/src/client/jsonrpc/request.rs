//! Requests of typed calls, written up to their id.

use ringway_wire::jsonrpc::open_request;

use crate::call::codec::Codec;
use crate::call::json_shape::Shape;
use crate::call::method::Method;
use crate::call::status::Status;

/// Appends the request of a call, without its id and its end.
///
/// # Errors
/// UNIMPLEMENTED when the message has no JSON form; that of its encoder.
pub(in crate::client) fn encode<T>(
    method: &Method,
    codec: &Codec<T>,
    message: T,
    out: &mut Vec<u8>,
) -> Result<(), Status> {
    let json = codec.json.ok_or_else(|| no_json_form::<T>("request"))?;
    open_params(method.name(), json.shape, out, |out| {
        if let Some(whole) = (json.encode)(message, out)? {
            out.extend_from_slice(&whole);
        }
        Ok(())
    })
}

/// Appends a request with what `write` appends as its parameters, without its id and its end.
///
/// # Errors
/// Those of `write`.
pub(in crate::client) fn open_params(
    method: &str,
    shape: fn() -> Shape,
    out: &mut Vec<u8>,
    write: impl FnOnce(&mut Vec<u8>) -> Result<(), Status>,
) -> Result<(), Status> {
    open_request(method, out);
    let start = out.len();
    write(out)?;
    make_params(out, start, shape);
    Ok(())
}

/// Checks that replies can be read.
///
/// # Errors
/// UNIMPLEMENTED when they have no JSON form.
pub(in crate::client) fn check_reply<T>(codec: &Codec<T>) -> Result<(), Status> {
    codec.json.map(drop).ok_or_else(|| no_json_form::<T>("reply"))
}

#[cold]
fn no_json_form<T>(what: &str) -> Status {
    let name = std::any::type_name::<T>();
    let why = format!("the {what} {name} has no JSON form for JSON-RPC: derive serde's two traits");
    Status::unimplemented(why).not_executed()
}

/// Makes parameters, an array or an object, of the message at the end of `out`. They are those that our servers
/// read without a doubt, and others as far as that goes: an object is its members, any other value is alone.
fn make_params(out: &mut Vec<u8>, start: usize, shape: fn() -> Shape) {
    match out.get(start) {
        Some(b'{') => return,
        // An array of arrays that stands alone would be taken for its first element.
        Some(b'[') if shape() == (Shape::List { of_lists: true }) => return,
        Some(b'n') if shape() == Shape::Nothing => {
            out.truncate(start);
            out.extend_from_slice(b"[]");
            return;
        }
        _ => {}
    }
    out.insert(start, b'[');
    out.push(b']');
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::call::method::Kind;
    use crate::codec_of;

    #[derive(serde::Serialize, serde::Deserialize)]
    struct Point {
        x: i32,
    }

    #[derive(Clone, PartialEq, prost::Message)]
    struct Untold {}

    static METHOD: Method = Method::new("a.B/C", Kind::Unary);

    #[track_caller]
    fn check<T>(codec: Codec<T>, message: T, params: &str) {
        let mut out = Vec::new();
        encode(&METHOD, &codec, message, &mut out).expect("it has a JSON form");
        let expected = format!(r#"{{"jsonrpc":"2.0","method":"a.B/C","params":{params}"#);
        assert_eq!(String::from_utf8(out).expect("text"), expected);
    }

    #[test]
    fn message_becomes_parameters() {
        check(codec_of!(Point), Point { x: 1 }, r#"{"x":1}"#);
        check(codec_of!(i64), 7, "[7]");
        check(codec_of!(String), "{".into(), r#"["{"]"#);
        check(codec_of!(()), (), "[]");
        check(codec_of!(Option<i64>), None, "[null]");
        check(codec_of!(Vec<i64>), vec![1, 2], "[[1,2]]");
        check(codec_of!(Vec<Vec<i64>>), vec![vec![1]], "[[1]]");
        check(codec_of!(bytes::Bytes), bytes::Bytes::from_static(b"a"), r#"["YQ=="]"#);
    }

    #[test]
    fn message_without_a_json_form_is_refused() {
        let status = encode(&METHOD, &codec_of!(Untold), Untold {}, &mut Vec::new());
        let status = status.expect_err("protobuf alone");
        assert!(status.is_unimplemented() && status.is_not_executed(), "{status}");
        assert!(check_reply(&codec_of!(Untold)).is_err() && check_reply(&codec_of!(i64)).is_ok());
    }
}
