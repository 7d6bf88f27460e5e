//! The members of a message, and the messages of a text: one, or a batch (section 6 of the specification).

use super::fault::Fault;
use super::id::Id;
use super::scanner::{NotJson, Scanner};
use super::text::{unescape, without_halves};

/// The members of a message that mean something, each as its JSON. Of members with one name the last counts,
/// as it does to nearly all who read JSON.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Members<'a> {
    pub(super) jsonrpc: Option<&'a str>,
    pub(super) id: Option<&'a str>,
    pub(super) method: Option<&'a str>,
    pub(super) params: Option<&'a str>,
    pub(super) result: Option<&'a str>,
    pub(super) error: Option<&'a str>,
    pub(super) ringway: Option<&'a str>,
    /// A fault that can be told without them.
    fault: Option<Fault>,
}

impl<'a> Members<'a> {
    /// Takes the message that stands here.
    #[inline]
    fn take(scanner: &mut Scanner<'a>) -> Result<Self, NotJson> {
        let mut members = Self::default();
        if scanner.peek() != Some(b'{') {
            scanner.value()?;
            scanner.take_too_deep();
            members.fault = Some(Fault::NotAnObject);
            return Ok(members);
        }
        let names = ["jsonrpc", "id", "method", "params", "result", "error", "ringway"];
        scanner.object(names, |name, value| {
            let member = match name {
                0 => &mut members.jsonrpc,
                1 => &mut members.id,
                2 => &mut members.method,
                3 => &mut members.params,
                4 => &mut members.result,
                5 => &mut members.error,
                _ => &mut members.ringway,
            };
            *member = Some(value);
        })?;
        if scanner.take_too_deep() {
            members.fault = Some(Fault::TooDeep);
        }
        Ok(members)
    }

    /// The id to answer with, whatever else is wrong.
    pub(super) fn readable_id(&self) -> Id<'a> {
        self.id.and_then(Id::of_value).unwrap_or(Id::NULL)
    }

    /// # Errors
    /// Faults that a request and a response share.
    #[inline]
    pub(super) fn check(&self) -> Result<(), Fault> {
        match (self.fault, self.jsonrpc) {
            (Some(fault), _) => Err(fault),
            (None, Some(version)) if is_version(version) => Ok(()),
            (None, _) => Err(Fault::Version),
        }
    }

    /// # Errors
    /// As [`check`](Self::check), except that the version need not be said.
    #[inline]
    pub(super) fn check_response(&self) -> Result<(), Fault> {
        match (self.fault, self.jsonrpc) {
            (None, None) => Ok(()),
            _ => self.check(),
        }
    }
}

#[inline]
fn is_version(value: &str) -> bool {
    const VERSION: &str = "2.0";
    let content = value.strip_prefix('"').and_then(|value| value.strip_suffix('"'));
    content.is_some_and(|content| content == VERSION || unescape(content) == VERSION)
}

/// A text without the mark of its encoding in front, which may be ignored (RFC 8259, section 8.1).
#[inline]
fn text_of(bytes: &[u8]) -> Option<&str> {
    let text = str::from_utf8(bytes).ok()?;
    Some(text.strip_prefix('\u{feff}').unwrap_or(text))
}

/// The id of a message that is no JSON to us for halves of surrogate pairs alone, so that who sent it learns what became
/// of it: browsers write them as they come.
#[cold]
pub(super) fn id_beside_halves(bytes: &[u8]) -> Option<Id<'_>> {
    let text = text_of(bytes)?;
    let mended = without_halves(text)?;
    let mut scanner = Scanner::new(&mended);
    let id = Members::take(&mut scanner).ok()?.id.filter(|_| scanner.peek().is_none())?;
    let at = id.as_ptr() as usize - mended.as_ptr() as usize;
    Id::parse(text.get(at..at + id.len())?)
}

/// The messages of one text, in their order.
#[derive(Debug, Clone)]
pub(super) struct OneOrBatch<'a> {
    scanner: Scanner<'a>,
    /// The message of a text that is no batch.
    one: Option<Members<'a>>,
    is_batch: bool,
    /// Messages of the batch that are still to come.
    left: usize,
}

impl<'a> OneOrBatch<'a> {
    /// Checks a whole text: nothing is done for a batch that is not JSON at its end.
    ///
    /// # Errors
    /// Faults that are answered once for the whole text.
    #[inline]
    pub(super) fn new(text: &'a [u8], batch_max: usize) -> Result<Self, Fault> {
        let mut scanner = Scanner::new(text_of(text).ok_or(Fault::NotJson)?);
        if scanner.peek() == Some(b'[') {
            return Self::batch(scanner, batch_max);
        }
        let one = Members::take(&mut scanner);
        match one {
            Ok(one) if scanner.peek().is_none() => {
                Ok(Self { scanner, one: Some(one), is_batch: false, left: 0 })
            }
            _ => Err(Fault::NotJson),
        }
    }

    fn batch(mut scanner: Scanner<'a>, batch_max: usize) -> Result<Self, Fault> {
        scanner.take(b'[');
        let first = scanner.clone();
        let mut left = 0;
        if scanner.take(b']') {
            return if scanner.peek().is_none() {
                Err(Fault::EmptyBatch)
            } else {
                Err(Fault::NotJson)
            };
        }
        loop {
            // Read as it will be read again, so that nothing is found only then.
            Members::take(&mut scanner).map_err(|NotJson| Fault::NotJson)?;
            left += 1;
            if !scanner.take(b',') {
                break;
            }
            if left >= batch_max {
                return Err(Fault::BatchTooLong);
            }
        }
        if !scanner.take(b']') || scanner.peek().is_some() {
            return Err(Fault::NotJson);
        }
        Ok(Self { scanner: first, one: None, is_batch: true, left })
    }

    pub(super) fn is_batch(&self) -> bool {
        self.is_batch
    }

    pub(super) fn len(&self) -> usize {
        self.left + usize::from(self.one.is_some())
    }

    #[inline]
    pub(super) fn next(&mut self) -> Option<Members<'a>> {
        if self.left == 0 {
            return self.one.take();
        }
        self.left -= 1;
        // It was read before, and is what it was.
        let members = Members::take(&mut self.scanner).ok()?;
        self.scanner.take(b',');
        Some(members)
    }
}
