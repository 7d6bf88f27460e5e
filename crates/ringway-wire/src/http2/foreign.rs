//! Requests that are no calls, at a server that answers both: they need the texts of all their
//! fields, and calls only need what is known of them.

use super::connection::Connection;
use super::meaning::Method;
use super::role::Role;
use super::{Fields, Key, Texts};

/// What a connection does for requests that are no calls.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Foreign {
    /// Nothing: the caller refuses them.
    Unwanted,
    /// Their texts are wanted; there was none yet.
    Wanted,
    /// There was one, so all blocks are decoded with their texts.
    Seen,
}

impl<R: Role> Connection<R> {
    /// Keeps the texts of all fields of requests that are no [calls](super::Resolver::calls). Until a
    /// call comes, and again from the first other request on, all blocks are decoded with them.
    pub(crate) fn keep_foreign_texts(&mut self) {
        self.foreign = Foreign::Wanted;
        self.decoder.read_again();
        let size_max = self.config.max_header_list as usize;
        let fields = self.fields.get_or_insert_with(|| Box::new(Fields::new(size_max)));
        fields.keep_texts(true);
    }

    /// Takes the texts of the fields that the last event reported.
    pub(crate) fn take_texts(&mut self) -> Box<Texts> {
        self.fields.as_mut().map(|fields| fields.take_texts()).unwrap_or_default()
    }

    /// Looks what kind of request has come. `false` means that its texts are lost: nothing of it was
    /// processed, and if its client sends it again it has them.
    #[inline]
    pub(super) fn sort(&mut self, block: &[u8]) -> bool {
        let Some(fields) = &self.fields else { return true };
        match (self.vocabulary.is_foreign(fields.head()), fields.keeps_texts()) {
            (false, false) => true,
            (is_foreign, has_texts) => self.sort_rare(is_foreign, has_texts, block),
        }
    }

    #[cold]
    fn sort_rare(&mut self, is_foreign: bool, has_texts: bool, block: &[u8]) -> bool {
        let Some(fields) = &mut self.fields else { return true };
        if !is_foreign {
            if self.foreign == Foreign::Wanted {
                fields.keep_texts(false);
            }
            return true;
        }
        self.foreign = Foreign::Seen;
        if has_texts || fields.is_cut() {
            return true;
        }
        self.decoder.read_texts(block, fields.texts_mut()).is_some()
    }

    /// Whether the last block is a CONNECT as it has to be (RFC 9113, section 8.5), which is reported
    /// where other requests are wanted, for a proper refusal.
    pub(super) fn is_connect(&self) -> bool {
        let head = self.fields().head();
        self.foreign != Foreign::Unwanted
            && head.value(Key::METHOD) == Some(Method::Connect as u64)
            && head.has_pseudo_exactly(&[Key::METHOD])
            && head.has(Key::AUTHORITY)
    }
}
