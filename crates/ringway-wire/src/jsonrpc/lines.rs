//! Messages of a byte stream, one on each line.

use memchr::memchr;

use crate::Error;
use crate::limits::ACCUMULATOR_KEPT;

/// Splits a stream of bytes at its line feeds.
///
/// A carriage return before one belongs to the end of the line, and blank lines are skipped. A line that lies
/// whole in one slice is borrowed from it; of one that does not each byte is copied once. Nothing is searched
/// twice, and no more is kept than the longest line.
///
/// # Examples
///
/// ```
/// use ringway_wire::jsonrpc::Lines;
///
/// let mut lines = Lines::new(1024);
/// let mut found = Vec::new();
/// for mut slice in [&b"{\"a\":1}\n\n{\"b\""[..], b":2}\r\n[]"] {
///     while let Some(line) = lines.next(&mut slice)? {
///         found.push(line.to_vec());
///     }
/// }
/// assert_eq!(found, [&b"{\"a\":1}"[..], b"{\"b\":2}"]);
/// assert_eq!(lines.rest(), b"[]");
/// # Ok::<(), ringway_wire::Error>(())
/// ```
#[derive(Debug)]
pub struct Lines {
    /// Bytes of the longest line, its end not counted.
    max: usize,
    /// The front of a line, without a line feed; at most `max` and a carriage return.
    part: Vec<u8>,
    /// `part` is a whole line that was handed out.
    is_done: bool,
    is_failed: bool,
}

impl Lines {
    /// Lines of at most `len_max` bytes, the line ending not counted. Holds no memory until a line is cut.
    #[must_use]
    pub const fn new(len_max: usize) -> Self {
        Self { max: len_max, part: Vec::new(), is_done: false, is_failed: false }
    }

    /// Takes the next line from the front of `input`; `None` has taken all of it.
    ///
    /// # Errors
    /// [`MissingDelimiter`](Error::MissingDelimiter) once a line is longer than the longest, before more of it
    /// is kept; from then on always. It is answered with [`Fault::NotJson`](super::Fault::NotJson), and the
    /// connection ends: nobody knows where its next message begins.
    #[inline]
    pub fn next<'a, 'i: 'a>(&'a mut self, input: &mut &'i [u8]) -> Result<Option<&'a [u8]>, Error> {
        if self.is_failed {
            return Err(self.too_long());
        }
        if self.is_done {
            self.clear();
        }
        loop {
            let Some(end) = memchr(b'\n', input) else {
                self.keep(input)?;
                *input = &[];
                return Ok(None);
            };
            let (line, rest) = input.split_at(end);
            *input = &rest[1..];
            if self.part.is_empty() {
                self.check(trimmed(line).len())?;
                if !is_blank(line) {
                    return Ok(Some(trimmed(line)));
                }
                continue;
            }
            self.keep(line)?;
            self.is_done = true;
            if !is_blank(&self.part) {
                break;
            }
            self.clear();
        }
        Ok(Some(trimmed(&self.part)))
    }

    /// Takes the next line if it lies whole in `input`, without its white space; then it outlives the splitter.
    /// `None` takes nothing: [`next`](Self::next) is to be asked.
    #[inline]
    pub fn next_whole<'i>(&mut self, input: &mut &'i [u8]) -> Option<&'i [u8]> {
        let is_between = self.is_done || self.part.is_empty();
        if !is_between || self.is_failed {
            return None;
        }
        let end = memchr(b'\n', input)?;
        let (line, rest) = input.split_at(end);
        let line = trimmed(line);
        if line.len() > self.max || is_blank(line) {
            return None;
        }
        *input = &rest[1..];
        Some(line)
    }

    /// Bytes of a line whose end has not come.
    #[inline]
    #[must_use]
    pub fn part_len(&self) -> usize {
        if self.is_done { 0 } else { self.part.len() }
    }

    /// The front of a line that has not ended: at the end of the stream it may be a message as well.
    #[must_use]
    pub fn rest(&self) -> &[u8] {
        if self.is_done || is_blank(&self.part) { &[] } else { trimmed(&self.part) }
    }

    /// Bytes of memory held, used or not.
    #[must_use]
    pub fn capacity(&self) -> usize {
        self.part.capacity()
    }

    /// Keeps the next piece of a line.
    fn keep(&mut self, piece: &[u8]) -> Result<(), Error> {
        let len = self.part.len() + piece.len();
        let last = piece.last().or(self.part.last());
        self.check(len - usize::from(last == Some(&b'\r')))?;
        if len > self.part.capacity() {
            let doubled = self.part.capacity().saturating_mul(2).min(self.max.saturating_add(1));
            self.part.reserve_exact(len.max(doubled) - self.part.len());
        }
        self.part.extend_from_slice(piece);
        Ok(())
    }

    fn clear(&mut self) {
        self.is_done = false;
        self.part.clear();
        if self.part.capacity() > ACCUMULATOR_KEPT {
            self.part = Vec::new();
        }
    }

    #[inline]
    fn check(&mut self, len: usize) -> Result<(), Error> {
        if len <= self.max {
            return Ok(());
        }
        self.is_failed = true;
        self.part = Vec::new();
        Err(self.too_long())
    }

    fn too_long(&self) -> Error {
        Error::MissingDelimiter { max: self.max }
    }
}

/// A line without the carriage return that belongs to its end.
#[inline]
fn trimmed(line: &[u8]) -> &[u8] {
    line.strip_suffix(b"\r").unwrap_or(line)
}

#[inline]
fn is_blank(line: &[u8]) -> bool {
    line.iter().all(|byte| matches!(byte, b' ' | b'\t' | b'\r'))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn all(max: usize, pieces: &[&[u8]]) -> (Vec<Vec<u8>>, Result<Vec<u8>, Error>) {
        let (mut lines, mut found) = (Lines::new(max), Vec::new());
        for mut piece in pieces.iter().copied() {
            loop {
                match lines.next(&mut piece) {
                    Ok(Some(line)) => found.push(line.to_vec()),
                    Ok(None) => break,
                    Err(error) => {
                        assert_eq!(lines.next(&mut &b"x\n"[..]), Err(error.clone()));
                        assert_eq!((lines.rest(), lines.capacity()), (&b""[..], 0));
                        return (found, Err(error));
                    }
                }
            }
            assert!(piece.is_empty() && lines.capacity() <= max + 1);
        }
        (found, Ok(lines.rest().to_vec()))
    }

    fn check(max: usize, stream: &[u8], expected: &[&str], rest: Result<&str, ()>) {
        let pieces = (0..=stream.len()).map(|at| stream.split_at(at)).map(|(a, b)| vec![a, b]);
        for pieces in pieces.chain([stream.chunks(1).collect(), stream.chunks(2).collect()]) {
            let (found, end) = all(max, &pieces);
            assert_eq!(
                found,
                expected.iter().map(|it| it.as_bytes()).collect::<Vec<_>>(),
                "{pieces:?}"
            );
            let error = Error::MissingDelimiter { max };
            assert_eq!(
                end,
                rest.map(|it| it.as_bytes().to_vec()).map_err(|()| error),
                "{pieces:?}"
            );
        }
    }

    #[test]
    fn lines_are_the_same_however_they_are_cut() {
        check(4, b"ab\ncd\r\nef", &["ab", "cd"], Ok("ef"));
        check(4, b"\n\r\n \t\r\na\n\n", &["a"], Ok(""));
        check(4, b" a \nb\r", &[" a "], Ok("b"));
        check(4, b"a\r\r\n\ra\n \r ", &["a\r", "\ra"], Ok(""));
        check(4, b"abcd\nabcd\r\nabcd", &["abcd", "abcd"], Ok("abcd"));
        check(4, b"a\nabcde\nb\n", &["a"], Err(()));
        check(4, b"a\nabcd\r\r\n", &["a"], Err(()));
        check(4, b"     \na\n", &[], Err(()));
        check(4, b"a\nabcde", &["a"], Err(()));
        check(0, b"\n\r\n", &[], Ok(""));
        check(0, b"a", &[], Err(()));
    }

    #[test]
    fn whole_lines_are_borrowed_and_an_endless_one_is_not_kept() {
        let mut lines = Lines::new(100_000);
        let input = b"{\"a\":1}\n{}\n".repeat(1000);
        let (mut rest, mut count) = (&input[..], 0);
        while let Some(line) = lines.next(&mut rest).expect("short lines") {
            assert!(input.as_ptr_range().contains(&line.as_ptr()));
            count += 1;
        }
        assert_eq!((count, lines.capacity()), (2000, 0));
        for _ in 0..10 {
            assert_eq!(lines.next(&mut &[b'x'; 10_000][..]), Ok(None));
        }
        assert!((100_000..=100_001).contains(&lines.capacity()));
        assert!(lines.next(&mut &b"x"[..]).is_err());
        assert_eq!(lines.capacity(), 0);
    }

    #[test]
    fn a_line_that_lies_whole_in_its_slice_outlives_the_splitter() {
        let mut lines = Lines::new(4);
        let mut input = &b"ab\r\n\ncd\nefghi\nj"[..];
        assert_eq!(lines.next_whole(&mut input), Some(&b"ab"[..]));
        assert_eq!(lines.next_whole(&mut input), None, "a blank line");
        assert_eq!(lines.next(&mut input), Ok(Some(&b"cd"[..])));
        assert_eq!((lines.next_whole(&mut input), input), (None, &b"efghi\nj"[..]));
        assert!(lines.next(&mut input).is_err() && lines.next_whole(&mut &b"a\n"[..]).is_none());

        let mut lines = Lines::new(4);
        assert_eq!(lines.next(&mut &b"a"[..]), Ok(None));
        assert_eq!((lines.next_whole(&mut &b"b\n"[..]), lines.part_len()), (None, 1));
        assert_eq!(lines.next(&mut &b"b\n"[..]), Ok(Some(&b"ab"[..])));
        assert_eq!((lines.next_whole(&mut &b"c\n"[..]), lines.part_len()), (Some(&b"c"[..]), 0));
    }

    #[test]
    fn the_memory_of_a_long_line_is_given_back() {
        let mut lines = Lines::new(100_000);
        for (len, kept) in [(50_000, false), (1_000, true)] {
            assert_eq!(lines.next(&mut &vec![b'x'; len][..]), Ok(None));
            assert_eq!(lines.next(&mut &b"\n"[..]).map(|it| it.map(<[u8]>::len)), Ok(Some(len)));
            assert_eq!(lines.next(&mut &b""[..]), Ok(None));
            assert_eq!(lines.capacity() > 0, kept);
        }
    }
}
