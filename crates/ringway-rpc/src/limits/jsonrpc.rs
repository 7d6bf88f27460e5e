//! Bounds of JSON-RPC and of the descriptions of its methods.

use std::time::Duration;

/// Values that are made up to find the JSON Schema of a type: types may contain themselves several times.
pub(crate) const SCHEMA_NODES_MAX: u32 = 500;

/// How deep that goes.
pub(crate) const SCHEMA_DEPTH_MAX: u32 = 8;

/// Members of a type of which it is tried whether they are required: each takes one more reading.
pub(crate) const SCHEMA_MEMBERS_TRIED: usize = 64;

/// How deep messages of protobuf are written as JSON Schema: they may contain themselves.
pub(crate) const SCHEMA_MESSAGE_DEPTH: usize = 4;

/// Longest id of a JSON-RPC request: clients count, or use a name of some kind, and it is kept until the answer. The
/// same for the id that a server gives a subscription.
pub(crate) const JSONRPC_ID_BYTES_MAX: usize = 4 << 10;

/// How long a client of JSON-RPC may take to go on with a line, or to take anything of what is sent to it; the
/// latter twice as long at most.
pub(crate) const JSONRPC_STALL_TIMEOUT: Duration = Duration::from_secs(30);

/// Time that a byte of a line may take, all together: 100 bytes a second, as of an answer's reader. A line that is
/// behind by the time above holds its front in our memory on purpose.
pub(crate) const JSONRPC_BYTE_TIME: Duration = Duration::from_millis(10);

/// Bytes of requests that wait on a JSON-RPC connection until fewer calls run, exceeded by one text at most:
/// its client has not been told a limit, and is to notice one.
pub(crate) const JSONRPC_WAITING_BYTES: usize = 1024 * 1024;

/// Longest name of a method that is remembered with its method.
pub(crate) const JSONRPC_NAME_KEPT: usize = 256;

/// Bytes of output that keep the subscriptions of a JSON-RPC connection waiting: many notifications, and a
/// reply behind them does not wait long.
pub(crate) const JSONRPC_SUBSCRIPTION_ROOM: usize = 64 * 1024;

/// Bytes that were sent in front of ones that were not, above which these are moved to the front, once they are no
/// more than those: so each byte is moved about once, however long a text is.
pub(crate) const JSONRPC_SENT_KEPT: usize = 64 * 1024;

/// Calls in flight on a client's connection to a JSON-RPC server, which grants none: a Ringway server runs a
/// thousand or so at once, and others are not told to expect more.
pub(crate) const JSONRPC_CALLS_MAX: usize = 1_024;

/// Bytes that wait to be sent on a client's connection, above which it takes no more calls: those that nobody waits
/// for any more, and notifications, are bounded by nothing else while the server does not read.
pub(crate) const JSONRPC_UNSENT_MAX: usize = 1024 * 1024;

/// Messages of the longest batch that a client reads: as many as it sends, and a server may send.
pub(crate) const JSONRPC_BATCH_MAX: usize = 1_000;

/// Subscriptions that were given up before their server has told their ids: half the calls of a connection, which takes
/// no more calls then.
pub(crate) const JSONRPC_GIVEN_UP_MAX: usize = JSONRPC_CALLS_MAX / 2;

/// Messages of a subscription that wait for their reader, who has fallen behind then: the protocol cannot make
/// a server wait for one reader without the others of the connection.
pub(crate) const JSONRPC_UNREAD_MESSAGES_MAX: usize = 16 * 1024;

/// Bytes of them, in addition to the longest message: more than a connection receives in one turn, before its readers
/// run.
pub(crate) const JSONRPC_UNREAD_BYTES_MAX: usize = 8 * 1024 * 1024;

/// Bytes of a text beside the longest message in it: an id, and the names of its members and of a method.
pub(crate) const JSONRPC_ENVELOPE_BYTES: usize = JSONRPC_ID_BYTES_MAX + 1024;

/// Bytes that a client of JSON-RPC has to send on a WebSocket, above which it answers no ping: its server does not
/// read, and one answer is enough when it does.
pub(crate) const JSONRPC_PONG_ROOM: usize = 64 * 1024;

/// Bytes of the head of an HTTP answer that a client of JSON-RPC reads, as many as most servers send at most.
pub(crate) const JSONRPC_HTTP_HEAD_BYTES: usize = 16 * 1024;

/// Header fields of it; ordinary servers send a dozen.
pub(crate) const JSONRPC_HTTP_FIELDS: usize = 64;

/// How long a client of JSON-RPC by POST sends nothing behind the first answer on a connection that does not say
/// whether it stays: the end of one that does not comes with the answer, or right behind it.
pub(crate) const JSONRPC_POST_HOLD: Duration = Duration::from_millis(5);
