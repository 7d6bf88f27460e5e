//! What is to be sent: replies one after another.

use std::collections::VecDeque;

use bytes::Bytes;
use ringway_wire::native::Outgoing;

use crate::limits;

/// Texts that wait to be sent, in order.
#[derive(Debug, Default)]
pub(super) struct Output {
    /// What is written, of which the first `sent` bytes have been handed out.
    written: Vec<u8>,
    sent: usize,
    /// Long results, each with the place in `written` where it belongs.
    shared: VecDeque<(usize, Bytes)>,
    shared_len: usize,
    /// Whole texts, if each is to be taken by itself instead of standing on a line.
    texts: Option<VecDeque<Bytes>>,
    texts_len: usize,
}

impl Output {
    /// Texts that are taken one by one.
    pub(super) fn of_texts() -> Self {
        Self { texts: Some(VecDeque::new()), ..Self::default() }
    }

    /// Where a text is appended.
    #[inline]
    pub(super) fn target(&mut self) -> &mut Vec<u8> {
        &mut self.written
    }

    /// Puts bytes into the text that is being written without copying them, where that is possible.
    pub(super) fn put_shared(&mut self, bytes: Bytes) {
        if self.texts.is_some() {
            return self.written.extend_from_slice(&bytes);
        }
        self.shared_len += bytes.len();
        self.shared.push_back((self.written.len(), bytes));
    }

    /// Ends the text that was appended.
    #[inline]
    pub(super) fn end_text(&mut self) {
        match &mut self.texts {
            None => self.written.push(b'\n'),
            Some(texts) => {
                let text = Bytes::from(std::mem::take(&mut self.written));
                self.texts_len += text.len();
                texts.push_back(text);
            }
        }
    }

    /// The next text, where they are taken one by one.
    pub(super) fn next_text(&mut self) -> Option<Bytes> {
        let text = self.texts.as_mut()?.pop_front()?;
        self.texts_len -= text.len();
        Some(text)
    }

    /// Bytes that have not been handed out.
    #[inline]
    pub(super) fn len(&self) -> usize {
        self.written.len() - self.sent + self.shared_len + self.texts_len
    }

    /// Hands out about so many bytes.
    #[inline]
    pub(super) fn transmit(&mut self, budget: usize, out: &mut dyn FnMut(Outgoing<'_>)) {
        let mut left = budget;
        while left > 0 {
            let until = self.shared.front().map_or(self.written.len(), |(at, _)| *at);
            if self.sent < until {
                let end = until.min(self.sent.saturating_add(left));
                out(Outgoing::Copy(&self.written[self.sent..end]));
                left -= end - self.sent;
                self.sent = end;
            } else if let Some((_, mut bytes)) = self.shared.pop_front() {
                if bytes.len() > left {
                    let rest = bytes.split_off(left);
                    self.shared.push_front((self.sent, rest));
                }
                self.shared_len -= bytes.len();
                left -= bytes.len();
                out(Outgoing::Shared(bytes));
            } else {
                break;
            }
        }
        if self.sent == self.written.len() && self.shared.is_empty() {
            self.sent = 0;
            self.written.clear();
            self.written.shrink_to(limits::SERVER_SCRATCH_BYTES_KEPT);
        } else if self.sent >= limits::JSONRPC_SENT_KEPT && self.sent >= self.written.len() / 2 {
            self.compact();
        }
    }

    #[cold]
    fn compact(&mut self) {
        let sent = std::mem::take(&mut self.sent);
        self.written.drain(..sent);
        self.shared.iter_mut().for_each(|(at, _)| *at -= sent);
    }

    /// Bytes of memory that hold nothing.
    pub(super) fn spare_len(&self) -> usize {
        if self.written.is_empty() { self.written.capacity() } else { 0 }
    }

    pub(super) fn drop_spare(&mut self) {
        self.written.shrink_to_fit();
    }

    /// Forgets everything; memory that was shared is given back, to be dropped elsewhere.
    pub(super) fn discard(&mut self) -> impl Iterator<Item = Bytes> {
        let texts = self.texts.as_ref().map(|_| VecDeque::new());
        let Self { shared, .. } = std::mem::replace(self, Self { texts, ..Self::default() });
        shared.into_iter().map(|(_, bytes)| bytes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sent(output: &mut Output, budget: usize) -> Vec<u8> {
        let mut all = Vec::new();
        output.transmit(budget, &mut |outgoing| match outgoing {
            Outgoing::Copy(bytes) => all.extend_from_slice(bytes),
            Outgoing::Shared(bytes) => all.extend_from_slice(&bytes),
        });
        all
    }

    #[test]
    fn everything_leaves_in_order_however_it_is_cut() {
        for budget in 1..40 {
            let mut output = Output::default();
            for text in ["one", "two"] {
                output.target().extend_from_slice(b"<");
                output.put_shared(Bytes::from_static(text.as_bytes()));
                output.target().extend_from_slice(b">");
                output.end_text();
            }
            let mut all = Vec::new();
            while output.len() > 0 {
                let next = sent(&mut output, budget);
                assert!(!next.is_empty() && next.len() <= budget);
                all.extend(next);
            }
            assert_eq!(all, b"<one>\n<two>\n");
            assert_eq!(output.shared_len, 0);
        }
    }

    #[test]
    fn what_was_sent_is_not_kept_behind_what_was_not() {
        let mut output = Output::default();
        let text = vec![b'x'; 3 * limits::JSONRPC_SENT_KEPT];
        output.target().extend_from_slice(&text);
        output.put_shared(Bytes::from_static(b"shared"));
        output.end_text();
        let mut all = sent(&mut output, 2 * limits::JSONRPC_SENT_KEPT);
        assert_eq!(output.written.len(), limits::JSONRPC_SENT_KEPT + 1);
        all.extend(sent(&mut output, usize::MAX));
        assert_eq!(all, [&text[..], b"shared\n"].concat());
        assert_eq!(
            (output.len(), output.written.capacity()),
            (0, limits::SERVER_SCRATCH_BYTES_KEPT)
        );
    }

    #[test]
    fn texts_are_taken_one_by_one() {
        let mut output = Output::of_texts();
        for text in ["one", "two"] {
            output.put_shared(Bytes::from_static(text.as_bytes()));
            output.end_text();
        }
        assert_eq!(output.len(), 6);
        assert_eq!(output.next_text().as_deref(), Some(&b"one"[..]));
        assert_eq!(output.next_text().as_deref(), Some(&b"two"[..]));
        assert_eq!((output.next_text(), output.len()), (None, 0));
    }
}
