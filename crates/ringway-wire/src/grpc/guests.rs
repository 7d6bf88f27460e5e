//! Requests on a gRPC server's connections that are no calls, for somebody who answers HTTP.

use std::collections::BTreeMap;

use super::guest_event::GuestEvent;
use super::server::GrpcServer;
use crate::http2::{ErrorCode, Line, StreamHandle};
use crate::limits::GUEST_FIELD_COST;
use crate::native::{Body, Gone, Piece, ServerEvent};

/// The open requests, by the slots of their streams.
#[derive(Debug, Default)]
pub(super) struct Guests {
    open: BTreeMap<usize, Guest>,
    /// Memory that a request takes beside its fields and its content.
    cost: usize,
    /// Requests whose content has not come whole, and that have not begun.
    unbegun: usize,
    /// Memory of all requests: their costs, their fields and the content that nobody has taken.
    kept: usize,
}

#[derive(Debug)]
struct Guest {
    stream: StreamHandle,
    /// Its cost and its fields.
    held: usize,
    unread: usize,
    /// Whether its content has not come whole, and it has not begun.
    is_unbegun: bool,
    /// Whether the head of the answer was sent.
    has_head: bool,
}

impl Guests {
    fn get(&mut self, stream: StreamHandle) -> Option<&mut Guest> {
        self.open.get_mut(&stream.slot()).filter(|guest| guest.stream == stream)
    }

    fn remove(&mut self, stream: StreamHandle) -> Option<Guest> {
        self.get(stream)?;
        let guest = self.open.remove(&stream.slot())?;
        self.kept -= guest.kept();
        self.unbegun -= usize::from(guest.is_unbegun);
        Some(guest)
    }

    pub(super) fn kept(&self) -> usize {
        self.kept
    }

    pub(super) fn unbegun(&self) -> usize {
        self.unbegun
    }

    fn note_begun(&mut self, stream: StreamHandle) {
        let begun = self.get(stream).is_some_and(|guest| std::mem::take(&mut guest.is_unbegun));
        self.unbegun -= usize::from(begun);
    }

    fn largest(&self) -> Option<(StreamHandle, usize)> {
        let guests = self.open.values().map(|guest| (guest.stream, guest.kept()));
        guests.filter(|&(_, len)| len > 0).max_by_key(|&(_, len)| len)
    }
}

impl Guest {
    fn kept(&self) -> usize {
        self.held + self.unread
    }
}

/// An event of a request that is no call.
fn told<'i>(stream: StreamHandle, event: GuestEvent<'i>) -> Option<ServerEvent<'i>> {
    Some(ServerEvent::Guest { stream, event })
}

impl GrpcServer {
    /// Reports requests that are no calls, from now on; without this they are refused. Each counts among the
    /// [unread bytes](Self::kept_len) with `cost` and its fields until it is answered.
    pub fn host_guests(&mut self, cost: usize) {
        self.guests = Some(Box::new(Guests { cost, ..Guests::default() }));
        self.http.keep_foreign_texts();
    }

    /// Reports the head of a request that is no call; `None` if such requests are refused.
    #[cold]
    pub(super) fn on_guest<'i>(
        &mut self,
        stream: StreamHandle,
        data: Piece<'i>,
        end: bool,
    ) -> Option<ServerEvent<'i>> {
        let guests = self.guests.as_mut()?;
        let is_cut = self.http.fields().is_cut();
        let texts = self.http.take_texts();
        let fields = texts.iter().map(|(name, value)| name.len() + value.len() + GUEST_FIELD_COST);
        let held = guests.cost + fields.sum::<usize>();
        let guest = Guest { stream, held, unread: data.len(), is_unbegun: !end, has_head: false };
        guests.kept += guest.kept();
        guests.unbegun += usize::from(!end);
        guests.open.insert(stream.slot(), guest);
        told(stream, GuestEvent::Head { texts, is_cut, data, end })
    }

    /// Reports content of a request that is no call.
    #[cold]
    pub(super) fn on_guest_content<'i>(
        &mut self,
        stream: StreamHandle,
        data: Piece<'i>,
        end: bool,
    ) -> Option<ServerEvent<'i>> {
        let guests = self.guests.as_mut()?;
        let guest = guests.get(stream)?;
        guest.unread += data.len();
        guests.kept += data.len();
        if end {
            guests.note_begun(stream);
        }
        told(stream, GuestEvent::Data { data, end })
    }

    #[cold]
    pub(super) fn on_guest_writable(
        &mut self,
        stream: StreamHandle,
    ) -> Option<ServerEvent<'static>> {
        self.guests.as_mut()?.get(stream)?;
        told(stream, GuestEvent::Writable)
    }

    #[cold]
    pub(super) fn on_guest_gone(&mut self, stream: StreamHandle) -> Option<ServerEvent<'static>> {
        self.guests.as_mut()?.remove(stream)?;
        told(stream, GuestEvent::Gone)
    }

    /// Reports that a guest has become a call, which the caller counts. It does not count as [unbegun](Self::unbegun) from
    /// now on, although more of its content comes.
    pub fn guest_begun(&mut self, stream: StreamHandle) {
        self.guests.iter_mut().for_each(|guests| guests.note_begun(stream));
    }

    /// Reports that so many bytes of a guest's content were taken, so that credit for them is
    /// returned.
    pub fn guest_taken(&mut self, stream: StreamHandle, bytes: usize) {
        let Some(guests) = &mut self.guests else { return };
        let Some(guest) = guests.get(stream) else { return };
        let bytes = bytes.min(guest.unread);
        guest.unread -= bytes;
        guests.kept -= bytes;
        self.http.taken(stream, bytes);
    }

    /// Asks the client for the content of its request, if it waits for that (RFC 9110, section 15.2.1).
    ///
    /// # Errors
    ///
    /// Returns [`Gone`] when the request is over, or its answer has begun.
    pub fn guest_continue(&mut self, stream: StreamHandle) -> Result<(), Gone> {
        let guest = self.guests.as_mut().and_then(|guests| guests.get(stream)).ok_or(Gone)?;
        if guest.has_head {
            return Err(Gone);
        }
        let line = Line::Once { name: b":status", value: b"100" };
        self.http.head(stream, &[line], false)
    }

    /// Sends the head of an answer; `end` says that there is nothing else.
    ///
    /// # Errors
    ///
    /// Returns [`Gone`] when the request is over, or has a head already.
    pub fn guest_head(
        &mut self,
        stream: StreamHandle,
        lines: &[Line<'_>],
        end: bool,
    ) -> Result<(), Gone> {
        let guest = self.guests.as_mut().and_then(|guests| guests.get(stream)).ok_or(Gone)?;
        if std::mem::replace(&mut guest.has_head, true) {
            return Err(Gone);
        }
        self.http.head(stream, lines, end)?;
        self.end_guest(stream, end);
        Ok(())
    }

    /// Sends a part of an answer's content; `end` marks the last part.
    ///
    /// What exceeds the client's credit is queued without limit: `false` asks the caller to
    /// [wait](Self::guest_has_room) before the next part.
    ///
    /// # Errors
    ///
    /// Returns [`Gone`] when the request is over, or has no head yet.
    pub fn guest_send(
        &mut self,
        stream: StreamHandle,
        body: Body<'_>,
        end: bool,
    ) -> Result<bool, Gone> {
        let guest = self.guests.as_mut().and_then(|guests| guests.get(stream)).ok_or(Gone)?;
        if !guest.has_head {
            return Err(Gone);
        }
        let has_room = self.http.send(stream, &[], body, end)?;
        self.end_guest(stream, end);
        Ok(has_room)
    }

    fn end_guest(&mut self, stream: StreamHandle, end: bool) {
        if end && let Some(guests) = &mut self.guests {
            let _answered = guests.remove(stream);
        }
    }

    /// Whether more of an answer may be sent; if not, [`Writable`](GuestEvent::Writable) tells when
    /// it may.
    #[must_use]
    pub fn guest_has_room(&self, stream: StreamHandle) -> bool {
        self.http.has_room(stream)
    }

    /// Cuts an answer off.
    pub fn guest_reset(&mut self, stream: StreamHandle, code: ErrorCode) {
        let guest = self.guests.as_mut().and_then(|guests| guests.remove(stream));
        if guest.is_some() {
            self.http.reset(stream, code);
        }
    }

    /// Bytes of fields that the client accepts in a head, with 32 added for each field.
    #[must_use]
    pub fn guest_head_max(&self) -> u32 {
        self.http.peer_header_list_max()
    }

    /// Answers a request by 503, which whoever answers it has not begun to do.
    #[cold]
    pub fn guest_refuse(&mut self, stream: StreamHandle) {
        let guest = self.guests.as_mut().and_then(|guests| guests.remove(stream));
        if let Some(guest) = guest {
            self.http.unserved.refused += 1;
            self.answer_in_place(&guest, ErrorCode::REFUSED_STREAM);
        }
    }

    /// Ends a request in place of whoever answers it, who is told: by 503 if nothing was answered
    /// yet.
    #[cold]
    fn give_up_guest(&mut self, stream: StreamHandle, code: ErrorCode) {
        let Some(guest) = self.guests.as_mut().and_then(|guests| guests.remove(stream)) else {
            return;
        };
        self.answer_in_place(&guest, code);
        self.pending.extend(told(stream, GuestEvent::Gone));
    }

    fn answer_in_place(&mut self, guest: &Guest, code: ErrorCode) {
        let line = Line::Once { name: b":status", value: b"503" };
        if guest.has_head || self.http.head(guest.stream, &[line], true).is_err() {
            self.http.reset(guest.stream, code);
        }
    }

    /// Ends all requests because the drain is over.
    pub(super) fn give_up_guests(&mut self) {
        let Some(guests) = &self.guests else { return };
        let open: Vec<_> = guests.open.values().map(|guest| guest.stream).collect();
        open.into_iter().for_each(|stream| self.give_up_guest(stream, ErrorCode::CANCEL));
    }

    /// The request that takes the most memory.
    pub(super) fn largest_guest(&self) -> Option<(StreamHandle, usize)> {
        self.guests.as_ref()?.largest()
    }

    /// Ends a request that keeps the most bytes. `false` means that the stream is a call's.
    pub(super) fn end_large_guest(&mut self, stream: StreamHandle) -> bool {
        let is_guest = self.guests.as_mut().is_some_and(|guests| guests.get(stream).is_some());
        if is_guest {
            self.give_up_guest(stream, ErrorCode::ENHANCE_YOUR_CALM);
        }
        is_guest
    }
}
