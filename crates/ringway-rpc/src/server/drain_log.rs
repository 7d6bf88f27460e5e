//! The calls that a drain waits for, as the log names them.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::rc::{Rc, Weak};

use ringway_runtime::{sleep, uptime};

use super::core::ServerCore;
use super::log::log;
use crate::limits;

impl ServerCore {
    /// Names the methods that the drain waits for, in pauses that double, until none of their calls is left.
    pub(super) async fn tell_what_drains(core: Weak<Self>) {
        let (began, mut pause) = (uptime(), limits::DRAIN_TOLD_AFTER);
        loop {
            sleep(pause).await;
            let Some(core) = core.upgrade() else { return };
            let under_way = core.calls_under_way();
            if under_way.is_empty() {
                return;
            }
            let (calls, methods) = (under_way.values().sum::<usize>(), listed(&under_way));
            let waited_ms = uptime().saturating_sub(began).as_millis() as u64;
            log(|| tracing::info!(calls, methods, waited_ms, "the drain waits for calls to end"));
            pause = (pause * 2).min(limits::DRAIN_TOLD_PAUSE_MAX);
        }
    }

    /// The number of calls of each method that are queued or run on this core.
    fn calls_under_way(self: &Rc<Self>) -> BTreeMap<&'static str, usize> {
        let mut under_way = BTreeMap::new();
        for connection in self.connections().all() {
            connection.name_calls(&mut |method| *under_way.entry(method).or_default() += 1);
        }
        under_way
    }
}

/// The methods with the most calls, each with their number.
fn listed(under_way: &BTreeMap<&'static str, usize>) -> String {
    let mut methods: Vec<_> = under_way.iter().collect();
    methods.sort_by_key(|&(_, calls)| std::cmp::Reverse(calls));
    let mut text = String::new();
    for (method, calls) in methods.iter().take(limits::DRAIN_METHODS_TOLD) {
        let comma = if text.is_empty() { "" } else { ", " };
        let _a_string_has_room = write!(text, "{comma}{method} ({calls})");
    }
    match methods.len().checked_sub(limits::DRAIN_METHODS_TOLD) {
        None | Some(0) => text,
        Some(more) => format!("{text} and {more} more"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn methods_with_the_most_calls_come_first_and_the_list_is_short() {
        let few = BTreeMap::from([("a.A/One", 1), ("a.A/Two", 2)]);
        assert_eq!(listed(&few), "a.A/Two (2), a.A/One (1)");
        let names = ["a", "b", "c", "d", "e", "f", "g", "h", "i", "j"];
        let many = listed(&names.map(|name| (name, 1)).into());
        assert_eq!(many, "a (1), b (1), c (1), d (1), e (1), f (1), g (1), h (1) and 2 more");
    }
}
