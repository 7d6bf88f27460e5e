//! Operations: one file each, with what is sent and how the reply is read.

mod admin;
mod aggregate;
mod bulk;
mod bulk_run;
mod command;
mod count;
mod delete;
mod distinct;
mod find;
mod find_and_modify;
mod find_one;
mod insert;
mod ping;
mod pipeline;
mod settings;
mod update;
mod write_reply;

pub(crate) use self::admin::create_indexes;
pub use self::admin::{CreateCollection, IndexModel, ListDatabases};
pub use self::aggregate::Aggregate;
pub(crate) use self::aggregate::writes;
pub use self::bulk::{BulkWrite, WriteModel};
pub(crate) use self::command::Command;
pub use self::command::{CommandCursor, CommandReplied};
pub use self::count::{Count, EstimatedCount};
pub use self::delete::{Delete, DeleteResult};
pub use self::distinct::Distinct;
pub use self::find::Find;
pub use self::find_and_modify::{FindAndModify, ReturnDocument};
pub use self::find_one::FindOne;
pub use self::insert::{InsertMany, InsertManyResult, InsertOne};
pub(crate) use self::ping::Ping;
pub use self::pipeline::{Multiplexed, MultiplexedCommand, Pipeline};
pub(crate) use self::settings::Fields;
pub use self::update::{Update, UpdateResult};
pub(crate) use self::write_reply::check as check_write;
