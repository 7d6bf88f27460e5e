//! Transactions, by MongoDB's specification "Transactions": what a session knows of the one that it has.

mod client_session;
mod end;
mod options;

use bson::{RawDocument, RawDocumentBuf};

pub use self::client_session::ClientSession;
pub use self::end::EndTransaction;
pub(crate) use self::end::abort;
pub use self::options::TransactionOptions;
use crate::connection_pin::ConnectionPin;
use crate::core_number::CoreNumber;
use crate::error::{Error, Fate, Kind, Result};
use crate::uri::HostAddress;

/// The transaction of a session, or its lack.
#[derive(Default)]
pub(crate) struct Transaction {
    phase: Phase,
    /// `txnNumber`; 0 until its first command.
    number: i64,
    /// Transactions of the session before it of which nothing was sent: they have numbers as well.
    skipped: i64,
    /// `None` for those of the server.
    options: Option<Box<TransactionOptions>>,
    /// What it stays with, in a sharded cluster.
    pinned: Option<Pinned>,
    /// What another router needs to end it.
    recovery_token: Option<RawDocumentBuf>,
    /// The core that has sent its first command.
    home: Option<CoreNumber>,
}

/// What a transaction stays with.
pub(crate) enum Pinned {
    Router(HostAddress),
    /// Behind a load balancer.
    Connection(ConnectionPin),
}

/// ```text
///   None ──► Starting ──► UnderWay ──► Ending ──► Committed | Aborted
///     ▲                                               │
///     └────────── the next operation ─────────────────┘
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
enum Phase {
    #[default]
    None,
    /// Nothing was sent.
    Starting,
    UnderWay,
    /// The server is being told, or may have been.
    Ending {
        is_commit: bool,
    },
    /// The server was told, unless nothing was done in it.
    Committed {
        was_told: bool,
    },
    Aborted,
}

/// What a command of a transaction has in addition.
pub(crate) struct TransactionFields {
    pub(crate) number: i64,
    pub(crate) is_first: bool,
    /// Of the first command.
    pub(crate) read_concern: Option<RawDocumentBuf>,
}

impl Transaction {
    /// Whether commands belong to it.
    pub(crate) fn is_open(&self) -> bool {
        matches!(self.phase, Phase::Starting | Phase::UnderWay | Phase::Ending { .. })
    }

    /// Whether its end is what is sent.
    pub(crate) fn is_ending(&self) -> bool {
        matches!(self.phase, Phase::Ending { .. })
    }

    /// Whether the server may have something to undo.
    pub(crate) fn is_under_way(&self) -> bool {
        matches!(self.phase, Phase::UnderWay | Phase::Ending { .. })
    }

    /// Whether the server keeps what it has locked until it is told, and a commit cannot have been done.
    pub(crate) fn needs_abort(&self) -> bool {
        matches!(self.phase, Phase::UnderWay | Phase::Ending { is_commit: false })
    }

    /// The core that has sent its first command.
    pub(crate) fn home(&self) -> Option<CoreNumber> {
        self.home
    }

    fn start(&mut self, options: TransactionOptions) -> Result {
        if self.is_open() {
            return Err(wrong(
                "transaction already in progress in this session: commit or abort it",
            ));
        }
        let skipped = self.unsent();
        let options = Some(Box::new(options));
        *self = Self { phase: Phase::Starting, options, skipped, ..Self::default() };
        Ok(())
    }

    /// An operation of the session that is no commit: one that has ended is forgotten.
    pub(crate) fn note_operation(&mut self) {
        if matches!(self.phase, Phase::Committed { .. } | Phase::Aborted) {
            *self = Self { skipped: self.unsent(), ..Self::default() };
        }
    }

    /// Transactions up to this one whose numbers the session has not counted.
    fn unsent(&self) -> i64 {
        self.skipped + i64::from(self.phase != Phase::None && self.number == 0)
    }

    /// Where the next command has to go to, if it is settled.
    pub(crate) fn pinned(&self) -> Option<&Pinned> {
        self.pinned.as_ref().filter(|_| self.is_open())
    }

    /// Whether it stays with one, or its commit would.
    fn is_pinned(&self) -> bool {
        self.pinned.is_some()
    }

    fn router(&self) -> Option<&HostAddress> {
        match &self.pinned {
            Some(Pinned::Router(router)) => Some(router),
            _ => None,
        }
    }

    /// Stays with a router or a connection, if it does not yet.
    pub(crate) fn pin(&mut self, pinned: impl FnOnce() -> Option<Pinned>) {
        if self.pinned.is_none() {
            self.pinned = pinned();
        }
    }

    fn unpin(&mut self) {
        self.pinned = None;
    }

    /// What the next command has to say. `next_number` is the session's.
    pub(crate) fn fields(
        &mut self,
        mut next_number: impl FnMut() -> i64,
    ) -> Option<TransactionFields> {
        if !self.is_open() {
            return None;
        }
        if self.number == 0 {
            for _ in 0..std::mem::take(&mut self.skipped) {
                next_number();
            }
            self.number = next_number();
        }
        let is_first = self.phase == Phase::Starting;
        let options = self.options.as_ref().filter(|_| is_first);
        let read_concern = options.and_then(|options| options.read_concern.clone());
        Some(TransactionFields { number: self.number, is_first, read_concern })
    }

    /// Notes that a command was sent from a core.
    pub(crate) fn sent(&mut self, home: Option<CoreNumber>) {
        if self.phase == Phase::Starting {
            (self.phase, self.home) = (Phase::UnderWay, home);
        }
    }

    /// Takes what a router says for the end of the transaction.
    pub(crate) fn take_reply(&mut self, reply: &RawDocument) {
        if let Ok(token) = reply.get_document("recoveryToken") {
            self.recovery_token = Some(token.to_owned());
        }
    }

    /// Takes the failure of one of its commands: one of the network, also while a connection was made, may pass. "Drivers
    /// MUST unpin a ClientSession when a command within a transaction [...] fails with a TransientTransactionError."
    pub(crate) fn failed(&mut self, error: &mut Error) {
        let is_of_network = error.is_network() || error.is_unsent() && error.is_timeout();
        if is_of_network && !self.is_ending() {
            error.mark_transient();
        }
        if error.is_transient_transaction() {
            self.unpin();
        }
    }
}

fn wrong(what: &str) -> Error {
    Error::new(Kind::Options, Fate::NotSent, what)
}
