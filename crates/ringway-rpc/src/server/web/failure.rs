//! Failures of calls as Connect writes them: JSON (connectrpc.com/docs/protocol, "Error and
//! EndStreamResponse").

use prost::Message;
use ringway_http::http::StatusCode;
use ringway_wire::grpc::put_base64;
use serde_json::{Map, Value, json};

use super::fields::texts;
use crate::call::metadata::Metadata;
use crate::call::status::{Code, Status};

/// `Error` of the protocol.
pub(super) fn error_json(status: &Status) -> Value {
    let mut error = Map::new();
    error.insert("code".into(), code_name(status.code()).into());
    if !status.message().is_empty() {
        error.insert("message".into(), status.message().into());
    }
    let details = details(status);
    if !details.is_empty() {
        error.insert("details".into(), details.into());
    }
    error.into()
}

/// `EndStreamResponse` of the protocol: how a stream has ended, and its trailers.
pub(super) fn end_json(outcome: &Result<Metadata, Status>) -> Value {
    let mut end = Map::new();
    let trailers = match outcome {
        Ok(trailers) => trailers,
        Err(status) => {
            end.insert("error".into(), error_json(status));
            status.metadata()
        }
    };
    let mut metadata = Map::new();
    for (key, value) in texts(trailers) {
        let values = metadata.entry(key).or_insert_with(|| json!([]));
        values.as_array_mut().expect("it was made an array").push(value.into());
    }
    if !metadata.is_empty() {
        end.insert("metadata".into(), metadata.into());
    }
    end.into()
}

/// The details of a status that are `google.rpc.Status`, as most of gRPC's programs have them, one by
/// one; other bytes as one `google.protobuf.BytesValue`.
fn details(status: &Status) -> Vec<Value> {
    let bytes = status.details();
    if bytes.is_empty() {
        return Vec::new();
    }
    let known = RpcStatus::decode(&bytes[..]).ok().filter(|known| {
        !known.details.is_empty() && known.details.iter().all(|any| any.type_url.contains('/'))
    });
    match known {
        Some(known) => known.details.iter().map(RpcDetail::json).collect(),
        None => {
            let type_url = String::from("/google.protobuf.BytesValue");
            vec![RpcDetail { type_url, value: bytes.to_vec().encode_to_vec() }.json()]
        }
    }
}

/// `google.rpc.Status`, as far as it is needed here.
#[derive(Clone, PartialEq, prost::Message)]
struct RpcStatus {
    #[prost(message, repeated, tag = "3")]
    details: Vec<RpcDetail>,
}

/// `google.protobuf.Any`.
#[derive(Clone, PartialEq, prost::Message)]
struct RpcDetail {
    #[prost(string, tag = "1")]
    type_url: String,
    #[prost(bytes = "vec", tag = "2")]
    value: Vec<u8>,
}

impl RpcDetail {
    fn json(&self) -> Value {
        let name = self.type_url.rsplit_once('/').map_or(&*self.type_url, |(_, name)| name);
        let mut value = Vec::new();
        put_base64(&self.value, &mut value);
        json!({ "type": name, "value": String::from_utf8_lossy(&value) })
    }
}

/// "Error Codes" of the protocol.
pub(super) fn http_status(code: Code) -> StatusCode {
    let number = match code {
        Code::Ok => 200,
        Code::Cancelled => 499,
        Code::InvalidArgument | Code::FailedPrecondition | Code::OutOfRange => 400,
        Code::DeadlineExceeded => 504,
        Code::NotFound => 404,
        Code::AlreadyExists | Code::Aborted => 409,
        Code::PermissionDenied => 403,
        Code::ResourceExhausted => 429,
        Code::Unimplemented => 501,
        Code::Unavailable => 503,
        Code::Unauthenticated => 401,
        _ => 500,
    };
    StatusCode::from_u16(number).expect("all of them are")
}

fn code_name(code: Code) -> String {
    match code {
        Code::Cancelled => "canceled".to_owned(), // the protocol's spelling
        code => code.name().to_ascii_lowercase(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn codes_have_the_names_and_statuses_of_the_protocol() {
        let known = [
            (1, "canceled", 499),
            (2, "unknown", 500),
            (3, "invalid_argument", 400),
            (4, "deadline_exceeded", 504),
            (5, "not_found", 404),
            (6, "already_exists", 409),
            (7, "permission_denied", 403),
            (8, "resource_exhausted", 429),
            (9, "failed_precondition", 400),
            (10, "aborted", 409),
            (11, "out_of_range", 400),
            (12, "unimplemented", 501),
            (13, "internal", 500),
            (14, "unavailable", 503),
            (15, "data_loss", 500),
            (16, "unauthenticated", 401),
        ];
        for (number, name, status) in known {
            let code = Code::from_wire(number);
            assert_eq!((&*code_name(code), http_status(code).as_u16()), (name, status));
        }
    }

    #[test]
    fn details_are_listed_by_type() {
        let any = |type_url: &str, value: &[u8]| RpcDetail {
            type_url: type_url.to_owned(),
            value: value.to_vec(),
        };
        let details = vec![
            any("type.googleapis.com/google.rpc.RetryInfo", &[10, 2, 8, 60]),
            any("example.org/x.Y", b""),
        ];
        let status =
            Status::unavailable("overloaded").with_details(RpcStatus { details }.encode_to_vec());
        let expected = json!({
            "code": "unavailable",
            "message": "overloaded",
            "details": [
                { "type": "google.rpc.RetryInfo", "value": "CgIIPA" },
                { "type": "x.Y", "value": "" },
            ],
        });
        assert_eq!(error_json(&status), expected);
        let own = error_json(&Status::unavailable("").with_details("42"));
        let expected = json!([{ "type": "google.protobuf.BytesValue", "value": "CgI0Mg" }]);
        assert_eq!(own, json!({ "code": "unavailable", "details": expected }));
    }

    #[test]
    fn the_end_of_a_stream_has_its_trailers() {
        let mut trailers = Metadata::new();
        for (key, value) in [("cost", &b"7"[..]), ("cost", b"8"), ("raw-bin", &[255])] {
            trailers.append(key, value).expect("an entry");
        }
        let metadata = json!({ "cost": ["7", "8"], "raw-bin": ["/w"] });
        assert_eq!(end_json(&Ok(trailers.clone())), json!({ "metadata": metadata }));
        assert_eq!(end_json(&Ok(Metadata::new())), json!({}));
        let failed = end_json(&Err(Status::not_found("").with_metadata(trailers)));
        assert_eq!(failed, json!({ "error": { "code": "not_found" }, "metadata": metadata }));
    }
}
