//! Commands that are never compressed, because their length could tell about a secret in them, and that are not shown.

use bson::RawDocument;

/// Where the first name of a field begins: behind the header, the flags, the kind of the section, the length of
/// the body and the type of the field.
const NAME_AT: usize = 16 + 4 + 1 + 4 + 1;

/// The specifications "OP_COMPRESSED" and "Command Logging and Monitoring" name these. A server of before takes their
/// letters in any case.
const SECRET: [&[u8]; 9] = [
    b"saslStart",
    b"saslContinue",
    b"getnonce",
    b"authenticate",
    b"createUser",
    b"updateUser",
    b"copydbSaslStart",
    b"copydbgetnonce",
    b"copydb",
];

/// These may log in meanwhile.
const GREETINGS: [&[u8]; 2] = [b"hello", b"isMaster"];

/// Whether `message` is such a command.
pub(crate) fn is_secret(message: &[u8]) -> bool {
    let behind = message.get(NAME_AT..).unwrap_or_default();
    let name = behind.split(|byte| *byte == 0).next().unwrap_or_default();
    is_any(name, &SECRET) || is_any(name, &GREETINGS)
}

/// Whether a command of this name may be shown.
pub(crate) fn may_be_shown(name: &str, command: &RawDocument) -> bool {
    let name = name.as_bytes();
    match is_any(name, &GREETINGS) {
        true => !matches!(command.get("speculativeAuthenticate"), Ok(Some(_)) | Err(_)),
        false => !is_any(name, &SECRET),
    }
}

fn is_any(name: &[u8], known: &[&[u8]]) -> bool {
    known.iter().any(|it| it.eq_ignore_ascii_case(name))
}

#[cfg(test)]
mod tests {
    use ringway_wire::mongo::CommandTemplate;

    use super::is_secret;

    #[test]
    fn commands_with_secrets_are_known_by_their_name() {
        let is_secret = |name: &str| {
            let mut message = Vec::new();
            let command = CommandTemplate::new(name, "ada", "admin").begin(1, None, &mut message);
            command.finish().expect("short");
            is_secret(&message)
        };
        assert!(is_secret("createUser") && is_secret("saslStart"));
        assert!(!is_secret("create") && !is_secret("find"));
    }
}
