//! The server's side of SCRAM, written from RFC 5802 and apart from the client's.

use std::collections::HashMap;
use std::num::NonZeroU32;
use std::sync::Mutex;

use bson::spec::BinarySubtype;
use bson::{Binary, Document, doc};
use ring::{digest, hmac, pbkdf2};
use ringway_wire::mongo::{ScramMechanism, scram_password};

use super::fake::{Answer, Command, hello};

const SALT: &[u8] = b"0123456789abcdef";
const SALT_TEXT: &str = "MDEyMzQ1Njc4OWFiY2RlZg==";

/// A server that knows one user, and how it behaves.
pub(crate) struct ScramServer {
    pub(crate) password: &'static str,
    pub(crate) mechanism: ScramMechanism,
    /// Whether it goes along with what `hello` begins.
    pub(crate) speculates: bool,
    /// Whether it leaves out the last, empty step.
    pub(crate) skips_empty: bool,
    pub(crate) iterations: u32,
    /// Whether its signature is one of another password.
    pub(crate) is_false: bool,
    /// What was said on each connection.
    pub(crate) said: Mutex<HashMap<usize, [String; 2]>>,
}

impl ScramServer {
    pub(crate) fn new(mechanism: ScramMechanism) -> Self {
        Self {
            password: "pencil",
            mechanism,
            speculates: true,
            skips_empty: true,
            iterations: 4096,
            is_false: false,
            said: Mutex::default(),
        }
    }

    /// Answers commands of authentication; `None` for all others.
    pub(crate) fn answer(&self, command: &Command) -> Option<Answer> {
        let body = &command.body;
        Some(Answer::Reply(match command.name() {
            "hello" => self.hello(command),
            "saslStart" => with_ok(self.first(command.connection, body)?),
            "saslContinue" if payload(body).is_empty() => with_ok(step(b"", true)),
            "saslContinue" => match self.last(command.connection, &payload(body)) {
                Some(signature) => with_ok(step(signature.as_bytes(), self.skips_empty)),
                None => {
                    doc! { "ok": 0, "code": 18, "codeName": "AuthenticationFailed", "errmsg": "no" }
                }
            },
            _ => return None,
        }))
    }

    fn hello(&self, command: &Command) -> Document {
        let mut hello = hello();
        assert_eq!(command.body.get_str("saslSupportedMechs").ok(), Some("admin.ada"));
        hello.insert("saslSupportedMechs", vec![self.mechanism.name()]);
        let begun = command.body.get_document("speculativeAuthenticate").expect("it always tries");
        if self.speculates && begun.get_str("mechanism").ok() == Some(self.mechanism.name()) {
            let first = self.first(command.connection, begun).expect("a first message");
            hello.insert("speculativeAuthenticate", first);
        }
        hello
    }

    fn first(&self, connection: usize, command: &Document) -> Option<Document> {
        assert_eq!(command.get_str("mechanism").ok(), Some(self.mechanism.name()));
        let bare = payload(command).strip_prefix("n,,")?.to_owned();
        let nonce = bare.strip_prefix("n=ada,r=")?;
        let first = format!("r={nonce}+more,s={SALT_TEXT},i={}", self.iterations);
        let document = step(first.as_bytes(), false);
        self.said.lock().expect("no panic").insert(connection, [bare, first]);
        Some(document)
    }

    /// The signature, if the client's proof is right.
    fn last(&self, connection: usize, last: &str) -> Option<String> {
        let (without_proof, proof) = last.rsplit_once(",p=")?;
        let [bare, first] = self.said.lock().expect("no panic").get(&connection)?.clone();
        let auth_message = format!("{bare},{first},{without_proof}");
        let (algorithm, pbkdf2) = match self.mechanism {
            ScramMechanism::Sha1 => (hmac::HMAC_SHA1_FOR_LEGACY_USE_ONLY, pbkdf2::PBKDF2_HMAC_SHA1),
            ScramMechanism::Sha256 => (hmac::HMAC_SHA256, pbkdf2::PBKDF2_HMAC_SHA256),
        };
        let password = scram_password(self.mechanism, "ada", self.password).expect("a password");
        let mut salted = vec![0; algorithm.digest_algorithm().output_len()];
        let iterations = NonZeroU32::new(self.iterations).expect("not zero");
        pbkdf2::derive(pbkdf2, iterations, SALT, &password, &mut salted);
        let sign = |key: &[u8], text: &[u8]| hmac::sign(&hmac::Key::new(algorithm, key), text);
        let client_key = sign(&salted, b"Client Key");
        let stored = digest::digest(algorithm.digest_algorithm(), client_key.as_ref());
        let signature = sign(stored.as_ref(), auth_message.as_bytes());
        let xor = |(key, sign): (&u8, &u8)| key ^ sign;
        let right: Vec<_> = client_key.as_ref().iter().zip(signature.as_ref()).map(xor).collect();
        if base64(&right) != proof {
            return None;
        }
        let label: &[u8] = if self.is_false { b"Other Key" } else { b"Server Key" };
        let server_key = sign(&salted, label);
        let signature = sign(server_key.as_ref(), auth_message.as_bytes());
        Some(format!("v={}", base64(signature.as_ref())))
    }
}

fn payload(command: &Document) -> String {
    let bytes = command.get_binary_generic("payload").expect("a payload");
    String::from_utf8(bytes.clone()).expect("text")
}

fn step(payload: &[u8], is_done: bool) -> Document {
    let payload = Binary { subtype: BinarySubtype::Generic, bytes: payload.to_vec() };
    doc! { "conversationId": 1, "done": is_done, "payload": payload }
}

fn with_ok(mut document: Document) -> Document {
    document.insert("ok", 1.0);
    document
}

/// RFC 4648 section 4.
fn base64(bytes: &[u8]) -> String {
    const LETTERS: &[u8] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let mut text = String::new();
    for chunk in bytes.chunks(3) {
        let bits = chunk.iter().fold(0_u32, |bits, byte| bits << 8 | u32::from(*byte));
        let bits = bits << (8 * (3 - chunk.len()));
        for place in 0..4 {
            let letter = char::from(LETTERS[(bits >> (18 - 6 * place) & 63) as usize]);
            text.push(if place <= chunk.len() { letter } else { '=' });
        }
    }
    text
}
