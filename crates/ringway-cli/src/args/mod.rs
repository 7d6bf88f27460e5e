//! The command line: raw flags are parsed first ([`flags`]), then resolved into configurations
//! ([`mod@serve`], [`mod@bench`]) for the rest of the tool.

mod access_flags;
mod answer;
mod bench;
mod call;
mod choices;
mod examples;
mod flags;
mod registry;
mod report;
mod serve;
mod suites;
mod target;
mod values;

use clap::error::ErrorKind;
use clap::{CommandFactory, FromArgMatches};

use answer::Answer;

pub(crate) use bench::{
    BenchConfig, CallJob, EventLoad, MongoJob, MongoLoad, MongoSend, Pace, Placement, RegistryLoad,
    RpcLoad, RunLength, SendMode, StreamLoad, Suite,
};
pub(crate) use call::{Access, Ask, CallConfig};
pub(crate) use choices::{Backend, Format, MongoOp, Protocol, RegistryMode, RpcMode, Transport};
pub(crate) use registry::{NewEndpoint, RegistryAction, RegistryConfig};
pub(crate) use report::ReportConfig;
pub(crate) use serve::{ServeConfig, Service, TlsFiles};
pub(crate) use target::Target;
pub(crate) use values::{Cores, Scheme, Uri};

/// The command of one invocation.
#[derive(Debug, PartialEq)]
pub(crate) enum Config {
    Serve(ServeConfig),
    Bench(BenchConfig),
    Call(CallConfig),
    Registry(RegistryConfig),
    Report(ReportConfig),
    Tether(TetherConfig),
}

/// A program to become, tied to the life of its parent.
#[derive(Debug, PartialEq)]
pub(crate) struct TetherConfig {
    /// The parent that asked for it. If it has ended meanwhile, the program does not start.
    pub(crate) parent: i32,
    /// The core to run on; by default those of this process.
    pub(crate) core: Option<usize>,
    /// The program and its arguments; at least one.
    pub(crate) command: Vec<String>,
}

/// Parses `args`, the program's name first, on a process that may use the cores `allowed`.
///
/// # Errors
/// The arguments ask for help or the version, which should be printed, or contain an error; its text names the
/// argument and what it should be.
pub(crate) fn parse(args: Vec<String>, allowed: &Cores) -> Result<Config, Answer> {
    parse_as(flags::Cli::command(), args, allowed)
}

fn parse_as(
    mut command: clap::Command,
    args: Vec<String>,
    allowed: &Cores,
) -> Result<Config, Answer> {
    let fresh = command.clone();
    let matches = command.try_get_matches_from_mut(&args).map_err(|error| match error.kind() {
        ErrorKind::DisplayHelp => {
            suites::help(&fresh, &args).map_or(Answer::from(error), Answer::Help)
        }
        _ => error.into(),
    })?;
    let cli = flags::Cli::from_arg_matches(&matches).map_err(|error| error.format(&mut command))?;
    let resolved = match cli.command {
        flags::Command::Serve(raw) => serve::resolve(raw, allowed).map(Config::Serve),
        flags::Command::Bench(raw) => bench::resolve(raw, allowed).map(Config::Bench),
        flags::Command::Call(raw) => call::resolve(raw).map(Config::Call),
        flags::Command::Registry(raw) => Ok(Config::Registry(registry::resolve(raw))),
        flags::Command::Report(raw) => report::resolve(raw).map(Config::Report),
        flags::Command::Tether { parent, core, command } => {
            Ok(Config::Tether(TetherConfig { parent, core, command }))
        }
    };
    resolved
        .map_err(|error| clap::Error::raw(ErrorKind::ValueValidation, format!("{error}\n")).into())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Parses `words` on a machine with four cores.
    pub(super) fn parse_words(words: &str) -> Result<Config, String> {
        let allowed: Cores = "0-3".parse().expect("a range");
        let args = std::iter::once("ringway").chain(words.split_whitespace());
        // Independent of the terminal in which the test runs.
        let command = flags::Cli::command().term_width(100);
        let parsed = parse_as(command, args.map(str::to_owned).collect(), &allowed);
        parsed.map_err(|error| error.to_string())
    }

    fn help(words: &str) -> String {
        parse_words(words).expect_err("help is reported as an error to print")
    }

    #[test]
    fn help_at_every_level() {
        insta::assert_snapshot!("help", help("--help"));
        insta::assert_snapshot!("help_serve", help("serve --help"));
        insta::assert_snapshot!("help_serve_echo", help("serve echo --help"));
        insta::assert_snapshot!("help_serve_discard", help("serve discard --help"));
        insta::assert_snapshot!("help_serve_clock", help("serve clock --help"));
        insta::assert_snapshot!("help_serve_rpc", help("serve rpc --help"));
        insta::assert_snapshot!("help_call", help("call --help"));
        insta::assert_snapshot!("help_bench", help("bench --help"));
        insta::assert_snapshot!("help_bench_pingpong", help("bench pingpong --help"));
        insta::assert_snapshot!("help_bench_idle", help("bench idle --help"));
        insta::assert_snapshot!("help_bench_receive", help("bench receive --help"));
        insta::assert_snapshot!("help_bench_ttcp", help("bench ttcp --help"));
        insta::assert_snapshot!("help_bench_roundtrip", help("bench roundtrip --help"));
        insta::assert_snapshot!("help_bench_rpc", help("bench rpc --help"));
        insta::assert_snapshot!("help_bench_grpc", help("bench grpc --help"));
        insta::assert_snapshot!("help_bench_jsonrpc", help("bench jsonrpc --help"));
        insta::assert_snapshot!("help_bench_stream", help("bench stream --help"));
        insta::assert_snapshot!("help_bench_registry", help("bench registry --help"));
        insta::assert_snapshot!("help_bench_mongo", help("bench mongo --help"));
        insta::assert_snapshot!("help_bench_call", help("bench call --help"));
        insta::assert_snapshot!("help_bench_event", help("bench event --help"));
        insta::assert_snapshot!("help_bench_codec", help("bench codec --help"));
        insta::assert_snapshot!("help_registry", help("registry --help"));
        insta::assert_snapshot!("help_report", help("report --help"));
    }

    /// A break within a sentence would stand beside those that a narrow terminal makes.
    #[test]
    fn sentences_below_the_flags_are_broken_by_the_terminal_alone() {
        fn check(command: &clap::Command) {
            let text = command.get_after_help().map(ToString::to_string).unwrap_or_default();
            let is_prose = |line: &str| !matches!(line, "" | "Examples:") && !line.starts_with(' ');
            let lines: Vec<&str> = text.lines().collect();
            for pair in lines.windows(2) {
                assert!(
                    !pair.iter().all(|line| is_prose(line)),
                    "{}: {pair:?}",
                    command.get_name()
                );
            }
            command.get_subcommands().for_each(check);
        }
        check(&flags::Cli::command());
    }

    #[test]
    fn help_fits_100_columns() {
        let suites = [
            "",
            "pingpong",
            "idle",
            "receive",
            "ttcp",
            "roundtrip",
            "rpc",
            "grpc",
            "stream",
            "registry",
            "mongo",
            "call",
            "event",
            "codec",
        ]
        .map(|suite| format!("bench {suite}"));
        for words in
            ["", "serve", "serve echo", "call", "report"].map(str::to_owned).iter().chain(&suites)
        {
            let help = help(&format!("{words} --help"));
            let long = help.lines().find(|line| line.chars().count() > 100);
            assert_eq!(long, None, "{words}");
        }
    }

    #[test]
    fn version_names_the_package() {
        assert_eq!(help("--version"), format!("ringway {}\n", env!("CARGO_PKG_VERSION")));
    }

    #[test]
    fn errors_say_what_and_what_to_do() {
        let check = |words: &str, part: &str| {
            let message = parse_words(words).expect_err(words);
            assert!(message.contains(part), "{words}: {message}");
        };
        check("serve", "Usage: ringway serve <COMMAND>");
        check("serve echo --cores 0-9", "may use only 0,1,2,3");
        check("serve echo --listen tls://127.0.0.1:1", "--cert and --key");
        check("serve echo --spin 50", "50us");
        check("bench pingpong -c 0", "0 is not in 1..=1048576");
        check("bench pingpong -c 1 1 64 1", "given twice");
        check("bench receive -s 8", "16");
        check("bench --addr udp://127.0.0.1:1", "udp");
        check("bench pingpong --addr grpc://127.0.0.1:1", "measured by `bench grpc`");
        check("bench rpc --addr grpc://127.0.0.1:1", "measured by `bench grpc`");
        check("bench grpc --addr grpcs://127.0.0.1:1", "`bench call` measures over TLS");
        check("bench grpc --unix", "--protocol native");
        check("bench grpc --addr unix:///tmp/a", "--protocol native");
        check("bench grpc --protocol native", "--protocol");
        check("bench stream --protocol native,grpc --transport tcp,unix", "--protocol native");
        check("bench rpc --transport ws", "`bench jsonrpc`");
        check("bench rpc --protocol native,jsonrpc --transport tcp,http", "`bench jsonrpc`");
        check("serve discard --acknowledge", "--frame");
        check("serve rpc --listen grpc://127.0.0.1:1", "tcp://");
        check("bench --addr tcp://127.0.0.1:1 --unix", "--addr");
        check("bench --addr tcp://127.0.0.1:1 --peers", "--peers");
        check("bench -i 3", "-i 3 needs 6 cores");
        check("bench -i 2 --server-cores 0-2", "lower -i");
        check("bench receive -s 16384 --batch 65536", "16 MiB in one write");
        check("bench --unknown", "--unknown");
        check("bench rpc --rate 5 -l 2", "drop one");
        check("bench rpc --slow 1", "--rate");
        check("bench rpc --rate 5 --slow 1 -m bidi", "unary");
        check("bench stream -f 4 -w 5", "raise -f");
        check("bench stream --one-way -f 4", "--one-way");
        check("bench call tcp://127.0.0.1:1", "SERVICE/METHOD");
        check("bench call tcp://127.0.0.1:1 Say", "Service/Method");
        check("bench call udp://127.0.0.1:1 a/b", "udp");
        check("bench call tcp://127.0.0.1:1 a/b --addr tcp://127.0.0.1:2", "drop --addr");
        check("bench call tcp://127.0.0.1:1 a/b -s 7", "-s");
        check("bench call tcp://127.0.0.1:1 a/b --peers", "--peers");
        check("bench call tcp://127.0.0.1:1 a/b --rate 5 -p 2", "--depth");
        check("bench mongo -s 7", "-s has no meaning");
        check("bench mongo --addr tcp://127.0.0.1:1", "--uri");
        check("bench mongo --batch-size 4", "--mode pipeline");
        check("bench mongo --mode pipeline --op ping,bulk", "no bulk");
        check("bench mongo --mode pipeline --peers", "has none");
        check("bench mongo --user ada --password p", "--uri or --host");
        check("bench mongo --host a --uri mongodb://a", "--uri");
        check("bench mongo --fanout 2 --mode pipeline", "no pipelines");
        check("bench mongo --total 5 --peers", "--peers has no --total");
        check("bench mongo --uri mongodb://a,b", "one server");
        check("bench mongo --uri mongodb://a --delay 1ms", "--delay");
        check("bench idle --addr tcp://127.0.0.1:1", "did not start");
        check("bench event -n 3 -a 4", "raise -n");
        check("bench event -c 4", "one core");
        check("bench codec -c 1", "-c has no meaning");
        check("bench codec --peers", "connects to nothing");
        check("bench receive --hist a", "no latencies");
        check("bench rpc --rate 20k,10k", "rising order");
        check("report a.json", "--html");
        check("report a.json b.json --html c.html", "drop --html");
        check("call tcp://127.0.0.1:1", "SERVICE/METHOD");
        check("call tcp://127.0.0.1:1 Echo", "Service/Method");
        check("call udp://127.0.0.1:1 --list", "udp");
        check("call tcp://127.0.0.1:1 a/b -H x", "key=value");
    }

    #[test]
    fn the_tether_takes_the_rest_as_it_is() {
        let command = ["a", "--listen", "--core", "9"].map(str::to_owned).to_vec();
        for (words, core) in [("tether 7", None), ("tether --core 1 7", Some(1))] {
            let expected = TetherConfig { parent: 7, core, command: command.clone() };
            let parsed = parse_words(&format!("{words} a --listen --core 9"));
            assert_eq!(parsed, Ok(Config::Tether(expected)), "{words}");
        }
    }
}
