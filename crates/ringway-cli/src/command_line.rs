//! The command that is run, as a report shows it: ready to be pasted, without its secrets.

/// The command of this process.
pub(crate) fn shown() -> String {
    let arguments = std::env::args_os().map(|it| it.to_string_lossy().into_owned());
    of(arguments)
}

/// Options whose value is an entry `KEY=VALUE` or `KEY: VALUE`, of which only the key is shown, or `NAME:PASSWORD`.
const ENTRY_OPTIONS: [&str; 4] = ["-H", "--metadata", "--user", "--with"];

/// What stands for a secret.
const HIDDEN: &str = "***";

fn of(arguments: impl IntoIterator<Item = String>) -> String {
    let mut is_entry = false;
    let shown = arguments.into_iter().map(|argument| {
        let own = match is_entry {
            true => without_value(&argument),
            false => without_secret(&argument),
        };
        is_entry = !is_entry && ENTRY_OPTIONS.contains(&&*argument);
        quoted(own)
    });
    shown.collect::<Vec<_>>().join(" ")
}

fn without_secret(argument: &str) -> String {
    let entry = ENTRY_OPTIONS.iter().find_map(|option| {
        let value = argument.strip_prefix(option).filter(|value| !value.is_empty())?;
        let is_short = !option.starts_with("--");
        (is_short || value.starts_with('=')).then_some((option, value))
    });
    match entry {
        Some((option, value)) => match value.strip_prefix('=') {
            Some(value) => format!("{option}={}", without_value(value)),
            None => format!("{option}{}", without_value(value)),
        },
        None => without_password(argument),
    }
}

/// An entry's key. A separator that is missing is a mistake, and what there is may be the secret.
fn without_value(entry: &str) -> String {
    match entry.find(['=', ':']) {
        Some(end) => format!("{}{HIDDEN}", &entry[..=end]),
        None => HIDDEN.to_owned(),
    }
}

/// A URI without the password before its host.
fn without_password(argument: &str) -> String {
    let Some((scheme, rest)) = argument.split_once("://") else { return argument.to_owned() };
    // A password that is not encoded as it should be may hold any of these signs.
    let Some((before, host)) = rest.rsplit_once('@').filter(|(before, _)| !before.is_empty())
    else {
        return argument.to_owned(); // such as unix://@name, a socket without a file
    };
    let (user, _) = before.split_once(':').unwrap_or((before, ""));
    format!("{scheme}://{user}:{HIDDEN}@{host}")
}

/// Quotes an argument for a shell.
fn quoted(argument: String) -> String {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "-_=+:/.,@%[]".contains(c);
    if !argument.is_empty() && argument.chars().all(is_plain) {
        return argument;
    }
    format!("'{}'", argument.replace('\'', r"'\''"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commands_can_be_pasted() {
        let check = |argument: &str, text: &str| assert_eq!(of([argument.to_owned()]), text);
        check("tcp://[::1]:7001", "tcp://[::1]:7001");
        check("unix://@ringway", "unix://@ringway");
        check("two words", "'two words'");
        check("it's", r"'it'\''s'");
        check("", "''");
    }

    #[test]
    fn secrets_are_not_shown() {
        let commands = [
            "bench call -H authorization=SECRET --at tcp://h:1",
            "bench call -H authorization:SECRET -c 10",
            "bench call -Hauthorization=SECRET",
            "bench call -H=authorization=SECRET",
            "bench call --metadata authorization=SECRET",
            "bench call --metadata=authorization:SECRET",
            "bench call -H -H=SECRET",
            "registry --user root:SECRET ls",
            "registry --user=root:SECRET ls",
            "registry --user SECRET ls",
            "bench mongo --uri mongodb://root:SECRET@host/?tls=true",
            "bench mongo --uri=mongodb://root:SECRET@host,other",
            "bench mongo mongodb://root:SECRET@SECRET@host",
        ];
        for command in commands {
            let shown = of(command.split(' ').map(str::to_owned));
            assert!(shown.contains(HIDDEN) && !shown.contains("SECRET"), "{command}: {shown}");
        }
        let shown = of(["bench", "-H", "trace-id: 7", "mongodb://a:b@c/d"].map(str::to_owned));
        assert_eq!(shown, "bench -H 'trace-id:***' 'mongodb://a:***@c/d'");
    }
}
