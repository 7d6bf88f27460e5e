//! The effect on other calls when one of a hundred sleeps or blocks for 5 ms.

use std::time::Duration;

use bytes::Bytes;
use ringway_rpc::Call;
use ringway_runtime::sleep;

use crate::load::{Seen, closed_loop, open_loop};
use crate::work::{WorkClient, micros};
use crate::{SECOND, connect, measure};

/// What each of the other calls computes.
const WORK_US: u32 = 10;
/// The limit of the others' p99, relative to a run without slow calls.
const SLEEPING_MAX: f64 = 1.1;
const BLOCKING_MAX: f64 = 1.5;

/// The kinds alternate, so that other load of the machine affects all of them.
const SLICES: usize = 11;
const SLICE: Duration = Duration::from_millis(500);

fn others(client: &WorkClient) -> Call<Bytes> {
    client.compute(micros(WORK_US))
}

/// The one of a hundred calls that is slow.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Hundredth {
    Same,
    Sleeps,
    Blocks,
}

impl Hundredth {
    fn call(self, client: &WorkClient) -> Call<Bytes> {
        match self {
            Self::Same => others(client),
            Self::Sleeps => client.sleep(Bytes::new()),
            Self::Blocks => client.block(Bytes::new()),
        }
    }
}

/// Returns the p99 of the others in one slice.
async fn slice(client: &WorkClient, rate: f64, hundredth: Hundredth) -> Duration {
    let seen = Seen::of(rate);
    open_loop(rate, SLICE, &seen, |number| match number % 100 {
        50 => (hundredth.call(client), false),
        _ => (others(client), true),
    })
    .await;
    let p99 = seen.summary(SLICE / 5, SLICE).p99;
    sleep(SLICE / 10).await;
    p99
}

fn median(mut all: Vec<Duration>) -> Duration {
    all.sort_unstable();
    all[all.len() / 2]
}

#[test]
fn one_of_a_hundred_calls_sleeps_or_blocks() {
    measure(
        |server| server,
        |server| async move {
            let client = connect(&server);
            let capacity = {
                let client = client.clone();
                closed_loop(64, SECOND, move || others(&client)).await
            };
            let rate = capacity / 2.0;
            let kinds = [Hundredth::Same, Hundredth::Sleeps, Hundredth::Blocks];
            let mut p99 = kinds.map(|_| Vec::new());
            for _ in 0..SLICES {
                for (p99, kind) in p99.iter_mut().zip(kinds) {
                    p99.push(slice(&client, rate, kind).await);
                }
            }
            println!(
                "{WORK_US} us each, {rate:.0}/s, half of what can be done; p99 of {SLICES} slices"
            );
            let [without, sleeps, blocks] = p99.map(|all| {
                println!("    {:.0?}", all);
                median(all).as_secs_f64()
            });
            let (sleeps, blocks) = (sleeps / without, blocks / without);
            println!(
                "    without {:.0} us, sleeping {sleeps:.2} x, blocking {blocks:.2} x",
                without * 1e6
            );
            assert!(sleeps <= SLEEPING_MAX && blocks <= BLOCKING_MAX);
        },
    );
}
