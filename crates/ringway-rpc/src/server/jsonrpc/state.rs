//! What a connection that speaks JSON-RPC has and knows.

use std::cell::Cell;
use std::collections::VecDeque;
use std::rc::Rc;
use std::time::Duration;

use bytes::Bytes;
use ringway_http::BodyAccount;
use ringway_wire::jsonrpc::Lines;
use ringway_wire::native::{StreamId, Unserved};

use super::batches::Batches;
use super::calls::JsonCalls;
use super::deadlines::{JsonDrain, Stall};
use super::methods::JsonMethods;
use super::output::Output;
use super::read_request::ReadRequest;
use super::told::Told;
use super::violation::JsonViolation;

/// The bounds of a connection.
#[derive(Clone, Copy, Debug)]
pub(crate) struct JsonConfig {
    /// Bytes of the longest text.
    pub(crate) text_max: usize,
    /// Calls that run at once; as many again wait.
    pub(crate) calls_max: usize,
    /// Messages of the longest batch.
    pub(crate) batch_max: usize,
    /// How long a line may take to go on, and replies to be taken.
    pub(crate) stall_timeout: Duration,
}

/// Texts in, calls out; replies in, texts out.
#[derive(Debug)]
pub(crate) struct JsonMachine {
    pub(super) methods: Rc<JsonMethods>,
    pub(super) config: JsonConfig,
    /// The last time that is known.
    pub(super) now: Duration,
    pub(super) lines: Lines,
    /// What whoever carries the texts keeps of one that is not whole.
    pub(super) carried: BodyAccount,
    /// Since when nothing of a line came whose end is missing, or too little.
    pub(super) part_at: Option<Duration>,
    /// Since when the client is not read, if it is not: its silence means nothing then.
    pub(super) unread_since: Option<Duration>,
    /// Whether texts may be sent that answer none.
    pub(super) has_subscriptions: bool,
    pub(super) calls: JsonCalls,
    pub(super) batches: Batches,
    pub(super) output: Output,
    /// Requests that were read and not reported.
    pub(super) begun: VecDeque<ReadRequest>,
    pub(super) begun_len: usize,
    /// What happened to calls besides.
    pub(super) told: VecDeque<Told>,
    /// Subscriptions that are not answered.
    pub(super) asked: Vec<StreamId>,
    /// Subscriptions that there ever were.
    pub(super) subscriptions: u64,
    /// A subscription waits for room in the output.
    pub(super) is_awaited: Cell<bool>,
    /// The method that was called last: most clients call few.
    pub(super) latest: (String, Option<u32>),
    pub(super) drain: Option<JsonDrain>,
    pub(super) stall: Stall,
    pub(super) failed: Option<JsonViolation>,
    pub(super) unserved: Unserved,
    /// Memory that nobody needs.
    pub(super) discarded: Vec<Bytes>,
}

impl JsonMachine {
    /// For a stream of bytes with a text on each line.
    pub(crate) fn of_lines(methods: Rc<JsonMethods>, config: JsonConfig, now: Duration) -> Self {
        Self {
            methods,
            lines: Lines::new(config.text_max),
            carried: BodyAccount::default(),
            config,
            now,
            part_at: None,
            unread_since: None,
            has_subscriptions: true,
            calls: JsonCalls::default(),
            batches: Batches::default(),
            output: Output::default(),
            begun: VecDeque::new(),
            begun_len: 0,
            told: VecDeque::new(),
            asked: Vec::new(),
            subscriptions: 0,
            is_awaited: Cell::new(false),
            latest: (String::new(), None),
            drain: None,
            stall: Stall::default(),
            failed: None,
            unserved: Unserved::default(),
            discarded: Vec::new(),
        }
    }

    /// The same for texts that are taken in and out one by one.
    pub(crate) fn of_texts(self, has_subscriptions: bool) -> Self {
        Self { output: Output::of_texts(), has_subscriptions, ..self }
    }

    /// Whether nothing is under way.
    pub(super) fn is_idle(&self) -> bool {
        self.calls.len() == 0 && self.begun.is_empty() && self.output.len() == 0
    }

    /// Whether nothing is to be done before the next text.
    #[inline]
    pub(super) fn is_quiet(&self) -> bool {
        self.told.is_empty()
            && self.begun.is_empty()
            && self.failed.is_none()
            && self.drain.is_none()
            && self.may_run()
    }

    /// Whether something is to be reported.
    #[inline]
    pub(super) fn has_events_now(&self) -> bool {
        let begins = !self.begun.is_empty() && self.may_run();
        begins || !self.told.is_empty() || self.failed.is_some()
    }

    /// Whether one more call may run.
    #[inline]
    pub(super) fn may_run(&self) -> bool {
        self.calls.len() < self.config.calls_max
    }
}
