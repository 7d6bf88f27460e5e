//! The round trips to a server that tells of changes by itself: when it answers then says nothing of the way.

use std::cell::Cell;
use std::rc::Rc;
use std::time::Duration;

use ringway_runtime::sleep;

use crate::connection::{AskingConnection, Greeting};
use crate::error::Result;
use crate::topology::RoundTripTime;
use crate::uri::HostAddress;

/// Measures on a connection of its own, as often as a server would be asked. An error changes nothing: the monitor
/// will see what is the matter. It never ends.
///
/// Specification: Server Monitoring, "Measuring RTT".
pub(super) async fn measure(
    greeting: Rc<Greeting>,
    address: HostAddress,
    period: Duration,
    round_trip: Rc<Cell<RoundTripTime>>,
) {
    let mut connection = None;
    loop {
        match once(&greeting, &address, &mut connection).await {
            Ok(time) => add(&round_trip, time),
            Err(error) => {
                tracing::debug!(%address, %error, "a round trip was not measured");
            }
        }
        sleep(period).await;
    }
}

/// After an error there is no connection.
async fn once(
    greeting: &Greeting,
    address: &HostAddress,
    connection: &mut Option<AskingConnection>,
) -> Result<Duration> {
    let (asked, time) = match connection.take() {
        Some(mut connection) => {
            let (_, time) = connection.ask(greeting, address).await?;
            (connection, time)
        }
        None => {
            let (connection, _, time) = AskingConnection::open(greeting, address).await?;
            (connection, time)
        }
    };
    *connection = Some(asked);
    Ok(time)
}

pub(super) fn add(round_trip: &Cell<RoundTripTime>, sample: Duration) {
    let mut times = round_trip.get();
    times.add(sample);
    round_trip.set(times);
}
