//! One io_uring thread per core.

mod buf;
mod driver;
pub(crate) mod limits;
mod sys;

pub use buf::{Segment, View};
