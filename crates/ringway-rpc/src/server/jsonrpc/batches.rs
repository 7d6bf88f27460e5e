//! Batches whose replies are not all there.

use ringway_wire::jsonrpc::Replies;

/// What appends a reply.
pub(super) type Write<'a> = &'a mut dyn FnMut(&mut Vec<u8>);

/// The batches of one connection. The bound on messages of a batch bounds each, and memory is counted.
#[derive(Debug, Default)]
pub(super) struct Batches {
    slots: Vec<Option<ReplyBatch>>,
    free: Vec<u32>,
    /// Bytes of all replies.
    len: usize,
}

#[derive(Debug)]
struct ReplyBatch {
    replies: Replies,
    out: Vec<u8>,
    /// Messages whose replies are missing.
    missing: usize,
}

impl Batches {
    /// Begins a batch of so many messages.
    pub(super) fn begin(&mut self, messages: usize) -> u32 {
        let batch = ReplyBatch { replies: Replies::new(true), out: Vec::new(), missing: messages };
        match self.free.pop() {
            Some(index) => {
                self.slots[index as usize] = Some(batch);
                index
            }
            None => {
                self.slots.push(Some(batch));
                self.slots.len() as u32 - 1
            }
        }
    }

    /// Takes in the reply to one message, which `write` appends; of a notification it appends nothing. The text
    /// of the whole batch when it is the last, which is empty if nothing is to be answered.
    pub(super) fn reply(&mut self, index: u32, write: Option<Write<'_>>) -> Option<Vec<u8>> {
        let slot = self.slots.get_mut(index as usize)?;
        let batch = slot.as_mut()?;
        let before = batch.out.len();
        if let Some(write) = write {
            batch.replies.begin(&mut batch.out);
            write(&mut batch.out);
        }
        self.len += batch.out.len() - before;
        batch.missing -= 1;
        if batch.missing > 0 {
            return None;
        }
        let ReplyBatch { replies, mut out, .. } = slot.take()?;
        self.free.push(index);
        self.len -= out.len();
        replies.end(&mut out);
        Some(out)
    }

    /// Bytes of replies that wait for others.
    pub(super) fn len(&self) -> usize {
        self.len
    }

    pub(super) fn clear(&mut self) {
        *self = Self::default();
    }
}
