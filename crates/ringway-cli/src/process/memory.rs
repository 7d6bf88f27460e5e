//! Memory of a process, from the kernel's accounting.

use std::fs;
use std::io;

/// Returns the bytes of physical memory that process `pid` has now, its share of program code included. What the
/// kernel holds for its sockets is not among them.
///
/// # Errors
/// The system's error, for example if there is no such process.
pub(crate) fn resident_bytes(pid: u32) -> io::Result<u64> {
    // Exact, where the numbers of `status` lag behind by some pages of each thread.
    let text = fs::read_to_string(format!("/proc/{pid}/smaps_rollup"))?;
    parse(&text).ok_or_else(|| io::Error::other("the kernel tells no resident memory"))
}

/// Parses the line `Rss:               1234 kB`.
fn parse(text: &str) -> Option<u64> {
    let rest = text.lines().find_map(|line| line.strip_prefix("Rss:"))?;
    let kilobytes: u64 = rest.trim().strip_suffix(" kB")?.trim().parse().ok()?;
    Some(kilobytes * 1024)
}

#[cfg(test)]
mod tests {
    use std::process::Command;

    use super::*;

    #[test]
    fn the_resident_bytes_are_read() {
        let text = "00400000-7ffe ---p 00000000 00:00 0 [rollup]\nRss:                1776 kB\nPss: 9 kB\n";
        assert_eq!(parse(text), Some(1776 * 1024));
        assert_eq!(parse("Pss: 9 kB\n"), None);
    }

    #[test]
    fn memory_that_is_written_is_resident() {
        let written = std::hint::black_box(vec![1_u8; 64 << 20]);
        let own = resident_bytes(std::process::id()).expect("this process");
        assert!(own >= written.len() as u64, "{own} bytes");
        let mut small = Command::new("sleep").arg("1000").spawn().expect("a program of the system");
        let others = resident_bytes(small.id());
        small.kill().and_then(|()| small.wait()).expect("it ends");
        let others = others.expect("another process");
        assert!((1..written.len() as u64).contains(&others), "{others} bytes");
        drop(written);
        resident_bytes(u32::MAX).expect_err("nobody has this number");
    }
}
