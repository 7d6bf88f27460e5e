//! The services that every machine once had, each over TCP and UDP on a port of its own: echo,
//! discard, chargen, daytime and time (RFC 862 to 864, 867 and 868).
//!
//! Run it: `cargo run --release --example simple_services`; talk to it: `nc 127.0.0.1 7013`.
//! An argument is the port of which their numbers (7, 9, 19, 13, 37) count; 0 takes free ones.

use std::time::{SystemTime, UNIX_EPOCH};

use ringway::net::{Connection, Server, ServerHandle};

#[derive(Clone, Copy, Debug)]
enum Service {
    Echo = 7,
    Discard = 9,
    Daytime = 13,
    Chargen = 19,
    Time = 37,
}

use Service::{Chargen, Daytime, Discard, Echo, Time};

fn main() -> ringway::Result {
    let base = std::env::args().nth(1).map_or(Ok(7000), |text| text.parse::<u16>());
    let base = base.map_err(ringway::Error::other)?;
    let started = [Echo, Discard, Daytime, Chargen, Time].map(|service| start(service, base));
    let servers = started.into_iter().collect::<ringway::Result<Vec<_>>>()?;
    servers[0].wait_for_signal()?;
    servers.iter().for_each(ServerHandle::shutdown);
    servers.iter().try_for_each(ServerHandle::wait)
}

fn start(service: Service, base: u16) -> ringway::Result<ServerHandle> {
    let port = if base == 0 { 0 } else { base + service as u16 };
    let addresses = ["tcp", "udp"].map(|kind| format!("{kind}://127.0.0.1:{port}"));
    let server = Server::bind(addresses)?.threads(1).on_datagram(async move |datagram, to| {
        match service {
            Discard => {}
            Echo => drop(to.send(datagram.into_view())),
            Daytime | Chargen | Time => drop(to.send(answer(service, 0))),
        }
        Ok(())
    });
    let server = server.start(async move |connection| serve(service, connection).await)?;
    println!("{service:?}: {} {}", server.addresses()[0], server.addresses()[1]);
    Ok(server)
}

async fn serve(service: Service, mut connection: Connection) -> ringway::Result {
    match service {
        Echo => {
            while let Some(view) = connection.recv().await? {
                connection.send(view);
            }
        }
        Discard => while connection.recv().await?.is_some() {},
        Daytime | Time => drop(connection.send(answer(service, 0))),
        Chargen => {
            for line in 0.. {
                if connection.is_draining() {
                    break;
                }
                connection.send(answer(Chargen, line)).await?; // no faster than it is read
            }
        }
    }
    Ok(())
}

/// What a service says by itself; of chargen its line of that number.
fn answer(service: Service, line: usize) -> Vec<u8> {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs();
    match service {
        Time => ((now + SECONDS_FROM_1900_TO_1970) as u32).to_be_bytes().to_vec(),
        Daytime => format!("{} UTC\r\n", daytime(now)).into_bytes(),
        _ => (0..72).map(|at| 32 + ((line + at) % 95) as u8).chain(*b"\r\n").collect(),
    }
}

/// The date by the calendar of Gregory, and the time of the day.
fn daytime(now: u64) -> String {
    let days = now / 86_400 + 719_468; // since the first of March of the year 0
    let (era, day) = (days / 146_097, days % 146_097);
    let year = (day - day / 1460 + day / 36_524 - day / 146_096) / 365;
    let of_year = day - (365 * year + year / 4 - year / 100);
    let month = (5 * of_year + 2) / 153;
    let date = of_year - (153 * month + 2) / 5 + 1;
    let (month, next) = if month < 10 { (month + 3, 0) } else { (month - 9, 1) };
    let (hour, minute, second) = (now / 3600 % 24, now / 60 % 60, now % 60);
    let year = year + 400 * era + next;
    format!("{year}-{month:02}-{date:02} {hour:02}:{minute:02}:{second:02}")
}

const SECONDS_FROM_1900_TO_1970: u64 = 2_208_988_800;
