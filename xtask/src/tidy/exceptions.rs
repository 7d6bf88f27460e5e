//! The one list of exceptions. It may only shrink.

use super::finding::Finding;

/// A finding that is allowed to stand.
pub(crate) struct Exception {
    /// The rule, as printed in brackets.
    pub(crate) rule: &'static str,
    /// The file.
    pub(crate) place: &'static str,
    /// Why it may stand.
    pub(crate) why: &'static str,
}

/// The length of the list is part of its type, so that it cannot grow unseen. An exception that
/// nothing needs any more is an error.
pub(crate) const EXCEPTIONS: [Exception; 2] = [
    Exception {
        rule: "lints",
        place: "crates/ringway-runtime/Cargo.toml",
        why: "`forbid(unsafe_code)` cannot be lifted for `sys`, so the runtime denies it instead",
    },
    Exception {
        rule: "lints",
        place: "peers/Cargo.toml",
        why: "the same for the one plain io_uring loop",
    },
];

/// Takes the excepted ones out of `findings`, and adds one for each exception without use.
pub(crate) fn apply(exceptions: &[Exception], findings: Vec<Finding>) -> Vec<Finding> {
    let matches = |e: &Exception, f: &Finding| e.rule == f.rule && e.place == f.path;
    let idle = exceptions.iter().filter(|e| !findings.iter().any(|f| matches(e, f)));
    let idle: Vec<Finding> = idle
        .map(|e| {
            let message = format!(
                "the exception [{}] {} ({}) is not needed: remove it",
                e.rule, e.place, e.why
            );
            Finding::new("exceptions", "xtask/src/tidy/exceptions.rs", 1, message)
        })
        .collect();
    let stands = |f: &Finding| !exceptions.iter().any(|e| matches(e, f));
    findings.into_iter().filter(stands).chain(idle).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const LONG: Exception = Exception { rule: "size", place: "a.rs", why: "a table" };

    fn finding(rule: &'static str, place: &str) -> Finding {
        Finding::new(rule, place, 1, "")
    }

    #[test]
    fn an_exception_takes_its_finding_only() {
        let left = apply(&[LONG], vec![finding("size", "a.rs"), finding("size", "b.rs")]);
        assert_eq!(left.iter().map(|f| f.path.as_str()).collect::<Vec<_>>(), ["b.rs"]);
    }

    #[test]
    fn an_idle_exception_is_an_error() {
        let left = apply(&[LONG], vec![finding("words", "a.rs")]);
        assert_eq!(left.iter().map(|f| f.rule).collect::<Vec<_>>(), ["words", "exceptions"]);
    }
}
