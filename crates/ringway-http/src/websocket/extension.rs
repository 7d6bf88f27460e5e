//! The agreement on permessage-deflate, RFC 7692 section 7.1: without context takeover in either direction.

use http::HeaderMap;
use http::header::SEC_WEBSOCKET_EXTENSIONS;
use ringway_wire::websocket::CAN_DEFLATE;

use super::handshake::tokens;

/// What our client offers and our server answers.
pub(crate) const DEFLATE: &str =
    "permessage-deflate; server_no_context_takeover; client_no_context_takeover";

const NAME: &str = "permessage-deflate";

/// An extension with its parameters.
struct Extension<'h> {
    name: &'h str,
    parameters: Vec<(&'h str, Option<&'h str>)>,
}

/// Whether our server can agree to one of a client's offers. What we do not understand is declined.
pub(super) fn is_offered(headers: &HeaderMap) -> bool {
    let is_good = |(name, value): &(&str, Option<&str>)| match (*name, *value) {
        ("server_no_context_takeover" | "client_no_context_takeover", None)
        | ("client_max_window_bits", None) => true,
        ("client_max_window_bits", Some(bits)) => is_window(bits),
        // Our compressor has one window, of 15 bits.
        _ => false,
    };
    CAN_DEFLATE && extensions(headers).any(|it| it.name == NAME && it.is(is_good))
}

/// Whether messages are compressed, by the answer of a server to our offer.
///
/// # Errors
/// The server has agreed to something that was not offered.
pub(crate) fn is_agreed(headers: &HeaderMap, was_offered: bool) -> Result<bool, &'static str> {
    let mut answer = extensions(headers);
    let Some(extension) = answer.next() else { return Ok(false) };
    let is_good = |(name, value): &(&str, Option<&str>)| match (*name, *value) {
        ("server_no_context_takeover" | "client_no_context_takeover", None) => true,
        ("server_max_window_bits", Some(bits)) => is_window(bits),
        _ => false,
    };
    if !was_offered || extension.name != NAME || answer.next().is_some() {
        return Err("uses an extension that was not offered");
    }
    let keeps_no_window = extension.parameters.contains(&("server_no_context_takeover", None));
    match keeps_no_window && extension.is(is_good) {
        true => Ok(true),
        false => Err("compresses messages in a way that was not offered"),
    }
}

impl Extension<'_> {
    /// Whether each parameter is good and comes once.
    fn is(&self, is_good: impl Fn(&(&str, Option<&str>)) -> bool) -> bool {
        let comes_once =
            |name: &str| self.parameters.iter().filter(|(other, _)| *other == name).count() == 1;
        self.parameters.iter().all(|it| is_good(it) && comes_once(it.0))
    }
}

/// Returns what a field lists. No parameter that we know has a comma or a semicolon in quotes.
fn extensions(headers: &HeaderMap) -> impl Iterator<Item = Extension<'_>> {
    tokens(headers, &SEC_WEBSOCKET_EXTENSIONS).filter(|text| !text.is_empty()).map(|text| {
        let mut parts = text.split(';').map(str::trim);
        let name = parts.next().unwrap_or_default();
        Extension { name, parameters: parts.map(parameter).collect() }
    })
}

fn parameter(part: &str) -> (&str, Option<&str>) {
    match part.split_once('=') {
        Some((name, value)) => (name.trim(), Some(value.trim().trim_matches('"'))),
        None => (part, None),
    }
}

/// Whether a parameter is the size of a window in bits (section 7.1.2).
fn is_window(bits: &str) -> bool {
    matches!(bits, "8" | "9" | "10" | "11" | "12" | "13" | "14" | "15")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn headers(values: &[&'static str]) -> HeaderMap {
        let value =
            |text: &&'static str| (SEC_WEBSOCKET_EXTENSIONS, http::HeaderValue::from_static(text));
        values.iter().map(value).collect()
    }

    #[test]
    fn offers_are_taken_that_ask_for_nothing_we_lack() {
        let cases: Vec<(&[&'static str], bool)> = vec![
            (&[], false),
            (&["permessage-deflate"], true),
            // What Chromium and Firefox send.
            (&["permessage-deflate; client_max_window_bits"], true),
            (&["permessage-deflate"], true),
            (&[DEFLATE], true),
            (&["permessage-deflate;client_max_window_bits=\"10\""], true),
            (&["permessage-deflate; server_max_window_bits=10"], false),
            (&["permessage-deflate; server_max_window_bits=10, permessage-deflate"], true),
            (&["permessage-deflate; server_max_window_bits=10", "permessage-deflate"], true),
            (&["permessage-deflate; client_max_window_bits=7"], false),
            (&["permessage-deflate; client_max_window_bits=08"], false),
            (&["permessage-deflate; client_max_window_bits; client_max_window_bits"], false),
            (&["permessage-deflate; server_no_context_takeover=1"], false),
            (&["permessage-deflate; other"], false),
            (&["x-webkit-deflate-frame, bbf-usp-protocol"], false),
        ];
        for (values, is_taken) in cases {
            assert_eq!(is_offered(&headers(values)), is_taken, "{values:?}");
        }
    }

    #[test]
    fn an_answer_is_taken_that_keeps_to_the_offer() {
        let cases: Vec<(&[&'static str], Result<bool, &str>)> = vec![
            (&[], Ok(false)),
            (&[DEFLATE], Ok(true)),
            (&["permessage-deflate; server_no_context_takeover"], Ok(true)),
            (
                &["permessage-deflate; server_no_context_takeover; server_max_window_bits=12"],
                Ok(true),
            ),
            (&["permessage-deflate"], Err("compresses messages in a way that was not offered")),
            (
                &["permessage-deflate; server_no_context_takeover; client_max_window_bits=12"],
                Err("compresses messages in a way that was not offered"),
            ),
            (&[DEFLATE, "other"], Err("uses an extension that was not offered")),
            (&["other"], Err("uses an extension that was not offered")),
        ];
        for (values, outcome) in cases {
            assert_eq!(is_agreed(&headers(values), true), outcome, "{values:?}");
        }
        let unasked = is_agreed(&headers(&[DEFLATE]), false);
        assert_eq!(unasked, Err("uses an extension that was not offered"));
    }
}
