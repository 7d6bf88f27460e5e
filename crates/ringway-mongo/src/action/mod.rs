//! Operations on collections: one file each, with what is sent and how the reply is read.

mod aggregate;
mod count;
mod delete;
mod distinct;
mod find;
mod find_one;
mod insert;
mod update;
mod write_reply;

use std::pin::Pin;

pub use self::aggregate::Aggregate;
pub use self::count::Count;
pub use self::delete::{Delete, DeleteResult};
pub use self::distinct::Distinct;
pub use self::find::Find;
pub use self::find_one::FindOne;
pub use self::insert::InsertMany;
pub(crate) use self::insert::insert_one;
pub use self::update::{Update, UpdateResult};
use crate::error::Result;

/// The future of an action.
type Running<T> = Pin<Box<dyn Future<Output = Result<T>>>>;
