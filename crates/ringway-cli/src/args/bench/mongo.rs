//! The mongo suite of `bench`.

use ringway_mongo::{ConnectionString, HostAddress};

use super::flags::BenchFlags;
use super::mongo_flags::BenchMongoFlags;
use super::suite::{MongoJob, MongoLoad, MongoSend};
use crate::args::choices::{MongoMode, MongoOp};
use crate::args::values::ValueError;

/// # Errors
/// Flags without a meaning for this suite, or a connection string that does not name one server.
pub(super) fn resolve(
    common: &mut BenchFlags,
    flags: BenchMongoFlags,
) -> Result<(Vec<MongoLoad>, MongoJob), ValueError> {
    let BenchMongoFlags { op, mode, sync, batch_size, fanout, delay, user, password, .. } = flags;
    let loads = loads(op, mode, sync, (batch_size, fanout))?;
    if common.peers && mode == Some(MongoMode::Pipeline) {
        return Err(ValueError::new("--peers has no pipelines: MongoDB's driver has none"));
    }
    let ours = [
        ("--fanout", fanout.is_some()),
        ("--total", flags.total.is_some()),
        ("--timeout-sec", flags.timeout_sec.is_some()),
        ("--db", flags.db.is_some()),
    ];
    if let Some((flag, _)) = ours.into_iter().find(|(_, is_given)| *is_given && common.peers) {
        return Err(ValueError::new(format!("--peers has no {flag}: its program has one way")));
    }
    let uri = flags.uri.or_else(|| uri_of(flags.host.as_deref(), flags.port));
    if uri.is_none() && user.is_some() {
        return Err(ValueError::new("--user needs a running server: add --uri or --host"));
    }
    let given = [
        ("-s", !common.size.is_empty(), "its documents have one size"),
        ("--addr", common.addr.is_some(), "give the connection string by --uri"),
        ("--transport", !common.transport.is_empty() || common.unix, "it is measured over TCP"),
    ];
    if let Some((flag, _, why)) = given.into_iter().find(|(_, is_given, _)| *is_given) {
        return Err(ValueError::new(format!("{flag} has no meaning for mongo: {why}")));
    }
    if let Some(uri) = &uri {
        common.addr = Some(format!("tcp://{}", one_host(uri)?).parse()?);
    }
    let login = user.zip(password);
    let uri = match (uri, login) {
        (Some(uri), Some(login)) => Some(with_login(&uri, &login, flags.auth_db.as_deref())?),
        (uri, _) => uri,
    };
    let (database, timeout, total) = (flags.db, flags.timeout_sec, flags.total);
    Ok((loads, MongoJob { uri, delay: delay.unwrap_or_default(), database, timeout, total }))
}

/// The connection string of a server that is given by host or port.
fn uri_of(host: Option<&str>, port: Option<u16>) -> Option<String> {
    if host.is_none() && port.is_none() {
        return None;
    }
    let host = host.unwrap_or("127.0.0.1");
    let host = if host.contains(':') { format!("[{host}]") } else { host.to_owned() };
    Some(format!("mongodb://{host}:{}", port.unwrap_or(PORT_DEFAULT)))
}

fn loads(
    ops: Vec<MongoOp>,
    mode: Option<MongoMode>,
    is_sync: bool,
    (batch_size, fanout): (Option<u32>, Option<u32>),
) -> Result<Vec<MongoLoad>, ValueError> {
    let (every, send) = match mode {
        Some(MongoMode::Pipeline) if is_sync => {
            return Err(ValueError::new("--sync has one operation after the other, no pipelines"));
        }
        Some(MongoMode::Pipeline) if fanout.is_some() => {
            return Err(ValueError::new("--fanout has operations on their own, and no pipelines"));
        }
        Some(MongoMode::Pipeline) => {
            (&PIPELINED[..], MongoSend::Pipelines(batch_size.unwrap_or(BATCH_DEFAULT)))
        }
        _ if batch_size.is_some() => {
            return Err(ValueError::new("--batch-size is that of pipelines; add --mode pipeline"));
        }
        _ if is_sync => (&EVERY_OP[..], MongoSend::Threads),
        _ => (&EVERY_OP[..], fanout.map_or(MongoSend::Tasks, MongoSend::Fans)),
    };
    if let Some(op) = ops.iter().find(|op| !every.contains(op)) {
        let op = op.as_str();
        return Err(ValueError::new(format!("pipelines have ping and find_one, and no {op}")));
    }
    let ops = if ops.is_empty() { every.to_vec() } else { ops };
    Ok(ops.into_iter().map(|op| MongoLoad { op, send }).collect())
}

/// The address of the server, which the client reaches by the connection string.
fn one_host(uri: &str) -> Result<HostAddress, ValueError> {
    let parsed =
        ConnectionString::parse(uri).map_err(|why| ValueError::new(format!("--uri: {why}")))?;
    match &parsed.hosts[..] {
        [host @ HostAddress::Tcp { .. }] => Ok(host.clone()),
        _ => Err(ValueError::new("--uri has to name one server by host and port")),
    }
}

fn with_login(
    uri: &str,
    (user, password): &(String, String),
    source: Option<&str>,
) -> Result<String, ValueError> {
    let rest = uri.strip_prefix("mongodb://").filter(|rest| !rest.contains('@'));
    let rest = rest.ok_or_else(|| ValueError::new("--uri names a user already; drop --user"))?;
    let (host, tail) = rest.split_at(rest.find(['/', '?']).unwrap_or(rest.len()));
    let (path, query) = tail.split_once('?').unwrap_or((tail, ""));
    let path = path.strip_prefix('/').unwrap_or(path);
    let source = percent(source.unwrap_or("admin"));
    let (user, password) = (percent(user), percent(password));
    Ok(format!("mongodb://{user}:{password}@{host}/{path}?authSource={source}&{query}"))
}

/// Encodes what has a meaning in a connection string.
fn percent(text: &str) -> String {
    let encode = |byte: u8| match byte {
        b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'_' | b'.' => {
            char::from(byte).to_string()
        }
        _ => format!("%{byte:02X}"),
    };
    text.bytes().map(encode).collect()
}

/// The port of MongoDB.
const PORT_DEFAULT: u16 = 27017;

/// As many as the client itself has under way by default.
const BATCH_DEFAULT: u32 = 16;

/// The operations of pipelines.
const PIPELINED: [MongoOp; 2] = [MongoOp::Ping, MongoOp::FindOne];

const EVERY_OP: [MongoOp; 8] = [
    MongoOp::Ping,
    MongoOp::FindOne,
    MongoOp::InsertOne,
    MongoOp::FindRaw,
    MongoOp::FindStruct,
    MongoOp::FindOwned,
    MongoOp::Bulk,
    MongoOp::Mixed,
];

#[cfg(test)]
mod tests {
    use super::*;
    use crate::args::{Config, Suite, Target, tests::parse_words};
    use std::time::Duration;

    #[test]
    fn a_running_server_with_a_user() {
        let words = "bench mongo --uri mongodb://a:1/shop?maxPoolSize=5 --user ada --password p@:1";
        let Ok(Config::Bench(config)) = parse_words(words) else { panic!("{words}") };
        let Target::Running(uri) = &config.target else { panic!("{:?}", config.target) };
        assert_eq!(uri.as_str(), "tcp://a:1");
        let Suite::Mongo { job, connections, loads } = &config.suites[0] else { panic!("{words}") };
        assert_eq!((&connections[..], loads.len()), (&[10, 100][..], 8));
        let parsed =
            ConnectionString::parse(job.uri.as_deref().expect("one")).expect("well formed");
        let credential = parsed.credential.expect("a user");
        assert_eq!(credential.user.as_deref(), Some("ada"));
        assert_eq!(credential.password.as_deref(), Some("p@:1"));
        assert_eq!(credential.source, "admin");
        assert_eq!(parsed.options.max_pool_size, Some(5));
        assert!(!format!("{config:?}").contains("p@"), "a password is not shown");
    }

    #[test]
    fn the_words_of_the_source_report() {
        let words = "bench mongo --total 5000 --concurrency 50 --timeout-sec 5 --mode normal --fanout 8 \
                     --buffer-size 16384 --alloc-stats --host db.internal --port 27018 --db shop --user ada \
                     --password secret --auth-db people";
        let Ok(Config::Bench(config)) = parse_words(words) else { panic!("{words}") };
        let Suite::Mongo { job, connections, loads } = &config.suites[0] else { panic!("{words}") };
        assert_eq!(connections, &[50]);
        assert!(loads.len() == 8 && loads.iter().all(|load| load.send == MongoSend::Fans(8)));
        assert_eq!((job.total, job.timeout), (Some(5000), Some(Duration::from_secs(5))));
        assert_eq!(job.database.as_deref(), Some("shop"));
        let parsed =
            ConnectionString::parse(job.uri.as_deref().expect("one")).expect("well formed");
        assert_eq!(parsed.hosts[0].to_string(), "db.internal:27018");
        assert_eq!(parsed.credential.expect("a user").source, "people");
        for alone in ["--host ::1", "--port 27018"] {
            let parsed = parse_words(&format!("bench mongo {alone}"));
            let Ok(Config::Bench(config)) = parsed else { panic!("{alone}") };
            assert!(matches!(config.target, Target::Running(_)), "{:?}", config.target);
        }
    }

    #[test]
    fn a_responder_over_a_long_line() {
        let words = "bench mongo --op ping,mixed --concurrency 50 --delay 30ms";
        let Ok(Config::Bench(config)) = parse_words(words) else { panic!("{words}") };
        let job = MongoJob { delay: Duration::from_millis(30), ..MongoJob::default() };
        let loads = [MongoOp::Ping, MongoOp::Mixed]
            .map(|op| MongoLoad { op, send: MongoSend::Tasks })
            .into();
        assert_eq!(config.suites, [Suite::Mongo { connections: vec![50], loads, job }]);
    }

    #[test]
    fn pipelines_have_a_size() {
        let loads = |words: &str| {
            let Ok(Config::Bench(config)) = parse_words(words) else { panic!("{words}") };
            let Suite::Mongo { loads, .. } = &config.suites[0] else { panic!("{words}") };
            loads.clone()
        };
        let load = |op, batch| MongoLoad { op, send: MongoSend::Pipelines(batch) };
        let both = [load(MongoOp::Ping, 16), load(MongoOp::FindOne, 16)];
        assert_eq!(loads("bench mongo --mode pipeline"), both);
        let words = "bench mongo --mode pipeline --op ping --batch-size 64";
        assert_eq!(loads(words), [load(MongoOp::Ping, 64)]);
        let blocking = MongoLoad { op: MongoOp::Ping, send: MongoSend::Threads };
        assert_eq!(loads("bench mongo --sync --op ping"), [blocking]);
    }
}
