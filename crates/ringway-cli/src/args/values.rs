//! Parses the small values of flags.

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use super::choices::Transport;
use crate::limits;

/// The error of a flag's value, with a valid example.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ValueError(String);

impl ValueError {
    /// Makes an error with `message`, which says what is wrong and what to write instead.
    pub(super) fn new(message: impl Into<String>) -> Self {
        Self(message.into())
    }
}

impl fmt::Display for ValueError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for ValueError {}

/// The transport of an address's scheme, with its protocol if that is gRPC or JSON-RPC.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Scheme {
    Tcp,
    Unix,
    Udp,
    Tls,
    Grpc,
    Grpcs,
    GrpcUnix,
    JsonTcp,
    JsonTls,
    JsonUnix,
    Http,
    Https,
    Ws,
    Wss,
    /// A source of servers: a registry, DNS or a file.
    Source,
}

impl Scheme {
    const ALL: [(&'static str, Self); 18] = [
        ("tcp", Self::Tcp),
        ("unix", Self::Unix),
        ("udp", Self::Udp),
        ("tls", Self::Tls),
        ("grpc", Self::Grpc),
        ("grpcs", Self::Grpcs),
        ("grpc+unix", Self::GrpcUnix),
        ("jsonrpc+tcp", Self::JsonTcp),
        ("jsonrpc+tls", Self::JsonTls),
        ("jsonrpc+unix", Self::JsonUnix),
        ("http", Self::Http),
        ("https", Self::Https),
        ("ws", Self::Ws),
        ("wss", Self::Wss),
        ("etcd", Self::Source),
        ("etcds", Self::Source),
        ("dns", Self::Source),
        ("file", Self::Source),
    ];

    /// Whether its addresses are URLs, which the client reads.
    fn is_url(self) -> bool {
        matches!(self, Self::Http | Self::Https | Self::Ws | Self::Wss)
    }

    pub(crate) fn is_json_rpc(self) -> bool {
        self.is_url() || matches!(self, Self::JsonTcp | Self::JsonTls | Self::JsonUnix)
    }
}

/// An address such as `tcp://127.0.0.1:7001` or `unix:///run/echo.sock`, checked for its form.
///
/// Names are resolved later, by binding or connecting.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Uri {
    text: String,
    scheme: Scheme,
}

impl Uri {
    /// Returns the whole address as written.
    pub(crate) fn as_str(&self) -> &str {
        &self.text
    }

    /// Returns the transport of the address.
    pub(crate) fn scheme(&self) -> Scheme {
        self.scheme
    }

    /// Returns the gRPC address of the server at a `tcp://` address, and others unchanged.
    pub(crate) fn over_grpc(&self) -> Self {
        match self.text.strip_prefix("tcp://") {
            Some(rest) => Self { text: format!("grpc://{rest}"), scheme: Scheme::Grpc },
            None => self.clone(),
        }
    }

    /// Returns the address for JSON-RPC over `transport` of the server at a `tcp://` or `unix://` address, and others
    /// unchanged.
    pub(crate) fn over_json_rpc(&self, transport: Transport) -> Self {
        let rest = self.text.strip_prefix("tcp://");
        let (text, scheme) = match (transport, self.scheme) {
            (Transport::Http, Scheme::Tcp) => {
                (rest.map(|rest| format!("http://{rest}")), Scheme::Http)
            }
            (Transport::Ws, Scheme::Tcp) => (rest.map(|rest| format!("ws://{rest}")), Scheme::Ws),
            (_, Scheme::Tcp) => (Some(format!("jsonrpc+{}", self.text)), Scheme::JsonTcp),
            (_, Scheme::Unix) => (Some(format!("jsonrpc+{}", self.text)), Scheme::JsonUnix),
            _ => return self.clone(),
        };
        text.map_or_else(|| self.clone(), |text| Self { text, scheme })
    }
}

impl fmt::Display for Uri {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl FromStr for Uri {
    type Err = ValueError;

    fn from_str(text: &str) -> Result<Self, ValueError> {
        let (name, rest) = text.split_once("://").ok_or_else(|| {
            ValueError::new("no scheme; write tcp://, unix://, udp://, tls:// or grpc:// in front")
        })?;
        let scheme = Scheme::ALL
            .into_iter()
            .find_map(|(known, scheme)| (known == name).then_some(scheme))
            .ok_or_else(|| {
                ValueError::new(format!(
                    "no scheme {name}; use tcp, unix, udp, tls, grpc, grpcs, grpc+unix, http, https, ws, wss, etcd, dns, file or jsonrpc+tcp, +tls or +unix"
                ))
            })?;
        match scheme {
            Scheme::Unix | Scheme::GrpcUnix | Scheme::JsonUnix if rest.is_empty() => {
                Err(ValueError::new("no path; write e.g. unix:///tmp/echo.sock"))
            }
            Scheme::Unix | Scheme::GrpcUnix | Scheme::JsonUnix => Ok(()),
            // The client parses URLs and addresses of sources.
            Scheme::Source => Ok(()),
            _ if scheme.is_url() => Ok(()),
            _ => check_host_and_port(rest),
        }?;
        Ok(Self { text: text.to_owned(), scheme })
    }
}

fn check_host_and_port(text: &str) -> Result<(), ValueError> {
    let (host, port) = text
        .rsplit_once(':')
        .ok_or_else(|| ValueError::new("no port; write host:port, with port 0 for any free one"))?;
    if host.is_empty() {
        return Err(ValueError::new("no host; write 0.0.0.0 or [::] for all interfaces"));
    }
    if host.contains(':') && !(host.starts_with('[') && host.ends_with(']')) {
        return Err(ValueError::new("an IPv6 address needs brackets, as in tcp://[::1]:7001"));
    }
    port.parse::<u16>()
        .map(|_| ())
        .map_err(|_| ValueError::new(format!("port {port:?} is not a number from 0 to 65535")))
}

/// A set of core numbers, in ascending order and never empty: `0`, `0-1`, `0,2-3`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Cores(Vec<usize>);

impl Cores {
    /// Returns the set of these cores; `None` if there are none.
    pub(crate) fn new(mut cores: Vec<usize>) -> Option<Self> {
        cores.sort_unstable();
        cores.dedup();
        (!cores.is_empty()).then_some(Self(cores))
    }

    /// Returns the core numbers in ascending order.
    pub(crate) fn as_slice(&self) -> &[usize] {
        &self.0
    }

    /// Returns the first `count` cores, or all if there are fewer.
    pub(crate) fn take(&self, count: usize) -> Self {
        Self(self.0[..count.clamp(1, self.0.len())].to_vec())
    }

    /// Returns these cores if the process may use all of them; `allowed` are those that it may use.
    ///
    /// # Errors
    /// A core is not allowed. The error names `flag`, that core, and the allowed ones.
    pub(super) fn within(self, allowed: &Self, flag: &str) -> Result<Self, ValueError> {
        match self.0.iter().find(|core| !allowed.0.contains(core)) {
            None => Ok(self),
            Some(core) => Err(ValueError::new(format!(
                "{flag} names core {core}, but this process may use only {allowed}; choose among those"
            ))),
        }
    }
}

impl fmt::Display for Cores {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let texts: Vec<String> = self.0.iter().map(usize::to_string).collect();
        f.write_str(&texts.join(","))
    }
}

impl FromStr for Cores {
    type Err = ValueError;

    fn from_str(text: &str) -> Result<Self, ValueError> {
        let mut cores = Vec::new();
        for part in text.split(',') {
            let (first, last) = part.split_once('-').unwrap_or((part, part));
            let (first, last) = (core_number(first)?, core_number(last)?);
            if first > last {
                return Err(ValueError::new(format!(
                    "the range {part} runs backwards; write {last}-{first}"
                )));
            }
            cores.extend(first..=last);
        }
        Ok(Self::new(cores).expect("split yields at least one part, and a part at least one core"))
    }
}

/// # Errors
/// It is not a number, or too high for a core.
pub(super) fn core_number(text: &str) -> Result<usize, ValueError> {
    match text.trim().parse() {
        Ok(core) if core < limits::CORES_MAX => Ok(core),
        Ok(core) => Err(ValueError::new(format!(
            "core {core} is past the last possible one, {}",
            limits::CORES_MAX - 1
        ))),
        Err(_) => Err(ValueError::new(format!(
            "{text:?} is not a core number; write e.g. 0 or 0-1 or 0,2-3"
        ))),
    }
}

/// Parses a time with its unit, as in `50us`, `1.5ms`, `2s`; a bare `0` is zero.
///
/// # Errors
/// It is not a number, negative, without a unit, or more than [`limits::SPIN_MAX`].
pub(crate) fn parse_spin(text: &str) -> Result<Duration, ValueError> {
    let spin = span(text).ok_or_else(|| {
        ValueError::new("write a number with ns, us, ms or s, e.g. 50us, or 0 to sleep at once")
    })?;
    if spin > limits::SPIN_MAX {
        return Err(ValueError::new(format!(
            "longer than {:?}, the most a core may spin",
            limits::SPIN_MAX
        )));
    }
    Ok(spin)
}

/// Parses a time with its unit, as in `500ms` or `2s`.
///
/// # Errors
/// It is not a number, without a unit, zero, or more than [`limits::MEASURED_MAX`].
pub(crate) fn parse_timeout(text: &str) -> Result<Duration, ValueError> {
    let within = |span: &Duration| !span.is_zero() && *span <= limits::MEASURED_MAX;
    span(text)
        .filter(within)
        .ok_or_else(|| ValueError::new("write a number with ms or s, up to an hour, e.g. 500ms"))
}

/// Parses how often something is printed, as in `1s`.
///
/// # Errors
/// It is not a number, without a unit, less than [`limits::PRINTED_EVERY_MIN`], or more than [`limits::MEASURED_MAX`].
pub(crate) fn parse_period(text: &str) -> Result<Duration, ValueError> {
    let within =
        |span: &Duration| (limits::PRINTED_EVERY_MIN..=limits::MEASURED_MAX).contains(span);
    span(text).filter(within).ok_or_else(|| {
        ValueError::new("write a number with ms or s, from 10ms to an hour, e.g. 1s")
    })
}

/// Parses a time with its unit, as in `200ms`.
///
/// # Errors
/// It is not a number, without a unit, or more than [`limits::PAUSE_MAX`].
pub(crate) fn parse_pause(text: &str) -> Result<Duration, ValueError> {
    let within = |span: &Duration| *span <= limits::PAUSE_MAX;
    span(text)
        .filter(within)
        .ok_or_else(|| ValueError::new("write a number with ms or s, up to 2s, e.g. 200ms"))
}

fn span(text: &str) -> Option<Duration> {
    let split = text.find(|c: char| c.is_ascii_alphabetic()).unwrap_or(text.len());
    let (number, unit) = text.split_at(split);
    let number: f64 = number.trim().parse().ok()?;
    let unit_seconds = match unit {
        "ns" => 1e-9,
        "us" => 1e-6,
        "ms" => 1e-3,
        "s" => 1.0,
        "" if number == 0.0 => 1.0,
        _ => return None,
    };
    Duration::try_from_secs_f64(number * unit_seconds).ok()
}

/// Parses `key=value`, or `key: value` as in curl and grpcurl, without the spaces around the value.
///
/// # Errors
/// There is neither `=` nor `:`, or nothing before it.
pub(crate) fn parse_entry(text: &str) -> Result<(String, String), ValueError> {
    // A key has neither, so the first one ends it.
    match text.find(['=', ':']).map(|end| text.split_at(end)) {
        Some((key, value)) if !key.is_empty() => {
            let value = value.strip_prefix(':').map(str::trim).unwrap_or(&value[1..]);
            Ok((key.to_owned(), value.to_owned()))
        }
        _ => Err(ValueError::new("write key=value or 'key: value', e.g. authorization=secret")),
    }
}

/// Parses a positive number of seconds, as in `5` or `0.5`.
///
/// # Errors
/// It is not a number, not above zero, or more than [`limits::MEASURED_MAX`].
pub(crate) fn parse_seconds(text: &str) -> Result<Duration, ValueError> {
    let seconds = parse_seconds_or_zero(text)?;
    if seconds.is_zero() { Err(ValueError::new("must be above zero")) } else { Ok(seconds) }
}

/// Parses a rate in operations per second, e.g. `5000`, `20k` or `1.5M`.
///
/// # Errors
/// It is not a number, below 1, or more than [`limits::RATE_MAX`].
pub(crate) fn parse_rate(text: &str) -> Result<u64, ValueError> {
    let (number, unit) = match text.as_bytes().last() {
        Some(b'k' | b'K') => (&text[..text.len() - 1], 1e3),
        Some(b'm' | b'M') => (&text[..text.len() - 1], 1e6),
        _ => (text, 1.0),
    };
    let rate = number.parse::<f64>().ok().map(|number| (number * unit).round());
    let within = rate.filter(|rate| (1.0..=limits::RATE_MAX as f64).contains(rate));
    within.map(|rate| rate as u64).ok_or_else(|| {
        ValueError::new(format!(
            "write a rate from 1 to {} as a number, e.g. 5000, 20k or 1.5M",
            limits::RATE_MAX
        ))
    })
}

/// Parses seconds like [`parse_seconds`], with zero allowed.
///
/// # Errors
/// It is not a number, negative, or more than [`limits::MEASURED_MAX`].
pub(crate) fn parse_seconds_or_zero(text: &str) -> Result<Duration, ValueError> {
    let number = text.strip_suffix('s').unwrap_or(text);
    let seconds: f64 =
        number.parse().map_err(|_| ValueError::new("write seconds as a number, e.g. 5 or 0.5"))?;
    let seconds = Duration::try_from_secs_f64(seconds)
        .map_err(|_| ValueError::new("must not be negative"))?;
    if seconds > limits::MEASURED_MAX {
        return Err(ValueError::new(format!(
            "must be at most {} s",
            limits::MEASURED_MAX.as_secs()
        )));
    }
    Ok(seconds)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn statistics_are_not_printed_all_the_time() {
        assert_eq!(parse_period("10ms").ok(), Some(limits::PRINTED_EVERY_MIN));
        for refused in ["1ns", "9.9ms", "0", "2000000s"] {
            let message = parse_period(refused).expect_err(refused).to_string();
            assert!(message.contains("from 10ms to an hour"), "{message}");
        }
    }

    #[test]
    fn addresses() {
        let unix = ["unix:///tmp/x", "grpc+unix:///tmp/x", "jsonrpc+unix:///tmp/x"];
        let hosts = ["tcp://127.0.0.1:0", "tls://[::1]:443", "udp://localhost:53"];
        for good in hosts.into_iter().chain(unix) {
            assert_eq!(good.parse::<Uri>().expect(good).as_str(), good);
        }
        let refused = [
            ("127.0.0.1:7001", "no scheme;"),
            ("ftp://a:1", "no scheme ftp;"),
            ("tcp://127.0.0.1", "no port;"),
            ("tcp://:7001", "no host;"),
            ("tcp://::1:7001", "brackets"),
            ("tcp://a:70000", "\"70000\""),
            ("unix://", "no path;"),
            ("grpc+unix://", "no path;"),
        ];
        for (text, part) in refused {
            let message = text.parse::<Uri>().expect_err(text).to_string();
            assert!(message.contains(part), "{text}: {message}");
        }
    }

    #[test]
    fn core_sets() {
        let check = |text: &str, cores: &[usize]| {
            assert_eq!(text.parse::<Cores>().expect(text).as_slice(), cores);
        };
        check("0", &[0]);
        check("0-1", &[0, 1]);
        check("2-3,0,2", &[0, 2, 3]);
        for text in ["", "x", "1-0", "0,", "-1", "1024", "0-99999999999999999999"] {
            text.parse::<Cores>().expect_err(text);
        }
        assert_eq!("0-3".parse::<Cores>().expect("a range").take(2).to_string(), "0,1");
    }

    #[test]
    fn entries_of_metadata() {
        for (text, key, value) in [
            ("x=1", "x", "1"),
            ("x=a: b=c ", "x", "a: b=c "),
            ("authorization: Bearer a=b:c", "authorization", "Bearer a=b:c"),
            ("x:", "x", ""),
            ("x= ", "x", " "),
        ] {
            assert_eq!(parse_entry(text), Ok((key.to_owned(), value.to_owned())), "{text}");
        }
        for text in ["", "x", "=1", ": 1"] {
            parse_entry(text).expect_err(text);
        }
    }

    #[test]
    fn spans() {
        assert_eq!(parse_spin("50us"), Ok(Duration::from_micros(50)));
        assert_eq!(parse_spin("1.5ms"), Ok(Duration::from_micros(1500)));
        assert_eq!(parse_spin("0"), Ok(Duration::ZERO));
        for text in ["50", "us", "-1us", "50 parsecs", "2s", "NaNus", ""] {
            parse_spin(text).expect_err(text);
        }
        assert_eq!(["5000", "20k", "1.5M"].map(parse_rate), [Ok(5_000), Ok(20_000), Ok(1_500_000)]);
        for text in ["0", "-1", "k", "NaN", "inf", "1e9k", ""] {
            parse_rate(text).expect_err(text);
        }
        assert_eq!(parse_seconds("0.25"), Ok(Duration::from_millis(250)));
        assert_eq!(parse_seconds("2s"), Ok(Duration::from_secs(2)));
        assert_eq!(parse_seconds_or_zero("0"), Ok(Duration::ZERO));
        for text in ["0", "2ms", "-1", "NaN", "inf", "1e9", "soon"] {
            parse_seconds(text).expect_err(text);
        }
    }
}
