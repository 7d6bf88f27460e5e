//! A server of JSON-RPC that answers as it likes, and whose words are changed on some connections.

use std::rc::Rc;

use ringway_runtime::io::Stream;
use ringway_runtime::{sleep, timeout};

use super::{MS, write};
use crate::server::simulated::mutation::random::Random;

/// One connection of it.
pub(super) struct Talk {
    stream: Rc<Stream>,
    /// Whether texts come on lines, or by POST.
    is_on_lines: bool,
    random: Random,
    received: Vec<u8>,
    said: Vec<u8>,
    subscriptions: usize,
    /// One of so many answers is changed.
    changes_every: usize,
}

impl Talk {
    pub(super) fn new(stream: Rc<Stream>, mut random: Random, is_on_lines: bool) -> Self {
        let changes_every = [4, 32, 128, 1_000][random.below(4)];
        let (received, said, subscriptions) = (Vec::new(), Vec::new(), 0);
        Self { stream, is_on_lines, random, received, said, subscriptions, changes_every }
    }

    pub(super) async fn run(mut self) {
        loop {
            match timeout(MS * 20, self.stream.recv()).await {
                Ok(Ok(Some(view))) => self.received.extend_from_slice(&view),
                Err(_) => {}
                Ok(Ok(None) | Err(_)) => return,
            }
            while let Some(text) = self.next_text() {
                self.answer(&text);
            }
            for _ in 0..self.random.below(3) {
                self.notify();
            }
            let said = std::mem::take(&mut self.said);
            write(&self.stream, &mut self.random, &said).await;
            match self.random.below(400) {
                0 => self.stream.abort(),
                1 => self.stream.shutdown(),
                2 => sleep(MS * self.random.below(4_000) as u32).await,
                _ => {}
            }
        }
    }

    /// Takes the next request off what was received.
    fn next_text(&mut self) -> Option<String> {
        let received = str::from_utf8(&self.received).expect("requests are texts");
        let (begin, end) = match self.is_on_lines {
            true => (0, received.find('\n')? + 1),
            false => {
                let head = received.find("\r\n\r\n")? + 4;
                let (_, length) = received[..head].split_once("content-length: ")?;
                let (length, _) = length.split_once('\r')?;
                (head, head + length.parse::<usize>().expect("a length"))
            }
        };
        let text = received.get(begin..end)?.to_owned();
        self.received.drain(..end);
        Some(text)
    }

    fn answer(&mut self, request: &str) {
        let (_, id) = request.rsplit_once("\"id\":").unwrap_or_default();
        let id = id.trim_end().trim_end_matches('}');
        let result = match request {
            _ if request.contains("rpc.ping") => "true".to_owned(),
            _ if self.is_on_lines && request.contains("a.B/C2") => {
                self.subscriptions += 1;
                self.subscriptions.to_string()
            }
            _ => format!("\"{}\"", "QUFB".repeat(self.random.below(2_000))),
        };
        let right = format!(r#"{{"jsonrpc":"2.0","id":{id},"result":{result}}}"#);
        let failure = |error: &str| format!(r#"{{"jsonrpc":"2.0","id":{id},"error":{error}}}"#);
        let text = match self.random.below(24) {
            0 => failure(r#"{"code":-32014,"message":"","data":{"ringway":{"executed":false}}}"#),
            1 => failure(r#"{"code":-32008,"message":"","data":{"ringway":{"pushback_ms":7}}}"#),
            2 => failure(r#"{"code":-32004,"message":"too late"}"#),
            3 => r#"{"jsonrpc":"2.0","id":null,"error":{"code":-32700,"message":"what"}}"#.into(),
            4 => right.replace("2.0", "1.0"),
            5 => format!("[{right},{right}]"),
            6 if self.is_on_lines => format!("{right}\n{right}"),
            7 if self.is_on_lines => return,
            _ => right,
        };
        let text = self.changed(text.into_bytes());
        self.put(&text);
    }

    fn changed(&mut self, mut text: Vec<u8>) -> Vec<u8> {
        if self.random.below(self.changes_every) == 0 {
            let at = self.random.below(text.len());
            match self.random.below(3) {
                0 => text[at] ^= 1 << self.random.below(8),
                1 => text.truncate(at),
                _ => drop(text.splice(at..at, *b"[9\"")),
            }
        }
        text
    }

    fn put(&mut self, text: &[u8]) {
        if self.is_on_lines {
            self.said.extend_from_slice(text);
            self.said.push(b'\n');
            return;
        }
        let status = ["200 OK", "200 OK", "503 No", "204 Nothing"][self.random.below(4)];
        let (head, tail) = match self.random.below(3) {
            0 if !text.is_empty() => {
                (format!("transfer-encoding: chunked\r\n\r\n{:x}\r\n", text.len()), "\r\n0\r\n\r\n")
            }
            1 => (format!("connection: close\r\ncontent-length: {}\r\n\r\n", text.len()), ""),
            _ => (format!("content-length: {}\r\n\r\n", text.len()), ""),
        };
        let head = format!("HTTP/1.1 {status}\r\n{head}");
        self.said.extend([head.as_bytes(), text, tail.as_bytes()].concat());
    }

    /// Sends a message of a subscription, which may be one of which the client knows nothing, or its end.
    fn notify(&mut self) {
        if self.subscriptions == 0 {
            return;
        }
        let brings = match self.random.below(8) {
            0 => "",
            1 => r#","error":{"code":-32005,"message":""}"#,
            _ => r#","result":"QUFB""#,
        };
        let id = 1 + self.random.below(self.subscriptions + 1);
        let params = format!(r#"{{"subscription":{id}{brings}}}"#);
        self.put(format!(r#"{{"jsonrpc":"2.0","method":"n","params":{params}}}"#).as_bytes());
    }
}
