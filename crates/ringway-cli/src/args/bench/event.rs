//! The event suite: bytes that go round between the pipes of one core.

use super::flags::{BenchFlags, EventFlags};
use super::list::list;
use super::suite::{EventLoad, Suite};
use crate::args::values::ValueError;

/// # Errors
/// A flag has no meaning for this suite, or there are fewer pipes than active ones.
pub(super) fn resolve(common: &BenchFlags, flags: &EventFlags) -> Result<Suite, ValueError> {
    let given = [
        ("-c", !common.connections.is_empty()),
        ("-s", !common.size.is_empty()),
        ("-i", common.threads.is_some()),
        ("--addr", common.addr.is_some()),
        ("--server-cores", common.server_cores.is_some()),
        ("--transport", !common.transport.is_empty()),
        ("--unix", common.unix),
    ];
    if let Some((flag, _)) = given.into_iter().find(|(_, is_given)| *is_given) {
        return Err(ValueError::new(format!(
            "{flag} has no meaning for event, whose pipes are all on one core"
        )));
    }
    let (pipes, active) = (list("-n", &flags.pipes, &[PIPES])?, list("-a", &flags.active, &[1])?);
    let mut loads = Vec::new();
    for &pipes in &pipes {
        for &active in &active {
            if active > pipes {
                return Err(ValueError::new(format!(
                    "-a {active} is more than -n {pipes}; raise -n"
                )));
            }
            let writes = list("-w", &flags.writes, &[pipes])?;
            loads.extend(writes.into_iter().map(|writes| EventLoad { pipes, active, writes }));
        }
    }
    Ok(Suite::Event(loads))
}

/// As in the program that the suite comes from.
const PIPES: u32 = 100;

#[cfg(test)]
mod tests {
    use super::super::tests::config;
    use super::*;
    use crate::args::tests::parse_words;

    #[test]
    fn the_letters_are_those_of_the_original() {
        let loads = |words: &str| match config(words).suites.remove(0) {
            Suite::Event(loads) => loads,
            other => panic!("{other:?}"),
        };
        let load = |pipes, active, writes| EventLoad { pipes, active, writes };
        assert_eq!(loads("bench event"), [load(100, 1, 100)]);
        assert_eq!(loads("bench event -n 7 -a 2 -w 5"), [load(7, 2, 5)]);
        let expected =
            [load(100, 1, 100), load(100, 10, 100), load(1000, 1, 1000), load(1000, 10, 1000)];
        assert_eq!(loads("bench event -n 100,1000 -a 1,10"), expected);
        assert_eq!(loads("bench event -w 0,9"), [load(100, 1, 0), load(100, 1, 9)]);
    }

    #[test]
    fn flags_of_connections_have_no_meaning() {
        for words in ["-n 3 -a 4", "-c 1", "-s 1", "-i 1", "--unix", "--addr tcp://a:1"] {
            parse_words(&format!("bench event {words}")).expect_err(words);
        }
    }
}
