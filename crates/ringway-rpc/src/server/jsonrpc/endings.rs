//! How calls and connections end that do not end by an answer: drains, peers that stand still, want of memory.

use std::time::Duration;

use ringway_wire::jsonrpc::{KeptId, Lines};
use ringway_wire::native::{MetaWriter, Reply, Side};

use super::read_request::ReadRequest;
use super::state::JsonMachine;
use super::told::Told;
use super::violation::JsonViolation;
use crate::call::status::Code;

impl JsonMachine {
    pub(super) fn next_deadline(&self) -> Option<Duration> {
        let drain = self.drain.map(|drain| drain.until.unwrap_or(self.now));
        [drain, self.part_until(), self.stall.due].into_iter().flatten().min()
    }

    /// When a line is late whose end is missing.
    fn part_until(&self) -> Option<Duration> {
        let part_at = self.part_at.filter(|_| self.unread_since.is_none());
        part_at.map(|at| at.saturating_add(self.config.stall_timeout))
    }

    pub(super) fn do_what_is_due(&mut self, now: Duration) -> Result<(), JsonViolation> {
        let limit = self.config.stall_timeout;
        if self.part_until().is_some_and(|until| until <= now) {
            self.unserved.overdue += 1;
            return Err(JsonViolation::Overdue);
        }
        if self.stall.look(now, limit) {
            self.unserved.stalled += 1;
            return Err(JsonViolation::Stalled);
        }
        if let Some(drain) = &mut self.drain {
            let until = *drain.until.get_or_insert(now.saturating_add(drain.length));
            if until <= now {
                drain.until = Some(Duration::MAX);
                let (refusal, why) = (drain.refusal(), drain.end());
                self.refuse_begun(refusal);
                self.end_all(why);
            }
        }
        Ok(())
    }

    /// Refuses the requests that have waited in vain to become calls.
    fn refuse_begun(&mut self, text: &str) {
        self.begun_len = 0;
        for ReadRequest { id, batch, .. } in std::mem::take(&mut self.begun) {
            self.refuse(id.as_ref().map(KeptId::id), batch, Code::Unavailable, text);
        }
    }

    /// Ends all calls because their time is over.
    fn end_all(&mut self, text: &str) {
        let mut meta = Vec::new();
        MetaWriter::new(&mut meta).status_message(text);
        let status = Code::Unavailable.number();
        for stream in self.calls.streams() {
            self.answer_call(stream, Reply { status, meta: &meta, message: None });
            self.told.push_back(Told::Failed(stream, status));
        }
    }

    /// Gives up the connection for the memory that it holds. False if that is none.
    pub(super) fn give_up_memory(&mut self, side: Side) -> bool {
        if side == Side::Unread && self.carried.kept() > 0 {
            self.carried.give_up();
            return true;
        }
        let held = match side {
            Side::Unread => self.lines.part_len(),
            Side::Unsent => self.output.len() + self.batches.len(),
        };
        if held == 0 || self.failed.is_some() {
            return false;
        }
        match side {
            Side::Unread => {
                self.lines = Lines::new(self.config.text_max);
                self.part_at = None;
            }
            Side::Unsent => {
                self.batches.clear();
                self.discarded.extend(self.output.discard());
            }
        }
        self.failed = Some(JsonViolation::OutOfMemory);
        true
    }
}
