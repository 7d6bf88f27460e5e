//! Bounds of the console.

use std::time::Duration;

/// How long after the console's last question slow calls are collected: a few of its questions may be lost.
pub(crate) const CONSOLE_WATCHED_FOR: Duration = Duration::from_secs(5);

/// Slow calls that each core keeps while somebody looks: more than a page shows.
pub(crate) const CONSOLE_SLOW_CALLS_MAX: usize = 32;

/// Slow calls of one method among them: others are to be seen as well.
pub(crate) const CONSOLE_SLOW_CALLS_OF_METHOD: usize = 4;

/// How long a slow call is shown.
pub(crate) const CONSOLE_SLOW_CALL_AGE: Duration = Duration::from_secs(60);

/// Connections of each core that the console shows, the busiest: what somebody reads, and about 100 KiB.
pub(crate) const CONSOLE_CONNECTIONS_MAX: usize = 100;

/// Connections of each core among which the busiest are looked for: a fraction of a millisecond.
pub(crate) const CONSOLE_CONNECTIONS_SEEN: usize = 10_000;

/// Calls under way that the console shows for each connection.
pub(crate) const CONSOLE_CALLS_MAX: usize = 8;

/// How long the console waits for a core: one that does not answer is shown as such.
pub(crate) const CONSOLE_CORE_TIMEOUT: Duration = Duration::from_millis(300);

/// How often the cores are looked at while somebody wants to know what they do: some thousand looks in the ten seconds
/// that the page shows, and none in step with timers of whole milliseconds.
pub(crate) const CONSOLE_LOOK_PAUSE: Duration = Duration::from_micros(4_700);

/// Tasks of each core that the console shows, those with the largest shares.
pub(crate) const CONSOLE_TASKS_MAX: usize = 12;

/// Threads that the console shows: more than a process of ours has, unless its program starts many.
pub(crate) const CONSOLE_THREADS_MAX: usize = 200;

/// Rows of a table that a program adds to the console.
pub(crate) const CONSOLE_ROWS_MAX: usize = 500;

/// How deep the console writes examples of requests: messages may contain themselves.
pub(crate) const CONSOLE_EXAMPLE_DEPTH: usize = 3;

/// Connections that are known to look at the console: more than people do at once.
pub(crate) const CONSOLE_VIEWERS_MAX: usize = 64;

/// How long they are known: a page asks once a second, and browsers keep a second connection for a while.
pub(crate) const CONSOLE_VIEWER_AGE: Duration = Duration::from_secs(60);
