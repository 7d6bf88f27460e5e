//! The native protocol, RWY/1: a multiplexed binary RPC protocol over any reliable byte stream.
//!
//! `docs/protocol.md` is its specification; comments name the sections that they follow. All
//! integers on the wire are little-endian, all sizes are in bytes.

mod auto_tune;
mod checksum;
mod client;
mod client_input;
mod client_open;
mod config;
mod control;
mod draining;
mod flags;
mod frame;
mod frame_decoder;
mod frame_kind;
pub(crate) mod fuzz_codec;
pub(crate) mod fuzz_machines;
pub(crate) mod fuzz_pair;
mod go_away;
mod go_away_code;
mod header;
mod keepalive;
mod load_report;
mod messages;
mod meta_reader;
mod meta_writer;
mod names;
mod native_connection;
mod outbox;
mod piece;
mod preface;
mod ranks;
mod receive_side;
mod request_head;
mod send_side;
mod sending;
mod server;
mod server_answer;
mod server_end;
mod server_event;
mod server_input;
mod server_resets;
mod server_waits;
mod settings;
mod slots;
mod spare;
mod stream_id;
mod streams;
mod tag;
mod too_large;
mod transmit;
mod unserved;
mod varint;
mod violation;
mod window;

pub use checksum::{CHECKSUM_LEN, checksum};
pub use client::{Client, ClientEvent};
pub use client_open::{Open, OpenError};
pub use config::Config;
pub use flags::Flags;
pub use frame_kind::FrameKind;
pub use go_away::GoAway;
pub use go_away_code::GoAwayCode;
pub use header::{HEADER_LEN, Header};
pub use load_report::LoadReport;
pub use messages::{Body, Gone, Reply};
pub use meta_reader::MetaReader;
pub use meta_writer::MetaWriter;
pub use outbox::Outgoing;
pub use piece::Piece;
pub use preface::{MAGIC, PREFACE, PREFACE_LEN, VERSION_MAJOR, VERSION_MINOR, check_preface};
pub use request_head::{REQUEST_HEAD_LEN, RequestHead};
pub use server::Server;
pub use server_event::{PlainRequest, ServerEvent};
pub use settings::Settings;
pub use stream_id::StreamId;
pub use streams::Side;
pub use tag::Tag;
pub use unserved::Unserved;
pub use violation::Violation;
pub(crate) use window::Window;

pub use crate::limits::UNSENT_MARK;

use go_away::GO_AWAY_FIXED_LEN;
