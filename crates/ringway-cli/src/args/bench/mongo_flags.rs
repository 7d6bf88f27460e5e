//! The flags of the mongo suite of `bench`.

use std::time::Duration;

use clap::Args;

use crate::args::choices::{MongoMode, MongoOp};
use crate::args::values;
use crate::limits;

#[derive(Debug, Args)]
pub(crate) struct BenchMongoFlags {
    /// Operations, one row per value: those of one document; 1,000 documents in a batch, borrowed, as
    /// structs or owned; 100 documents written by one command; four find_one to one insert_one
    /// [default: all]
    #[arg(long, value_name = "LIST", value_enum, value_delimiter = ',')]
    pub(crate) op: Vec<MongoOp>,
    /// How a connection sends them: one after the other, or many at a time; pipelines have ping and
    /// find_one [default: normal]
    #[arg(long, value_enum)]
    pub(crate) mode: Option<MongoMode>,
    /// Each connection has a thread that blocks for each operation, as programs without tasks do
    #[arg(long)]
    pub(crate) sync: bool,
    /// Each task has so many operations under way at a time, and waits for all of them before the next
    /// ones
    #[arg(long, value_name = "N", conflicts_with = "sync")]
    #[arg(value_parser = clap::value_parser!(u32).range(1..=i64::from(limits::MONGO_BATCH_MAX)))]
    pub(crate) fanout: Option<u32>,
    /// End a run after so many operations, or after -d
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    pub(crate) total: Option<u64>,
    /// How long an operation may take, in seconds [default: 30]
    #[arg(long, value_name = "SECONDS", value_parser = values::parse_seconds)]
    pub(crate) timeout_sec: Option<Duration>,
    /// Taken for scripts of other tools: the column `allocs` always tells what an operation allocates in
    /// the client
    #[arg(long)]
    pub(crate) alloc_stats: bool,
    /// Taken for scripts of other tools: replies of any length are read in the buffers of the runtime
    #[arg(long, value_name = "N")]
    pub(crate) buffer_size: Option<u32>,
    /// Commands of a pipeline, which are all under way together [default: 16]
    #[arg(long, value_name = "N")]
    #[arg(value_parser = clap::value_parser!(u32).range(1..=i64::from(limits::MONGO_BATCH_MAX)))]
    pub(crate) batch_size: Option<u32>,
    /// The responder answers after this time, e.g. 30ms, as over a long line [default: at once]
    #[arg(long, value_name = "SPAN", value_parser = values::parse_timeout, conflicts_with = "uri")]
    pub(crate) delay: Option<Duration>,
    /// Measure a running MongoDB server by its connection string, in a database `ringway_bench` or --db
    /// [default: start a responder]
    #[arg(long, value_name = "URI")]
    pub(crate) uri: Option<String>,
    /// Measure a running server at this host, instead of by --uri [default with --port: 127.0.0.1]
    #[arg(long, value_name = "NAME", conflicts_with_all = ["uri", "delay"])]
    pub(crate) host: Option<String>,
    /// The port of --host [default: 27017]
    #[arg(long, value_name = "N", conflicts_with_all = ["uri", "delay"])]
    pub(crate) port: Option<u16>,
    /// The database for the documents, in which the collections `books` and `written` are emptied; of a
    /// running server [default: ringway_bench]
    #[arg(long, value_name = "NAME", conflicts_with = "delay")]
    pub(crate) db: Option<String>,
    /// User of the running server
    #[arg(long, value_name = "NAME", requires = "password")]
    pub(crate) user: Option<String>,
    /// Password of --user; other users of this machine can see it
    #[arg(long, value_name = "TEXT", requires = "user")]
    pub(crate) password: Option<String>,
    /// The database that knows the user [default: admin]
    #[arg(long, value_name = "NAME", requires = "user")]
    pub(crate) auth_db: Option<String>,
}
