//! What a driver is asked to do with files. An operation owns its memory and its descriptor until it has
//! ended, whether or not somebody still waits for it.

mod answer;
mod calls;
mod changes;
mod descriptor;
mod op;

pub(crate) use self::answer::FileAnswer;
pub use self::answer::{DirEntry, FileKind, Metadata};
pub(crate) use self::calls::perform;
pub use self::changes::Changes;
pub(crate) use self::changes::read_changes;
pub(crate) use self::descriptor::{FileDescriptor, check_opened};
pub(crate) use self::op::{FileEnd, FileOp, OpenRequest};
