//! Assembles whole frames from slices that the network cut anywhere.

use std::ops::ControlFlow;

use crate::limits::{ACCUMULATOR_EAGER, ACCUMULATOR_KEPT, READ_AHEAD_MAX, READ_AHEAD_MIN};
use crate::{Codec, Decoded, Error};

/// Applies a codec to a sequence of received slices.
///
/// Frames inside one slice are borrowed from it. Only a frame that straddles two slices is
/// copied, into an accumulator that never exceeds the codec's
/// [`frame_len_max`](Codec::frame_len_max) and grows with the bytes that arrive, not with the
/// length that a peer announces.
///
/// A framer that failed repeats its error, because the frame boundaries are lost.
///
/// # Examples
///
/// ```
/// use ringway_wire::{Error, Framer, Line};
///
/// let mut framer = Framer::new(Line::new(16));
/// let mut lines = Vec::new();
/// for slice in [&b"one\ntw"[..], b"o\nthree"] {
///     framer.push(slice, |line| lines.push(line.to_vec()))?;
/// }
/// assert_eq!(lines, [&b"one"[..], b"two"]);
///
/// // The peer closes, but "three" had no end.
/// assert_eq!(framer.finish(), Err(Error::TruncatedFrame { buffered: 5 }));
/// # Ok::<(), Error>(())
/// ```
#[derive(Debug)]
pub struct Framer<C> {
    codec: C,
    /// The codec's limit, read once so that a codec which changes it cannot break the invariants of
    /// `tail`.
    frame_len_max: usize,
    /// The start of an incomplete frame, shorter than `need`.
    tail: Vec<u8>,
    /// The length that the codec last asked for while `tail` is not empty; at most `frame_len_max`.
    need: usize,
    failed: Option<Error>,
}

/// How much of a slice a framer has processed; see [`Framer::push_while`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Pushed {
    /// Number of frames handed to the closure.
    pub frames: usize,
    /// Number of bytes processed: all of them unless the closure stopped early.
    pub consumed: usize,
}

impl<C: Codec> Framer<C> {
    /// Creates a framer for the start of a stream; it holds no memory until a frame straddles two
    /// slices.
    #[must_use]
    pub fn new(codec: C) -> Self {
        let frame_len_max = codec.frame_len_max();
        Self { codec, frame_len_max, tail: Vec::new(), need: 0, failed: None }
    }

    /// Takes the next bytes of the stream and calls `on_frame` for every frame that they complete.
    ///
    /// Returns the number of frames. All of `input` is taken: the rest after the last whole frame
    /// is copied.
    ///
    /// # Examples
    ///
    /// In a full receive buffer of 64 KiB with 32-byte frames, nothing is copied:
    ///
    /// ```
    /// use ringway_wire::{Codec, Framer, LengthField};
    ///
    /// let mut framer = Framer::new(LengthField::u32_le());
    /// let mut received = Vec::new();
    /// for _ in 0..2048 {
    ///     framer.codec_mut().encode(&[7; 28], &mut received)?;
    /// }
    /// let mut payload_bytes = 0;
    /// let frames = framer.push(&received, |frame| payload_bytes += frame.payload.len())?;
    /// assert_eq!((frames, payload_bytes, framer.capacity()), (2048, 2048 * 28, 0));
    /// # Ok::<(), ringway_wire::Error>(())
    /// ```
    ///
    /// # Errors
    ///
    /// Returns the codec's error after the frames before the bad bytes were handed over, and the
    /// same error at every later call. Returns [`CodecFault`](Error::CodecFault) when the codec
    /// breaks its contract.
    #[inline]
    pub fn push(
        &mut self,
        input: &[u8],
        mut on_frame: impl FnMut(C::Item<'_>),
    ) -> Result<usize, Error> {
        let pushed = self.push_while(input, |item| {
            on_frame(item);
            ControlFlow::Continue(())
        })?;
        Ok(pushed.frames)
    }

    /// Like [`push`](Self::push), but stops after a frame for which `on_frame` returns `Break`.
    ///
    /// The bytes after that frame are not taken: the next push must start with `input[consumed..]`.
    ///
    /// # Errors
    ///
    /// Fails as [`push`](Self::push) does.
    #[inline]
    pub fn push_while(
        &mut self,
        input: &[u8],
        on_frame: impl FnMut(C::Item<'_>) -> ControlFlow<()>,
    ) -> Result<Pushed, Error> {
        if let Some(error) = &self.failed {
            return Err(error.clone());
        }
        let result = self.take(input, on_frame);
        if let Err(error) = &result {
            self.fail(error);
        }
        result
    }

    /// Tells the framer that the stream ended.
    ///
    /// # Errors
    ///
    /// Returns [`TruncatedFrame`](Error::TruncatedFrame) when the start of a frame is left over,
    /// and the error of an earlier push if one failed.
    pub fn finish(&mut self) -> Result<(), Error> {
        if self.failed.is_none() && !self.tail.is_empty() {
            self.fail(&Error::TruncatedFrame { buffered: self.tail.len() });
        }
        self.failed.clone().map_or(Ok(()), Err)
    }

    /// Number of bytes buffered of an incomplete frame.
    #[must_use]
    pub fn buffered(&self) -> usize {
        self.tail.len()
    }

    /// Capacity of the buffer in bytes.
    #[must_use]
    pub fn capacity(&self) -> usize {
        self.tail.capacity()
    }

    /// Frees the buffer for straddling frames, unless it is in use.
    ///
    /// A push leaves at most 4 KiB behind. Call this when a connection becomes idle and even that
    /// is too much.
    pub fn release(&mut self) {
        if self.tail.is_empty() {
            self.tail = Vec::new();
        }
    }

    /// The codec of this framer.
    #[must_use]
    pub fn codec(&self) -> &C {
        &self.codec
    }

    /// The codec, for encoding. Decoding with it would break the framer.
    #[must_use]
    pub fn codec_mut(&mut self) -> &mut C {
        &mut self.codec
    }

    #[inline]
    fn take(
        &mut self,
        input: &[u8],
        mut on_frame: impl FnMut(C::Item<'_>) -> ControlFlow<()>,
    ) -> Result<Pushed, Error> {
        let mut pushed = Pushed::default();
        if !self.tail.is_empty() {
            let flow = self.complete_tail(input, &mut pushed, &mut on_frame)?;
            if flow.is_break() {
                return Ok(pushed);
            }
        }
        let mut rest = &input[pushed.consumed..];
        while !rest.is_empty() {
            match self.codec.decode(rest)? {
                Decoded::Frame { item, consumed } => {
                    if consumed == 0 || consumed > rest.len() {
                        return Err(FRAME_OUT_OF_INPUT);
                    }
                    pushed.frames += 1;
                    rest = &rest[consumed..];
                    if on_frame(item).is_break() {
                        break;
                    }
                }
                Decoded::NeedAtLeast(need) => {
                    self.keep(rest, need)?;
                    rest = &[];
                }
            }
        }
        pushed.consumed = input.len() - rest.len();
        Ok(pushed)
    }

    /// Appends bytes of `input` to the straddling frame until it is complete or `input` is used up.
    /// Breaks when the frame is still incomplete, or when `on_frame` does.
    fn complete_tail(
        &mut self,
        input: &[u8],
        pushed: &mut Pushed,
        on_frame: &mut impl FnMut(C::Item<'_>) -> ControlFlow<()>,
    ) -> Result<ControlFlow<()>, Error> {
        while pushed.consumed < input.len() {
            let held = self.tail.len();
            let fresh = self.append(&input[pushed.consumed..]);
            if self.tail.len() < self.need {
                pushed.consumed += fresh;
                break;
            }
            let flow = match self.codec.decode(&self.tail)? {
                Decoded::NeedAtLeast(need) => {
                    check_need(need, self.tail.len(), self.frame_len_max)?;
                    self.need = need;
                    pushed.consumed += fresh;
                    continue;
                }
                Decoded::Frame { item, consumed } => {
                    // The buffered bytes alone were no frame, so the frame must end in the new
                    // ones.
                    if consumed <= held || consumed > self.tail.len() {
                        return Err(FRAME_OUT_OF_INPUT);
                    }
                    pushed.consumed += consumed - held;
                    pushed.frames += 1;
                    on_frame(item)
                }
            };
            self.clear_tail();
            return Ok(flow);
        }
        Ok(ControlFlow::Break(()))
    }

    /// Copies to the tail what the codec needs of `input`, or somewhat more, since a codec that
    /// searches asks for one byte at a time. Returns the number of bytes copied.
    fn append(&mut self, input: &[u8]) -> usize {
        let held = self.tail.len();
        // More is buffered than needed only if `on_frame` panicked on the straddling frame
        // before.
        let needed = self.need.saturating_sub(held);
        let wanted = needed.max(held.clamp(READ_AHEAD_MIN, READ_AHEAD_MAX));
        let room = self.frame_len_max - held;
        let fresh = wanted.min(room).min(input.len());
        self.reserve(held + fresh);
        self.tail.extend_from_slice(&input[..fresh]);
        fresh
    }

    #[cold]
    fn keep(&mut self, rest: &[u8], need: usize) -> Result<(), Error> {
        check_need(need, rest.len(), self.frame_len_max)?;
        self.need = need;
        self.reserve(rest.len());
        self.tail.extend_from_slice(rest);
        Ok(())
    }

    /// Makes room for `len` bytes in total: at once for a short frame, by doubling for a long one,
    /// and never for more than the longest frame.
    fn reserve(&mut self, len: usize) {
        if len > self.tail.capacity() {
            let announced = self.need.min(ACCUMULATOR_EAGER);
            let doubled = self.tail.capacity().saturating_mul(2);
            let target = len.max(announced).max(doubled).min(self.frame_len_max);
            self.tail.reserve_exact(target - self.tail.len());
        }
    }

    fn clear_tail(&mut self) {
        self.tail.clear();
        if self.tail.capacity() > ACCUMULATOR_KEPT {
            self.tail = Vec::new();
        }
    }

    #[cold]
    fn fail(&mut self, error: &Error) {
        self.failed = Some(error.clone());
        self.tail = Vec::new();
    }
}

fn check_need(need: usize, have: usize, frame_len_max: usize) -> Result<(), Error> {
    if need > have && need <= frame_len_max {
        return Ok(());
    }
    Err(Error::CodecFault { what: "needs no more than it has, or more than its longest frame" })
}

const FRAME_OUT_OF_INPUT: Error = Error::CodecFault { what: "a frame outside the new input" };
