//! Metadata of replies in all protocols that have it: several values of a key, and that of calls which fail.

use bytes::Bytes;
use ringway_rpc::{Client, Context, Metadata, Server, Status, Streaming, service};

use crate::support::{LIMIT, wait};

#[service(crate = "ringway_rpc")]
trait Teller {
    /// Fails if the text is empty.
    async fn tell(&self, context: Context, text: Bytes) -> Result<Bytes, Status>;
    async fn collect(&self, context: Context, texts: Streaming<Bytes>) -> Result<Bytes, Status>;
}

struct Own;

fn set(context: &Context) -> Result<(), Status> {
    context.set_initial_metadata("begin", "former")?;
    context.set_initial_metadata("begin", "1")?;
    context.append_initial_metadata("begin", "2")?;
    context.append_initial_metadata("begin-bin", [0, 255])?;
    context.append_trailer("end", "3")?;
    context.append_trailer("end", "4")?;
    Ok(())
}

impl Teller for Own {
    async fn tell(&self, context: Context, text: Bytes) -> Result<Bytes, Status> {
        set(&context)?;
        if text.is_empty() { Err(Status::not_found("nothing")) } else { Ok(text) }
    }

    async fn collect(&self, context: Context, texts: Streaming<Bytes>) -> Result<Bytes, Status> {
        set(&context)?;
        drop(texts);
        Err(Status::aborted("enough"))
    }
}

fn has_all(metadata: &Metadata, wanted: &[(&str, &[u8])]) {
    let all: Vec<_> = metadata.iter().collect();
    assert_eq!(all, wanted);
}

fn check(client: Client) {
    let initial: [(&str, &[u8]); 3] = [("begin", b"1"), ("begin", b"2"), ("begin-bin", &[0, 255])];
    let trailers: [(&str, &[u8]); 2] = [("end", b"3"), ("end", b"4")];
    let teller = TellerClient::new(client);
    let reply = teller.tell(Bytes::from_static(b"x")).full().wait().expect("a reply");
    has_all(&reply.metadata, &initial);
    has_all(&reply.trailers, &trailers);
    let failed = teller.tell(Bytes::new()).wait().expect_err("as it was asked");
    assert!(failed.is_not_found(), "{failed:?}");
    has_all(failed.initial_metadata(), &initial);
    has_all(failed.metadata(), &trailers);
    let (sink, reply) = teller.collect();
    let failed = reply.wait().expect_err("as it does always");
    assert!(failed.is_aborted(), "{failed:?}");
    has_all(failed.initial_metadata(), &initial);
    has_all(failed.metadata(), &trailers);
    drop(sink);
}

#[test]
fn several_values_of_a_key_and_metadata_of_failed_calls_come_over_every_protocol() {
    let folder = std::env::temp_dir().join(format!("ringway-meta-{}", std::process::id()));
    let at = format!("unix://{}", folder.display());
    let server = Server::bind(["tcp://127.0.0.1:0", &at]).expect("a free address").threads(1);
    let server = server.service(TellerServer::new(Own)).start().expect("it starts");
    let tcp = server.addresses()[0].to_string();
    for address in [tcp.clone(), tcp.replace("tcp:", "grpc:"), at.clone(), format!("grpc+{at}")] {
        println!("{address}");
        let options = ringway_rpc::CallOptions::new().timeout(LIMIT);
        let client = Client::builder().address(&*address).options(options);
        check(client.build().expect("an address"));
    }
    server.shutdown();
    wait(server);
}
