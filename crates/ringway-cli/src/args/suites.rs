//! The help of one suite: its words for the flags that all suites share.

use clap::builder::StyledStr;
use clap::{Arg, Command};

/// A suite by its name on the command line.
struct SuiteHelp {
    name: &'static str,
    /// Defaults of `-c` and `-s`.
    connections: &'static str,
    size: &'static str,
    /// Default of `-d`.
    seconds: &'static str,
    /// Flags that it rejects.
    without: &'static [&'static str],
    /// The kind of server that `--addr` must name.
    needs: &'static str,
}

const SUITES: [SuiteHelp; 14] = [
    SuiteHelp {
        name: "pingpong",
        connections: "1,10,100,1000",
        size: "16384",
        seconds: "2",
        without: &[],
        needs: "an echo, such as `ringway serve echo`",
    },
    SuiteHelp {
        name: "idle",
        connections: "1000,10000",
        size: "64",
        seconds: "2",
        without: &["addr", "hist"],
        needs: "",
    },
    SuiteHelp {
        name: "receive",
        connections: "1,100,1000,10000",
        size: "32",
        seconds: "2",
        without: &["hist", "peers"],
        needs: "what `ringway serve discard --frame` does",
    },
    SuiteHelp {
        name: "ttcp",
        connections: "1",
        size: "65536",
        seconds: "2",
        without: &["peers"],
        needs: "what `ringway serve discard --frame --acknowledge` does",
    },
    SuiteHelp {
        name: "roundtrip",
        connections: "1",
        size: "",
        seconds: "2",
        without: &["peers", "size"],
        needs: "clocks, as `ringway serve clock` does",
    },
    SuiteHelp {
        name: "rpc",
        connections: "100",
        size: "256",
        seconds: "2",
        without: &[],
        needs: "ringway.bench.Echo, as `ringway serve rpc` does; other services are for `bench call`",
    },
    SuiteHelp {
        name: "grpc",
        connections: "100",
        size: "256",
        seconds: "2",
        without: &["transport", "unix"],
        needs: "ringway.bench.Echo, as `ringway serve rpc` does; other services are for `bench call`",
    },
    SuiteHelp {
        name: "jsonrpc",
        connections: "100",
        size: "256",
        seconds: "2",
        without: &[],
        needs: "ringway.bench.Echo, as `ringway serve rpc` does",
    },
    SuiteHelp {
        name: "stream",
        connections: "100; with --one-way 1",
        size: "128",
        seconds: "2",
        without: &[],
        needs: "ringway.bench.Echo, as `ringway serve rpc` does",
    },
    SuiteHelp {
        name: "registry",
        connections: "100; with watches 1,100,1000",
        size: "128",
        seconds: "2",
        without: &["transport", "unix"],
        needs: "the API of etcd v3, as `ringway serve registry` and etcd do",
    },
    SuiteHelp {
        name: "mongo",
        connections: "10,100",
        size: "",
        seconds: "2",
        without: &["addr", "size", "transport", "unix"],
        needs: "",
    },
    SuiteHelp {
        name: "call",
        connections: "100",
        size: "",
        seconds: "2",
        without: &["addr", "peers", "server_cores", "size", "transport", "unix"],
        needs: "",
    },
    SuiteHelp {
        name: "event",
        connections: "",
        size: "",
        seconds: "2",
        without: &["addr", "connections", "server_cores", "size", "threads", "transport", "unix"],
        needs: "",
    },
    SuiteHelp {
        name: "codec",
        connections: "",
        size: "",
        seconds: "0.1",
        without: &[
            "addr",
            "backend",
            "client_spin",
            "connections",
            "hist",
            "peers",
            "server_cores",
            "size",
            "spin",
            "threads",
            "transport",
            "unix",
        ],
        needs: "",
    },
];

/// Returns the help that `args` request from `command`, if it is that of a suite. clap gives every suite the same
/// words for global flags and cannot use others while it parses.
pub(super) fn help(command: &Command, args: &[String]) -> Option<StyledStr> {
    let mut words = args.iter().skip(1).filter(|word| *word != "help");
    words.next().filter(|word| *word == "bench")?;
    let suite = words.find_map(|word| SUITES.iter().find(|suite| suite.name == word))?;
    let mut command = command.clone();
    // From here on the suite has its own copies of the global flags.
    command.build();
    let of_suite = command.find_subcommand("bench")?.find_subcommand(suite.name)?.clone();
    Some(suite.describe(of_suite).render_help())
}

impl SuiteHelp {
    fn describe(&self, command: Command) -> Command {
        let Self { connections, size, seconds, needs, .. } = self;
        let texts = [
            ("connections", format!("Connections, one row per value [default: {connections}]")),
            ("size", format!("Payload bytes one way, one row per value [default: {size}]")),
            ("seconds", format!("Measured seconds per run, warm-up excluded [default: {seconds}]")),
            (
                "addr",
                format!("Measure a running server [default: start one]; it must offer {needs}"),
            ),
        ];
        let described = texts
            .into_iter()
            .fold(command, |it, (name, text)| it.mut_arg(name, |arg| arg.help(text)));
        let hide = |arg: Arg| arg.hide(true);
        self.without.iter().fold(described, |command, name| command.mut_arg(name, hide))
    }
}

#[cfg(test)]
mod tests {
    use super::super::{Config, Suite, tests::parse_words};
    use super::*;

    /// They are decided elsewhere.
    #[test]
    fn defaults_are_those_that_the_help_tells() {
        let list = |values: &[u32]| {
            let texts: Vec<String> = values.iter().map(u32::to_string).collect();
            texts.join(",")
        };
        for suite in &SUITES {
            let call = if suite.name == "call" { " tcp://a:1 b/c" } else { "" };
            let parsed = parse_words(&format!("bench {}{call}", suite.name));
            let Ok(Config::Bench(config)) = parsed else { panic!("{}", suite.name) };
            let (connections, size) = match &config.suites[0] {
                Suite::PingPong { connections, sizes }
                | Suite::Idle { connections, sizes }
                | Suite::Receive { connections, sizes, .. }
                | Suite::Ttcp { connections, sizes }
                | Suite::Rpc { connections, sizes, .. }
                | Suite::Stream { connections, sizes, .. } => (connections, list(sizes)),
                Suite::Registry { rows, sizes } => (&vec![rows[0].0], list(sizes)),
                Suite::Local { .. } => unreachable!("it takes --local"),
                Suite::Call { connections, .. }
                | Suite::Roundtrip { connections, .. }
                | Suite::Mongo { connections, .. } => (connections, String::new()),
                Suite::Event(_) | Suite::Codec => (&Vec::new(), String::new()),
            };
            let told = suite.connections.split(';').next();
            assert_eq!(told, Some(list(connections).as_str()), "{}", suite.name);
            assert_eq!(suite.size, size, "{}", suite.name);
            let seconds = config.length.measured.as_secs_f64().to_string();
            assert_eq!(suite.seconds, seconds, "{}", suite.name);
        }
    }
}
