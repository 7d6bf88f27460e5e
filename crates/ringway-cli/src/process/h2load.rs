//! nghttp2's h2load: an HTTP/2 client that belongs to neither side of a comparison.

use std::fs;
use std::io;
use std::path::PathBuf;
use std::time::Duration;

use super::child::PipedChild;
use super::cpu;
use super::error::ProcessError;
use super::interval::Edge;
use super::tether::tethered_to_core;
use crate::args::Uri;
use crate::limits;

/// The installed program.
#[derive(Debug, Clone)]
pub(crate) struct H2load {
    program: PathBuf,
}

/// Repeats one unary gRPC call.
#[derive(Debug, Clone, Copy)]
pub(crate) struct H2loadRun<'a> {
    /// A `tcp://` address.
    pub(crate) addr: &'a Uri,
    /// The path `/package.Service/Method`.
    pub(crate) path: &'a str,
    pub(crate) connections: u32,
    /// Calls in flight on each connection.
    pub(crate) depth: u32,
    pub(crate) size: u32,
    pub(crate) warmup: Duration,
    pub(crate) measured: Duration,
    /// The core of its thread.
    pub(crate) core: usize,
}

/// Its counts.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct H2loadResult {
    /// Calls per second.
    pub(crate) rate: f64,
    pub(crate) calls: u64,
    pub(crate) max_us: Option<f64>,
    /// Calls that ended with an HTTP error or without an HTTP status.
    pub(crate) failed: u64,
    pub(crate) timed_out: u64,
    /// Bytes of all replies' content, warm-up included.
    pub(crate) content_bytes: u64,
    /// Its CPU time in the measured interval.
    pub(crate) cpu: Option<Duration>,
}

impl H2load {
    /// Looks for the program on the PATH.
    pub(crate) fn find() -> Option<Self> {
        let paths = std::env::var_os("PATH")?;
        let places = std::env::split_paths(&paths).map(|directory| directory.join(NAME));
        places.into_iter().find(|program| program.is_file()).map(|program| Self { program })
    }

    /// Runs it to its end, and reports the measured interval.
    ///
    /// # Errors
    /// It does not start, takes [`limits::PEER_CLIENT_SLACK`] longer than it should, or prints no result; or `told`
    /// fails.
    pub(crate) fn run(
        &self,
        run: &H2loadRun<'_>,
        mut told: impl FnMut(Edge) -> Result<(), ProcessError>,
    ) -> Result<H2loadResult, ProcessError> {
        let failed = |source| ProcessError::Start { program: NAME.to_owned(), source };
        let body = Body::write(run.size).map_err(failed)?;
        let command = tethered_to_core(run.core, &self.program, run.args(&body));
        let mut child = PipedChild::start(command.map_err(failed)?, NAME)?;
        let limit = run.warmup + run.measured + limits::PEER_CLIENT_SLACK;
        let cpu_of = |child: &PipedChild| cpu::cpu_time(child.pid()).ok();
        let (mut output, mut before, mut cpu) = (String::new(), None, None);
        while !output.contains(LAST_LINE) {
            let line = child.next_line(AWAITED, limit)?;
            if line.starts_with("Main benchmark duration is started") {
                told(Edge::Begin)?;
                before = cpu_of(&child);
            } else if line.starts_with("Main benchmark duration is over") {
                cpu = before.and_then(|before| cpu_of(&child)?.checked_sub(before));
                told(Edge::End)?;
            }
            output = output + &line + "\n";
        }
        let result = parse(&output).ok_or_else(|| ProcessError::Answer {
            program: NAME.to_owned(),
            awaited: AWAITED,
            line: output,
        })?;
        Ok(H2loadResult { cpu, ..result })
    }
}

impl H2loadRun<'_> {
    fn args(&self, body: &Body) -> Vec<String> {
        let millis = |span: Duration| format!("{}ms", span.as_millis().max(1));
        let address = self.addr.as_str().replacen("tcp://", "http://", 1);
        let pairs = [
            ("-c", self.connections.to_string()),
            ("-m", self.depth.to_string()),
            ("-D", millis(self.measured)),
            ("--warm-up-time", millis(self.warmup)),
            ("-d", body.file.display().to_string()),
            ("-H", "content-type: application/grpc".to_owned()),
            ("-H", "te: trailers".to_owned()),
        ];
        let mut args: Vec<String> =
            pairs.into_iter().flat_map(|(flag, value)| [flag.to_owned(), value]).collect();
        args.push(address + self.path);
        args
    }
}

/// A gRPC request in a file, which is removed on drop.
struct Body {
    file: PathBuf,
}

impl Body {
    fn write(size: u32) -> io::Result<Self> {
        let name = format!("ringway-h2load-{}.bin", std::process::id());
        let body = Self { file: std::env::temp_dir().join(name) };
        let mut bytes = vec![0];
        bytes.extend_from_slice(&size.to_be_bytes());
        bytes.resize(bytes.len() + size as usize, b'r');
        fs::write(&body.file, bytes)?;
        Ok(body)
    }
}

impl Drop for Body {
    fn drop(&mut self) {
        _ = fs::remove_file(&self.file); // it may never have been written
    }
}

/// Parses its output.
fn parse(output: &str) -> Option<H2loadResult> {
    let line = |start: &str| output.lines().find_map(|line| line.trim_start().strip_prefix(start));
    // `finished in 1.20s, 118010.00 req/s, 9.23MB/s`
    let rate = line("finished in ")?.split(", ").find_map(|part| part.strip_suffix(" req/s"))?;
    // `requests: 9 total, 9 started, 9 done, 9 succeeded, 0 failed, 0 errored, 0 timeout`
    let requests = line("requests: ")?;
    let count = |name: &str| {
        let part = requests.split(", ").find_map(|part| part.strip_suffix(name))?;
        part.trim_end().parse::<u64>().ok()
    };
    // Failed calls have another status, or none, as those that timed out.
    let timed_out = count("timeout")?;
    // `traffic: 9.23MB (9676820) total, 258KB (264060) headers (space savings 94.73%), 6.54MB (6859320) data`
    let content = line("traffic: ")?.strip_suffix(") data")?.rsplit_once('(')?.1;
    // `time for request:       98us     20.43ms      1.33ms      2.38ms    85.29%`
    let longest = line(LAST_LINE)?.split_whitespace().nth(1)?;
    Some(H2loadResult {
        rate: rate.parse().ok()?,
        calls: count("succeeded")?,
        max_us: micros(longest),
        failed: count("failed")?.saturating_sub(timed_out),
        timed_out,
        content_bytes: content.parse().ok()?,
        cpu: None,
    })
}

fn micros(text: &str) -> Option<f64> {
    let unit = text.find(|char: char| char.is_ascii_alphabetic())?;
    let factor = match &text[unit..] {
        "us" => 1.0,
        "ms" => 1e3,
        "s" => 1e6,
        _ => return None,
    };
    text[..unit].parse::<f64>().ok().map(|number| number * factor).filter(|&micros| micros > 0.0)
}

const NAME: &str = "h2load";
const AWAITED: &str = "its result";
const LAST_LINE: &str = "time for request:";

#[cfg(test)]
mod tests {
    use super::*;

    const OUTPUT: &str = "\
starting benchmark...
Main benchmark duration is over for thread #0. Stopping all clients.

finished in 1.20s, 118010.00 req/s, 9.23MB/s
requests: 118020 total, 118030 started, 118020 done, 118010 succeeded, 10 failed, 3 errored, 2 timeout
status codes: 118012 2xx, 0 3xx, 5 4xx, 3 5xx
traffic: 9.23MB (9676820) total, 257.87KB (264060) headers (space savings 94.73%), 6.54MB (6859320) data
                     min         max         mean         sd        +/- sd
time for request:       98us     20.43ms      1.33ms      2.38ms    85.29%
";

    #[test]
    fn its_numbers_are_read() {
        let expected = H2loadResult {
            rate: 118_010.0,
            calls: 118_010,
            max_us: Some(20_430.0),
            failed: 8,
            timed_out: 2,
            content_bytes: 6_859_320,
            cpu: None,
        };
        assert_eq!(parse(OUTPUT), Some(expected));
        for part in ["finished in", "succeeded", "timeout", "data", "request:"] {
            assert_eq!(parse(&OUTPUT.replace(part, "?")), None, "{part}");
        }
        for (text, found) in
            [("98us", Some(98.0)), ("1.5s", Some(1.5e6)), ("0us", None), ("", None)]
        {
            assert_eq!(micros(text), found, "{text}");
        }
    }

    #[test]
    fn it_gets_its_run_as_flags() {
        let addr: Uri = "tcp://127.0.0.1:7001".parse().expect("an address");
        let run = H2loadRun {
            addr: &addr,
            path: "/a.B/C",
            connections: 2,
            depth: 400,
            size: 47,
            warmup: Duration::from_millis(200),
            measured: Duration::from_secs(2),
            core: 1,
        };
        let body = Body::write(3).expect("a place for files");
        assert_eq!(fs::read(&body.file).expect("it is there"), b"\0\0\0\0\x03rrr");
        let args = run.args(&body).join(" ");
        assert!(args.starts_with("-c 2 -m 400 -D 2000ms --warm-up-time 200ms -d "), "{args}");
        assert!(args.ends_with(" http://127.0.0.1:7001/a.B/C"), "{args}");
        let file = body.file.clone();
        drop(body);
        assert!(!file.exists());
    }
}
