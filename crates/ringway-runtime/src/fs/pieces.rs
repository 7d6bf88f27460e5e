//! A file in pieces, for whoever passes it on.

use std::io;
use std::ops::Range;

use bytes::Bytes;

use super::file::File;
use crate::io::Stream;
use crate::limits;

/// A part of a file, read piece by piece; made by [`File::pieces`].
#[derive(Debug)]
pub struct Pieces {
    file: File,
    rest: Range<u64>,
}

impl Pieces {
    /// The next bytes, 128 KiB at most; `None` at the end of the part. Dropping the future loses nothing.
    ///
    /// # Errors
    /// `UnexpectedEof` where the file has become shorter than the part, or the kernel's.
    pub async fn next(&mut self) -> io::Result<Option<Bytes>> {
        let bytes = (self.rest.end - self.rest.start).min(limits::FILE_SENT_BYTES_MAX as u64);
        if bytes == 0 {
            return Ok(None);
        }
        let piece = self.file.read_at(self.rest.start, bytes as usize, Vec::new()).await?;
        if piece.is_empty() {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        self.rest.start += piece.len() as u64;
        Ok(Some(piece.into()))
    }

    /// The bytes that are still to come.
    #[must_use]
    pub fn remaining(&self) -> u64 {
        self.rest.end - self.rest.start
    }
}

impl File {
    /// A part of the file, to be passed on without being in memory as a whole. A range that ends before it
    /// begins is empty.
    pub fn pieces(&self, part: Range<u64>) -> Pieces {
        let rest = part.start..part.end.max(part.start);
        Pieces { file: self.clone(), rest }
    }

    /// Sends a part of the file, behind what is queued on the stream, as fast as the peer takes it. At most
    /// the low-water mark and one [piece](Pieces::next) of it are in memory. What the peer has not taken yet
    /// when this returns is queued.
    ///
    /// ```
    /// use std::rc::Rc;
    /// use ringway_runtime::fs::File;
    /// use ringway_runtime::io::{ListenOptions, Listener, Stream};
    ///
    /// # let path = std::env::temp_dir().join(format!("ringway-send-{}", std::process::id()));
    /// # std::fs::write(&path, "GET me not")?;
    /// # let kept = path.clone();
    /// ringway_runtime::block_on(async move {
    ///     let any_port = std::net::SocketAddr::from(([127, 0, 0, 1], 0)).into();
    ///     let listener = Listener::bind(&any_port, ListenOptions::default())?;
    ///     let client = Stream::connect(listener.local_addr()).await?;
    ///     let server = listener.accept().await?.into_stream(&Rc::default())?;
    ///     let file = File::open(&path).await?;
    ///     file.send_to(&server, 4..6).await?;
    ///     server.shutdown();
    ///     assert_eq!(&*client.recv().await?.expect("a part"), b"me");
    ///     std::io::Result::Ok(())
    /// })??;
    /// # std::fs::remove_file(kept)?;
    /// # Ok::<(), std::io::Error>(())
    /// ```
    ///
    /// # Errors
    /// Those of [`Pieces::next`] and of [`Stream::drained`]. A part of the bytes is sent or queued then, as
    /// after a future that is dropped: [abort](Stream::abort) the stream, unless the peer can tell.
    pub async fn send_to(&self, stream: &Stream, part: Range<u64>) -> io::Result<()> {
        let mut pieces = self.pieces(part);
        while let Some(piece) = pieces.next().await? {
            stream.send(piece);
            stream.drained().await?;
        }
        Ok(())
    }
}
