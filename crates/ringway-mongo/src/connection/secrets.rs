//! Commands that are never compressed, because their length could tell about a secret in them, and never shown.

/// Where the first name of a field begins: behind the header, the flags, the kind of the section, the length of
/// the body and the type of the field.
const NAME_AT: usize = 16 + 4 + 1 + 4 + 1;

/// The specification "OP_COMPRESSED" names these.
const SECRET: [&[u8]; 11] = [
    b"hello",
    b"isMaster",
    b"ismaster",
    b"saslStart",
    b"saslContinue",
    b"getnonce",
    b"authenticate",
    b"createUser",
    b"updateUser",
    b"copydbSaslStart",
    b"copydb",
];

/// Whether `message` is such a command.
pub(crate) fn is_secret(message: &[u8]) -> bool {
    let behind = message.get(NAME_AT..).unwrap_or_default();
    let name = behind.split(|byte| *byte == 0).next().unwrap_or_default();
    SECRET.contains(&name)
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
