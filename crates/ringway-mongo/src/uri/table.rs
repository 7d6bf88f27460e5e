//! Every option that is known, and what sets it.

use super::draft::Draft;
use super::values::{
    self, Outcome, Problem, boolean, count, level, millis, staleness, tags, text, word,
};
use super::{
    Acknowledgment, AuthMechanism, Compressor, InvalidUri, MonitoringMode, ReadConcern, ReadMode,
};

type Set = fn(&mut Draft, &str) -> Outcome<()>;

/// Bytes of a program's name that servers accept.
const APP_NAME_MAX: usize = 128;

/// The least time between two checks of a server, in milliseconds.
const HEARTBEAT_MS_MIN: u32 = 500;

/// Sets an option, whose name is in lower case.
pub(super) fn set(draft: &mut Draft, name: &str, value: &str) -> Outcome<()> {
    match OPTIONS.iter().find(|(known, _)| *known == name) {
        Some((_, set)) => set(draft, value),
        None => Err(Problem::Ignored("is not known".to_owned())),
    }
}

/// Whether an option may be there several times.
pub(super) fn may_repeat(name: &str) -> bool {
    name == "readpreferencetags"
}

macro_rules! options {
    ($($name:literal => |$draft:ident, $value:ident| $set:expr;)*) => {
        const OPTIONS: &[(&str, Set)] = &[$(($name, |$draft, $value| { $set; Ok(()) })),*];
    };
}

options! {
    "appname" => |draft, value| draft.options.app_name = Some(app_name(value)?);
    "authmechanism" => |draft, value| draft.auth.mechanism = Some(AuthMechanism::parse(value)?);
    "authmechanismproperties" => |_draft, _value| no_properties()?;
    "authsource" => |draft, value| draft.auth.source = Some(auth_source(value)?);
    "compressors" => |draft, value| compressors(draft, value);
    "connecttimeoutms" => |draft, value| draft.options.connect_timeout = Some(millis(value, 0)?);
    "enableoverloadretargeting" =>
        |draft, value| draft.options.enable_overload_retargeting = Some(boolean(value)?);
    "directconnection" => |draft, value| draft.options.direct_connection = Some(boolean(value)?);
    "heartbeatfrequencyms" =>
        |draft, value| draft.options.heartbeat_frequency = Some(millis(value, HEARTBEAT_MS_MIN)?);
    "journal" => |draft, value| draft.options.write_concern.journal = Some(boolean(value)?);
    "loadbalanced" => |draft, value| draft.options.load_balanced = Some(boolean(value)?);
    "localthresholdms" => |draft, value| draft.options.local_threshold = Some(millis(value, 0)?);
    "maxadaptiveretries" =>
        |draft, value| draft.options.max_adaptive_retries = Some(count(value, 0)?);
    "maxconnecting" => |draft, value| draft.options.max_connecting = Some(count(value, 1)?);
    "maxidletimems" => |draft, value| draft.options.max_idle_time = Some(millis(value, 0)?);
    "maxpoolsize" => |draft, value| draft.options.max_pool_size = Some(count(value, 0)?);
    "maxstalenessseconds" => |draft, value| draft.read_preference().max_staleness = staleness(value)?;
    "minpoolsize" => |draft, value| draft.options.min_pool_size = Some(count(value, 0)?);
    "proxyhost" => |draft, value| draft.options.proxy.set_host(text(value)?)?;
    "proxypassword" => |draft, _value| draft.options.proxy.set_password()?;
    "proxyport" => |draft, value| draft.options.proxy.set_port(port(value)?)?;
    "proxyusername" => |draft, value| draft.options.proxy.set_username(text(value)?)?;
    "readconcernlevel" =>
        |draft, value| draft.options.read_concern = Some(ReadConcern { level: text(value)? });
    "readpreference" => |draft, value| draft.read_preference().mode = mode(value)?;
    "readpreferencetags" => |draft, value| {
        let tags = tags(value)?;
        draft.read_preference().tag_sets.push(tags);
    };
    "replicaset" => |draft, value| draft.options.replica_set = Some(text(value)?);
    "retryreads" => |draft, value| draft.options.retry_reads = Some(boolean(value)?);
    "retrywrites" => |draft, value| draft.options.retry_writes = Some(boolean(value)?);
    "servermonitoringmode" =>
        |draft, value| draft.options.server_monitoring_mode = Some(monitoring_mode(value)?);
    "serverselectiontimeoutms" =>
        |draft, value| draft.options.server_selection_timeout = Some(millis(value, 0)?);
    "serverselectiontryonce" => |_draft, value| boolean(value)?; // for clients with a single thread
    "sockettimeoutms" => |draft, value| draft.options.socket_timeout = Some(millis(value, 0)?);
    "srvmaxhosts" => |draft, value| draft.options.srv_max_hosts = Some(count(value, 0)?);
    "srvservicename" => |draft, value| draft.options.srv_service_name = Some(text(value)?);
    "ssl" => |draft, value| tls(draft, value)?;
    "timeoutms" => |draft, value| draft.options.timeout = Some(millis(value, 0)?);
    "tls" => |draft, value| tls(draft, value)?;
    "tlsallowinvalidcertificates" =>
        |draft, value| draft.options.tls.allow_invalid_certificates = Some(boolean(value)?);
    "tlsallowinvalidhostnames" =>
        |draft, value| draft.options.tls.allow_invalid_hostnames = Some(boolean(value)?);
    "tlscafile" => |draft, value| draft.options.tls.ca_file = Some(text(value)?);
    "tlscertificatekeyfile" => |draft, value| draft.options.tls.certificate_key_file = Some(text(value)?);
    "tlscertificatekeyfilepassword" =>
        |draft, value| draft.options.tls.certificate_key_file_password = Some(text(value)?);
    "tlsdisablecertificaterevocationcheck" =>
        |draft, value| draft.options.tls.disable_certificate_revocation_check = Some(boolean(value)?);
    "tlsdisableocspendpointcheck" =>
        |draft, value| draft.options.tls.disable_ocsp_endpoint_check = Some(boolean(value)?);
    "tlsinsecure" => |draft, value| draft.options.tls.insecure = Some(boolean(value)?);
    "w" => |draft, value| draft.options.write_concern.w = Some(acknowledgment(value)?);
    "wtimeoutms" => |draft, value| draft.options.write_concern.w_timeout = Some(write_timeout(value)?);
    "zlibcompressionlevel" => |draft, value| draft.options.zlib_level = Some(level(value)?);
}

fn tls(draft: &mut Draft, value: &str) -> Outcome<()> {
    let enabled = boolean(value).inspect_err(|_| draft.options.tls.is_unclear = true)?;
    Ok(draft.options.tls.enable(enabled)?)
}

fn port(value: &str) -> Outcome<u16> {
    let port = count(value, 0)?;
    port.try_into().map_err(|_| Problem::Ignored("needs a port, at most 65535".to_owned()))
}

fn app_name(value: &str) -> Outcome<String> {
    if value.len() > APP_NAME_MAX {
        let message = format!("appName has {} bytes; servers accept {APP_NAME_MAX}", value.len());
        return Err(InvalidUri::new(message).into());
    }
    text(value)
}

/// No mechanism that is supported has properties. Their values may be secret, so they are not repeated.
fn no_properties() -> Outcome<()> {
    Err(Problem::Ignored("belongs to mechanisms that are not supported".to_owned()))
}

fn auth_source(value: &str) -> Outcome<String> {
    match value {
        "" => Err(InvalidUri::new("authSource is empty; leave it out, or name a database").into()),
        value => Ok(value.to_owned()),
    }
}

/// Takes those that are known, and warns about the others.
fn compressors(draft: &mut Draft, value: &str) {
    draft.options.compressors.clear();
    for name in value.split(',') {
        match Compressor::parse(name) {
            Some(compressor) => draft.options.compressors.push(compressor),
            None => draft.warn(format!("the compressor {name:?} is not known and is ignored")),
        }
    }
}

fn mode(value: &str) -> Outcome<ReadMode> {
    let words = "primary, primaryPreferred, secondary, secondaryPreferred or nearest";
    word(value, ReadMode::parse, words)
}

fn monitoring_mode(value: &str) -> Outcome<MonitoringMode> {
    word(value, MonitoringMode::parse, "auto, stream or poll")
}

/// A number, `majority`, or the name of a rule. A negative number is refused: ignored, it would weaken what a write
/// waits for.
fn acknowledgment(value: &str) -> Outcome<Acknowledgment> {
    match value {
        "" => Err(Problem::Ignored("needs a value".to_owned())),
        "majority" => Ok(Acknowledgment::Majority),
        value if values::is_number(value) => Ok(Acknowledgment::Nodes(count(value, 0)?)),
        value if value.parse::<i64>().is_ok() => {
            Err(InvalidUri::new(format!("w is {value}; it must not be negative")).into())
        }
        name => Ok(Acknowledgment::Custom(name.to_owned())),
    }
}

/// A negative time is refused, as a negative `w` is.
fn write_timeout(value: &str) -> Outcome<std::time::Duration> {
    match value.parse::<i64>() {
        Ok(negative @ ..0) => {
            Err(InvalidUri::new(format!("wTimeoutMS is {negative}; it must not be negative"))
                .into())
        }
        _ => millis(value, 0),
    }
}
