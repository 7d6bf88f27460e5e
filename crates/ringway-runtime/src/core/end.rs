//! The end of a core, orderly or after a failure: no more input, waiters are told, queues are sent,
//! and everything is closed.

use std::io;

use super::{Core, registry};
use crate::contain::{contain, drop_contained, drop_each};
use crate::driver::Event;
use crate::driver::ended::Ended;
use crate::io::Socket;
use crate::limits;
use crate::timer::wheel::Wheel;

impl Core {
    /// Ends the core. Every step is taken even if an earlier one fails. No step runs a task or a
    /// message: they are dropped, and their handles told.
    pub(crate) fn end(&self) {
        let step = |step: &dyn Fn()| {
            contain("the end of a core", step);
        };
        step(&|| self.shared.mailbox.close());
        step(&|| self.end_listeners());
        step(&|| self.drop_messages());
        step(&|| self.tasks.end());
        step(&|| self.drop_callbacks());
        step(&|| self.end_sockets());
        step(&|| {
            if let Err(error) = self.run_down() {
                tracing::warn!(%error, "the sockets of an ending core were not closed in order");
            }
        });
        step(&|| self.drop_timers());
        step(&|| self.abandon_sockets());
        step(&|| registry::forget(&self.shared));
    }

    /// Drops the messages that came after the last turn. The mailbox is closed, so no more come.
    fn drop_messages(&self) {
        let mut inbox = self.inbox.take();
        self.shared.mailbox.drain(&mut inbox.messages, &mut inbox.wakes);
        drop_each("a message that was not run", inbox.messages);
    }

    /// Drops the callbacks of streams, which own their streams, and any that their destructors add.
    fn drop_callbacks(&self) {
        for _ in 0..limits::CLEAR_ROUNDS_MAX {
            let mut found = false;
            let keys = self.sockets.borrow().keys();
            for key in keys {
                let callback = match self.sockets.borrow_mut().at(key) {
                    Some(Socket::Stream(state)) => state.callback.take(),
                    _ => None,
                };
                found |= callback.is_some();
                drop_contained("the destructor of a callback", callback);
            }
            if !found {
                return;
            }
        }
    }

    /// Turns until every socket is closed and every operation is answered, within a time limit.
    fn run_down(&self) -> io::Result<()> {
        self.turn_until_closed()?;
        if self.open.get() > 0 {
            self.abort_sockets();
            self.turn_until_closed()?;
        }
        Ok(())
    }

    fn turn_until_closed(&self) -> io::Result<()> {
        let deadline = self.driver.borrow().now() + limits::TEARDOWN_WAIT;
        while self.open.get() > 0 && self.now() < deadline {
            self.turn(Some(limits::RUN_DOWN_TURN), &|| false)?;
        }
        Ok(())
    }

    /// Closes everything at once, for a core that has failed or whose kernel does not answer: the
    /// driver is replaced, and holders of sockets are told. Sockets that destructors open meanwhile
    /// end the same way.
    fn abandon_sockets(&self) {
        for _ in 0..limits::CLEAR_ROUNDS_MAX {
            if self.open.get() == 0 {
                return;
            }
            self.drop_events();
            let former = self.driver.replace(Box::new(Ended::default()));
            drop_contained("the driver of a core that has failed", former);
            contain("the end of operations on files", || self.end_file_ops());
            let open = self.sockets.borrow().keys_of(|socket| !socket.is_closed());
            self.open.set(open.len());
            for key in open {
                contain("the end of a socket", || self.on_closed(key));
            }
        }
    }

    /// Drops the events that a panicked turn has left behind.
    fn drop_events(&self) {
        for event in self.events.take() {
            match event {
                Event::Accepted { fd, .. } => self.driver.borrow_mut().close_unregistered(fd),
                event => event.retire(),
            }
        }
    }

    fn drop_timers(&self) {
        let timers = self.timers.replace(Wheel::new(self.now()));
        drop_each("the destructor of a waker", timers.into_payloads());
        drop_each("the destructor of a waker", self.fired.take());
    }
}

#[cfg(test)]
impl Core {
    /// Makes the next turn panic.
    pub(crate) fn break_timers(&self) {
        std::mem::forget(self.timers.borrow_mut());
    }
}
