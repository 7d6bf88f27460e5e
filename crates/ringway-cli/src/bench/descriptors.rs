//! Raises the limit of file descriptors, so that it suffices for the connections.

use std::io;

use rustix::process::{Resource, getrlimit, setrlimit};

use crate::limits;

/// Raises the limit of this process, and of those that it starts, to its maximum.
///
/// # Errors
/// The system refuses.
pub(crate) fn raise_limit() -> io::Result<()> {
    let mut limit = getrlimit(Resource::Nofile);
    if limit.current != limit.maximum {
        limit.current = limit.maximum;
        setrlimit(Resource::Nofile, limit)?;
    }
    Ok(())
}

/// Checks that there are descriptors for `connections` on each side.
///
/// # Errors
/// The limit cannot be raised that far.
pub(super) fn ensure(connections: u32) -> io::Result<()> {
    check(&format!("{connections} connections"), u64::from(connections), "-c")
}

/// Checks that there are descriptors for both ends of so many pipes.
///
/// # Errors
/// The limit cannot be raised that far.
pub(super) fn ensure_pipes(pipes: u32) -> io::Result<()> {
    check(&format!("{pipes} pipes"), 2 * u64::from(pipes), "-n")
}

fn check(what: &str, descriptors: u64, flag: &str) -> io::Result<()> {
    raise_limit()?;
    let needed = descriptors + limits::DESCRIPTORS_SPARE;
    match getrlimit(Resource::Nofile).maximum {
        Some(most) if most < needed => Err(io::Error::other(format!(
            "{what} need {needed} file descriptors, but this process may have only {most}; raise the hard limit \
             (ulimit -Hn) or lower {flag}"
        ))),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_most_is_taken_and_more_is_refused() {
        ensure(1).expect("every process has some descriptors");
        let limit = getrlimit(Resource::Nofile);
        assert_eq!(limit.current, limit.maximum);
        if limit.maximum.is_some_and(|most| most < u64::from(u32::MAX)) {
            let message = ensure(u32::MAX).expect_err("nobody has so many").to_string();
            assert!(message.contains("lower -c"), "{message}");
        }
    }
}
