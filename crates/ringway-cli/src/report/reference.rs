//! The figures of the reports that the workloads come from, shown beside ours.
//!
//! They come from other hardware and show what was reported, not what to beat. Their sources, and what they
//! really measure, are in the bench design text, sections 2 to 4.

use serde_json::Value;

use super::row::Row;

/// A report's figure for one setting of a workload over TCP. It stands only beside our own
/// row.
struct Figure {
    suite: &'static str,
    /// The `mode` parameter, if the suite has one.
    mode: Option<&'static str>,
    size: u64,
    connections: u64,
    /// The `depth` parameter, of the rpc suite.
    depth: Option<u64>,
    /// The `window` parameter, of the stream suite.
    window: Option<u64>,
    /// The figure, with its unit.
    text: &'static str,
    source: &'static Source,
}

/// The report with the figure.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Source {
    /// A short name for the head of the column.
    pub(super) name: &'static str,
    /// A long name for the note below the table.
    pub(super) note: &'static str,
}

/// Returns the cell beside a row and the source of its figure; `None` if no report has the setting.
pub(super) fn find(row: &Row) -> Option<(&'static str, &'static Source)> {
    let figure = FIGURES.iter().find(|figure| figure.matches(row))?;
    Some((figure.text, figure.source))
}

impl Figure {
    fn matches(&self, row: &Row) -> bool {
        let text = |name: &str| row.parameters.get(name).and_then(Value::as_str);
        let number = |name: &str| row.parameters.get(name).and_then(Value::as_u64);
        self.suite == row.suite
            && text("server") == Some("ringway")
            && text("client").is_none_or(|client| client == "ringway")
            && text("transport") == Some("tcp")
            && text("protocol").is_none_or(|protocol| protocol == "native")
            && text("mode") == self.mode
            && number("size") == Some(self.size)
            && number("connections") == Some(self.connections)
            && number("depth") == self.depth
            && number("window") == self.window
    }
}

/// Section 2; the figures are those of section 3.5, the better of the original's two final groups.
const MUDUO: Source = Source {
    name: "muduo",
    note: "muduo: original server and client, best of the two final groups of its report; cloud VM with 2 \
           vCPU Xeon Platinum, Linux 5.15, GCC 11.4; 10 s, three runs averaged",
};

/// Section 2; the figures are those of section 3.4, one send per packet, bytes by 32 without framing.
const NEWLIFE: Source = Source {
    name: "NewLife",
    note: "NewLife: 200,000 packets a round, counted as bytes by 32 without framing; Core i9-10900K with 20 \
           threads, Windows 10, .NET 10.0.3, both sides in one process",
};

/// The report of galay-rpc: calls of one frame each way, unverified; its streams use their own server.
const GALAY: Source = Source {
    name: "galay-rpc",
    note: "galay-rpc: 47-byte calls and streams of 16 frames of 128 B as its own report gives them, payloads \
           not compared, on ten faster cores",
};

const FIGURES: &[Figure] = &[
    muduo(1, "309 MiB/s"),
    muduo(10, "427 MiB/s"),
    muduo(100, "205 MiB/s"),
    muduo(1000, "185 MiB/s"),
    newlife(1, "134 k/s"),
    newlife(100, "1.87 M/s"),
    newlife(1000, "1.80 M/s"),
    newlife(10_000, "1.59 M/s"),
    Figure { depth: Some(4), ..galay("rpc", "unary", 47, 200, "346 k/s") },
    Figure { window: Some(1), ..galay("stream", "echo", 128, 100, "29.8 k/s") },
    Figure { window: Some(8), ..galay("stream", "echo", 128, 100, "90.3 k/s") },
];

/// Default settings of a figure.
const BLANK: Figure = Figure {
    suite: "",
    mode: None,
    size: 0,
    connections: 0,
    depth: None,
    window: None,
    text: "",
    source: &MUDUO,
};

const fn muduo(connections: u64, text: &'static str) -> Figure {
    Figure { suite: "pingpong", size: 16384, connections, text, ..BLANK }
}

/// One send per packet; batches are a different workload than the report's and have no figure.
const fn newlife(connections: u64, text: &'static str) -> Figure {
    let mode = Some("per-packet");
    Figure { suite: "receive", mode, size: 32, connections, text, source: &NEWLIFE, ..BLANK }
}

const fn galay(
    suite: &'static str,
    mode: &'static str,
    size: u64,
    connections: u64,
    text: &'static str,
) -> Figure {
    Figure { suite, mode: Some(mode), size, connections, text, source: &GALAY, ..BLANK }
}
