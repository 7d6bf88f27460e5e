//! How a connection processes what it receives, a bounded part of it at once.

use std::rc::Rc;

use ringway_net::View;

use super::ServerConnection;
use crate::call::zero_copy;
use crate::server::machine::Machine;

impl<M: Machine> ServerConnection<M> {
    /// Processes received bytes, if there are any, and runs the calls that they request. What takes more than its
    /// share of the core's time is [put off](Self::take_put_off).
    pub(in crate::server) fn take_in(
        self: &Rc<Self>,
        view: Option<&View>,
    ) -> Result<(), M::Violation> {
        let taken = match view {
            None => self.take_events(&mut &[][..], None),
            Some(view) => {
                self.rest.note_use(self.core.now());
                let mut input = &view[..];
                let taken = self.take_events(&mut input, Some(view));
                let processed = view.len() - input.len();
                self.note_intake(processed);
                if taken.is_ok() && !input.is_empty() {
                    self.put_off.set(Some(Box::new(view.slice(processed..))));
                }
                taken
            }
        };
        if self.core.has_time() {
            self.begin_deferred();
        }
        self.settle();
        taken
    }

    /// Takes the received bytes that are to be processed next.
    pub(in crate::server) fn take_put_off(&self) -> Option<View> {
        self.put_off.take().map(|rest| *rest)
    }

    pub(in crate::server) fn has_put_off(&self) -> bool {
        let rest = self.put_off.take();
        let has_rest = rest.is_some();
        self.put_off.set(rest);
        has_rest
    }

    fn take_events(
        self: &Rc<Self>,
        input: &mut &[u8],
        view: Option<&View>,
    ) -> Result<(), M::Violation> {
        let now = self.core.now();
        self.core.start_batching();
        let taken = loop {
            let plain = self.machine.borrow_mut().receive_plain(input, now);
            if let Some(request) = plain {
                let message = zero_copy::in_place(request.message, view);
                self.on_plain(request.stream, &request.head, message, now);
                continue;
            }
            let mut machine = self.machine.borrow_mut();
            let event = machine.receive(input, now);
            let inflated = machine.take_inflated();
            drop(machine);
            if inflated > 0 {
                self.note_work(inflated);
            }
            match event {
                Ok(Some(event)) => {
                    self.on_event(event, view, now);
                    self.take_messages(input, view);
                    if self.intake.has_worked_enough() && !input.is_empty() {
                        break Ok(());
                    }
                }
                Ok(None) => break Ok(()),
                Err(violation) => break Err(violation),
            }
        };
        self.core.stop_batching();
        taken
    }

    /// Fast path for consecutive messages of streams.
    #[inline]
    fn take_messages(self: &Rc<Self>, input: &mut &[u8], view: Option<&View>) {
        loop {
            // The streams are declared first so that they are released last.
            let (mut streams, mut machine) = (self.streams(), self.machine());
            let left = loop {
                let Some((stream, message)) = machine.receive_message(input) else { return };
                let message = zero_copy::in_place(message, view);
                if streams.push(stream, message.clone()).is_err() {
                    break (stream, message);
                }
            };
            drop(machine);
            drop(streams);
            self.on_message(left.0, left.1, false);
        }
    }
}
