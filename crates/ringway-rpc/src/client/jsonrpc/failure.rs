//! Errors of a server as statuses.

use ringway_wire::grpc::parse_base64;
use ringway_wire::jsonrpc::ErrorObject;
use ringway_wire::native::{FailedBy, MetaWriter};
use serde_json::{Map, Value};

use crate::call::metadata::Metadata;
use crate::call::status::{Code, JSON_RPC_CODE, Status};

/// The failure of a call, as the connection reports it.
#[derive(Debug)]
pub(super) struct CallFailure {
    pub(super) code: Code,
    pub(super) meta: Vec<u8>,
    /// Whether the server says that it has not executed the call.
    pub(super) is_refused: bool,
    /// Who has decided it in place of the server, with the reason.
    pub(super) instead: Option<(FailedBy, String)>,
}

/// The status of an error object, which may be of one of our servers.
pub(in crate::client) fn status_of(error: &ErrorObject<'_>, is_ours: bool) -> Status {
    let CallFailure { code, meta, .. } = CallFailure::of_error(error, is_ours);
    let unread = || Status::unknown(error.message.to_string());
    Status::of_response(code.number(), &meta).err().unwrap_or_else(unread)
}

impl CallFailure {
    /// A failure that this side has found: a limit of its own, or a server that breaks the protocol.
    pub(super) fn here(code: Code, text: impl Into<String>) -> Self {
        Self::instead(code, FailedBy::Client, text)
    }

    /// One that comes without a reply of JSON-RPC.
    pub(super) fn instead(code: Code, by: FailedBy, text: impl Into<String>) -> Self {
        Self { code, meta: Vec::new(), is_refused: false, instead: Some((by, text.into())) }
    }

    /// Reads an error object. Codes that the specification leaves to servers are statuses only to ours: to those that
    /// are known to be, and where an error says so itself.
    pub(super) fn of_error(error: &ErrorObject<'_>, is_ours: bool) -> Self {
        let added = error.data.and_then(|data| serde_json::from_str::<Value>(data).ok());
        let ours = added.as_ref().and_then(|added| added.get("ringway")?.as_object());
        let is_known = is_ours || ours.is_some() || error.code.is_predefined();
        let code = if is_known { Code::from_wire(error.code.status()) } else { Code::Unknown };
        let mut failure = Self { code, meta: Vec::new(), is_refused: false, instead: None };
        MetaWriter::new(&mut failure.meta).status_message(&error.message);
        let mut metadata = Metadata::new();
        put(&mut metadata, JSON_RPC_CODE, error.code.0.to_string().as_bytes());
        match (ours, error.data) {
            (Some(ours), _) => failure.read_ours(ours, &mut metadata),
            (None, Some(data)) => {
                _ = MetaWriter::new(&mut failure.meta).status_details(data.as_bytes());
            }
            (None, None) => {}
        }
        metadata.write(&mut MetaWriter::new(&mut failure.meta));
        failure
    }

    /// Reads what one of our servers adds: the parts of a status. What others add is details.
    fn read_ours(&mut self, ours: &Map<String, Value>, metadata: &mut Metadata) {
        let mut writer = MetaWriter::new(&mut self.meta);
        if ours.get("executed") == Some(&Value::Bool(false)) {
            self.is_refused = true;
            writer.refused();
        }
        let status = ours.get("status").and_then(Value::as_u64);
        if let Some(status) = status.and_then(|status| u8::try_from(status).ok()) {
            self.code = Code::from_wire(status.max(1));
        }
        if let Some(wait) = ours.get("pushback_ms").and_then(Value::as_i64) {
            writer.pushback_ms(wait);
        }
        let mut bytes = Vec::new();
        if let Some(details) = ours.get("details").and_then(Value::as_str)
            && parse_base64(details.as_bytes(), &mut bytes)
        {
            writer.status_details(&bytes);
        }
        for (key, value) in ours.get("metadata").and_then(Value::as_object).into_iter().flatten() {
            let value = value.as_str().unwrap_or_default().as_bytes();
            bytes.clear();
            match key.ends_with("-bin") && parse_base64(value, &mut bytes) {
                true => put(metadata, key, &bytes),
                false => put(metadata, key, value),
            }
        }
    }
}

/// Adds an entry, unless no metadata can hold it: it must not hide the failure.
fn put(metadata: &mut Metadata, key: &str, value: &[u8]) {
    _ = metadata.append(key, value);
}

#[cfg(test)]
mod tests {
    use ringway_wire::jsonrpc::ErrorNumber;

    use super::*;

    #[test]
    fn codes_are_statuses_of_our_servers_only() {
        for (number, ours, foreign) in [
            (-32_700, Code::Internal, Code::Internal),
            (-32_602, Code::InvalidArgument, Code::InvalidArgument),
            (-32_601, Code::Unimplemented, Code::Unimplemented),
            (-32_004, Code::DeadlineExceeded, Code::Unknown),
            (-32_005, Code::NotFound, Code::Unknown),
            (-32_014, Code::Unavailable, Code::Unknown),
            (-38_012, Code::Unknown, Code::Unknown),
            (3, Code::Unknown, Code::Unknown),
        ] {
            for (is_ours, code) in [(true, ours), (false, foreign)] {
                let error =
                    ErrorObject { code: ErrorNumber(number), message: "no".into(), data: None };
                let status = status_of(&error, is_ours);
                assert_eq!(status.code(), code, "{number}, {is_ours}");
                assert_eq!(status.json_rpc_code(), Some(number));
            }
        }
    }

    #[test]
    fn an_error_may_say_itself_that_it_is_of_our_server() {
        let data = Some(r#"{"ringway":{"executed":false}}"#);
        let error = ErrorObject { code: ErrorNumber(-32_014), message: "drains".into(), data };
        let status = status_of(&error, false);
        assert!(status.is_unavailable() && status.is_not_executed(), "{status}");
    }

    #[test]
    fn entries_that_no_metadata_holds_do_not_hide_the_failure() {
        let odd = r#""a key": "x", "grpc-x": "x", "name": "\u00e9", "n": 7, "shard": "7""#;
        let long = format!(r#""long": "{}""#, "x".repeat(20 << 10));
        for (number, entries) in [(-32004, odd), (-32004, long.as_str()), (9, odd), (9, &long)] {
            let data = format!(r#"{{"ringway": {{"metadata": {{{entries}}}}}}}"#);
            let message = "no such user".into();
            let error = ErrorObject { code: ErrorNumber(number), message, data: Some(&data) };
            let status = status_of(&error, true);
            assert_eq!(status.message(), "no such user", "{status:?}");
            assert_eq!(status.metadata().get("shard").is_some(), entries == odd);
            assert_eq!(status.json_rpc_code(), Some(number));
        }
    }
}
