//! The native protocol, RWY/1: a multiplexed binary RPC protocol over any reliable byte stream.
//!
//! `docs/protocol.md` is its specification; the files here name the sections that they follow.
//! All integers on the wire are little-endian, all sizes are bytes.

mod checksum;
mod flags;
mod go_away;
mod header;
mod load_report;
mod meta_reader;
mod meta_writer;
mod piece;
mod preface;
mod request_head;
mod settings;
mod stream_id;
mod tag;
mod varint;
mod violation;

pub use checksum::{CHECKSUM_LEN, checksum};
pub use flags::Flags;
pub use go_away::{GoAway, GoAwayCode};
pub use header::{FrameKind, HEADER_LEN, Header};
pub use load_report::LoadReport;
pub use meta_reader::MetaReader;
pub use meta_writer::MetaWriter;
pub use piece::Piece;
pub use preface::{MAGIC, PREFACE, PREFACE_LEN, VERSION_MAJOR, VERSION_MINOR, check_preface};
pub use request_head::{REQUEST_HEAD_LEN, RequestHead};
pub use settings::Settings;
pub use stream_id::StreamId;
pub use tag::Tag;
pub use violation::Violation;

use go_away::GO_AWAY_FIXED_LEN;
