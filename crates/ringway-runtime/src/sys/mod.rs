//! Every `unsafe` of Ringway: ring entries, lent buffers, message headers for the kernel.
//!
//! What makes a block sound is always ownership written down elsewhere in this module: a buffer is
//! free, lent to the kernel, or viewed, never two of these; a batch that is being sent is owned by
//! its send slot until the completion arrives.
#![allow(unsafe_code)]

mod area;
mod bufring;
mod descriptor;
mod files;
mod heap;
mod message;
mod pool;
mod ring;
mod sends;
mod shared;
#[cfg(test)]
pub(crate) mod tests;
mod wait;
mod waker;

pub(crate) use bufring::BufRing;
pub(crate) use descriptor::{borrow, own};
pub(crate) use files::FileTable;
pub use heap::release_free_memory;
pub(crate) use message::datagram_parts;
pub(crate) use pool::{Pool, RecvBuf};
pub(crate) use ring::Ring;
pub(crate) use sends::SendTable;
pub(crate) use shared::SharedBytes;
pub(crate) use wait::epoll_wait_ms;
pub use waker::is_own;
pub(crate) use waker::waker_of;
