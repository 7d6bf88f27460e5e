//! Echo over TLS. The code that serves a connection does not differ from that of plain echo.
//!
//! Run it: `cargo run --release --example tls_echo > certificate.pem`; it makes a certificate of
//! its own for `localhost` and prints it. Talk to it:
//! `openssl s_client -connect localhost:7443 -CAfile certificate.pem -verify_return_error`.
//! Arguments are the address to listen on, and the PEM files of a certificate chain and its key.

use ringway::net::{Connection, Server, ServerTls};

fn main() -> ringway::Result {
    let mut args = std::env::args().skip(1);
    let address = args.next().unwrap_or("tls://127.0.0.1:7443".into());
    let (chain_pem, key_pem) = match (args.next(), args.next()) {
        (Some(chain), Some(key)) => (std::fs::read(chain)?, std::fs::read(key)?),
        _ => self_signed()?,
    };
    let server = Server::bind(address.as_str())?.tls(ServerTls::from_pem(&chain_pem, &key_pem)?);
    let server = server.on_ready(|addresses| println!("listening on {}", addresses[0]));
    server.serve(async |mut connection: Connection| {
        while let Some(view) = connection.recv().await? {
            connection.send(view);
        }
        connection.shutdown(); // says good-bye, so that the peer knows that nothing was cut off
        Ok(())
    })
}

/// A certificate for this run only; nobody trusts it who was not told to.
fn self_signed() -> ringway::Result<(Vec<u8>, Vec<u8>)> {
    let made = rcgen::generate_simple_self_signed(["localhost".to_owned()])
        .map_err(ringway::Error::other)?;
    let chain_pem = made.cert.pem();
    print!("{chain_pem}");
    Ok((chain_pem.into(), made.signing_key.serialize_pem().into()))
}
