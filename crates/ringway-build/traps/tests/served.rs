//! What was made of the traps works: names on the network are those of the files, and each server shows the
//! files of its own services.

use std::time::Duration;

use prost::Message as _;
use prost_types::{FileDescriptorSet, Timestamp};
use ringway::rpc::reflection::{DescribeRequest, DescribeResponse};
use ringway::rpc::{CallOptions, Client, Codec, Kind, Method, Server, Sink, Status, Streaming};
use ringway_build_traps::comments::{Comment, Comments, CommentsServer};
use ringway_build_traps::nested::{Root, Rootless, RootlessServer, traps};
use ringway_build_traps::old;

use traps::names::{v1, v2};
use traps::r#type::r#async::{Dyn, Match, MatchClient, MatchServer};

struct All;

macro_rules! same {
    ($($name:ident)*) => { $(
        async fn $name(&self, request: v1::T) -> Result<v1::T, Status> {
            Ok(request)
        }
    )* };
}

impl v1::Traps for All {
    async fn new_(&self, request: v1::Result) -> Result<v1::Option, Status> {
        Ok(v1::Option { n: request.n + 1 })
    }

    async fn with_(&self, request: v1::Result) -> Result<v1::Option, Status> {
        Ok(v1::Option { n: request.n + 2 })
    }

    same! { r#type self_ super_ clone drop register }

    async fn get_it(&self, request: v1::T) -> Result<v1::T, Status> {
        Ok(v1::T { n: request.n + 1 })
    }

    async fn get_it_(&self, request: v1::T) -> Result<v1::T, Status> {
        Ok(v1::T { n: request.n + 2 })
    }

    async fn get_it__(&self, request: v1::T) -> Result<v1::T, Status> {
        Ok(v1::T { n: request.n + 3 })
    }

    async fn context(&self, request: v1::Context) -> Result<v1::Context, Status> {
        Ok(request)
    }

    async fn nested(
        &self,
        request: v1::outer::Context,
        mut replies: Sink<v1::outer::Streaming>,
    ) -> Result<(), Status> {
        replies.send(v1::outer::Streaming { n: request.n }).await
    }

    async fn sinks(&self, mut requests: Streaming<v1::Sink>) -> Result<v1::Status, Status> {
        let mut n = 0;
        while let Some(request) = requests.next().await? {
            n += request.n;
        }
        Ok(v1::Status { n })
    }

    async fn streams(
        &self,
        mut requests: Streaming<v1::Streaming>,
        mut replies: Sink<v1::Sink>,
    ) -> Result<(), Status> {
        while let Some(request) = requests.next().await? {
            replies.send(v1::Sink { n: request.n }).await?;
        }
        Ok(())
    }

    async fn empty(&self, (): ()) -> Result<String, Status> {
        Ok("nothing".to_owned())
    }

    async fn bool(&self, request: bool) -> Result<Vec<u8>, Status> {
        Ok(vec![request.into()])
    }

    async fn number(&self, request: u64) -> Result<f64, Status> {
        Ok(request as f64)
    }

    async fn time(&self, request: Timestamp) -> Result<Timestamp, Status> {
        Ok(request)
    }
}

impl v2::Traps for All {
    async fn r#type(&self, request: v1::Context) -> Result<v2::T, Status> {
        Ok(v2::T { first: Some(v1::T { n: request.n }) })
    }

    async fn streams(
        &self,
        mut requests: Streaming<v1::Streaming>,
        mut replies: Sink<v1::outer::Context>,
    ) -> Result<(), Status> {
        while let Some(request) = requests.next().await? {
            replies.send(v1::outer::Context { n: request.n }).await?;
        }
        Ok(())
    }
}

impl v1::Lower for All {
    async fn which(&self, _: v1::T) -> Result<v1::T, Status> {
        Ok(v1::T { n: 1 })
    }
}

impl v1::Lower_ for All {
    async fn which(&self, _: v1::T) -> Result<v1::T, Status> {
        Ok(v1::T { n: 2 })
    }
}

impl v1::LowerServer for All {}
impl v1::Self__ for All {}

impl Match for All {
    async fn r#await(&self, request: Dyn) -> Result<Root, Status> {
        request.root.ok_or_else(|| Status::not_found("no root"))
    }
}

impl Rootless for All {
    async fn say(&self, request: Root) -> Result<Root, Status> {
        Ok(request)
    }
}

impl Comments for All {
    async fn say(&self, request: Comment) -> Result<Comment, Status> {
        Ok(request)
    }

    async fn ask(&self, request: Comment) -> Result<Comment, Status> {
        Ok(request)
    }
}

/// Whoever implements what is deprecated is warned, and may say that they know.
#[allow(deprecated)]
impl old::Old for All {
    async fn ask(&self, request: old::Past) -> Result<old::Present, Status> {
        Ok(old::Present { past: Some(request), ..old::Present::default() })
    }
}

impl old::Young for All {
    async fn say(&self, request: old::Present) -> Result<old::Present, Status> {
        Ok(request)
    }

    async fn streams(
        &self,
        _: Streaming<old::Past>,
        mut replies: Sink<old::present::Gone>,
    ) -> Result<(), Status> {
        replies.send(old::present::Gone { n: 1 }).await
    }

    async fn new_(&self, request: old::Present) -> Result<old::Present, Status> {
        Ok(request)
    }
}

/// Runs a test with a client of a server of everything, for a minute at most.
fn run(test: impl AsyncFnOnce(Client) -> Result<(), Status> + Send + 'static) {
    #[expect(deprecated)]
    let old = old::OldServer::new(All);
    let server = Server::bind("tcp://127.0.0.1:0").expect("a port").threads(1);
    let server = server
        .service(v1::TrapsServer_::new(All))
        .service(v2::TrapsServer::new(All))
        .service(v1::LowerServer_::new(All))
        .service(v1::Lower_Server::new(All))
        .service(v1::LowerServerServer::new(All))
        .service(v1::Self__Server::new(All))
        .service(MatchServer::new(All))
        .service(RootlessServer::new(All))
        .service(CommentsServer::new(All))
        .service(old)
        .service(old::YoungServer::new(All))
        .start()
        .expect("it starts");
    let client = Client::connect(server.addresses()[0].clone()).expect("a good address");
    let outcome = ringway::runtime::block_on(async move {
        ringway::runtime::timeout(Duration::from_secs(60), test(client)).await
    });
    outcome.expect("a core").expect("in time").expect("success");
    server.abort();
}

#[test]
fn methods_have_names_that_are_free() {
    run(async |client| {
        let traps = v1::TrapsClient_::new(client).with(CallOptions::new());
        assert_eq!(traps.new_(v1::Result { n: 10 }).await?.n, 11);
        assert_eq!(traps.with_(v1::Result { n: 10 }).await?.n, 12);
        assert_eq!(traps.r#type(v1::T { n: 3 }).await?.n, 3);
        assert_eq!(traps.get_it(v1::T { n: 10 }).await?.n, 11);
        assert_eq!(traps.get_it_(v1::T { n: 10 }).await?.n, 12);
        assert_eq!(traps.get_it__(v1::T { n: 10 }).await?.n, 13);
        assert_eq!(traps.empty(()).await?, "nothing");
        assert_eq!(traps.bool(true).await?, [1]);
        assert_eq!(traps.number(7).await?, 7.0);
        Ok(())
    });
}

/// The name on the network is that of the file, whatever the function is called.
#[test]
fn names_on_the_network_are_those_of_the_file() {
    static NAMES: [(Method, u32); 5] = [
        (Method::new("traps.names.v1.Traps/New", Kind::Unary), 11),
        (Method::new("traps.names.v1.Traps/GetIt", Kind::Unary), 11),
        (Method::new("traps.names.v1.Traps/get_it", Kind::Unary), 12),
        (Method::new("traps.names.v1.lower/Which", Kind::Unary), 1),
        (Method::new("traps.names.v1.Lower/Which", Kind::Unary), 2),
    ];
    run(async |client| {
        for (method, expected) in &NAMES {
            let (codec_in, codec_out) = (Codec::protobuf(), Codec::<v1::T>::protobuf());
            let reply = client.unary(method, codec_in, codec_out, v1::T { n: 10 }).await?;
            assert_eq!(reply.n, *expected, "{method:?}");
        }
        Ok(())
    });
}

#[test]
fn messages_of_any_name_and_package_travel() {
    run(async |client| {
        let traps = v1::TrapsClient_::new(client.clone());
        assert_eq!(traps.context(v1::Context { n: 4 }).await?.n, 4);
        let mut nested = traps.nested(v1::outer::Context { n: 5 });
        assert_eq!(nested.next().await?.map(|reply| reply.n), Some(5));
        let second = v2::TrapsClient::new(client.clone());
        let reply = second.r#type(v1::Context { n: 6 }).await?;
        assert_eq!(reply.first, Some(v1::T { n: 6 }));
        let keyword = MatchClient::new(client);
        assert_eq!(keyword.r#await(Dyn { root: Some(Root { n: 7 }) }).await?.n, 7);
        Ok(())
    });
}

/// Several calls of the builder, several packages in a call, a directory of their own: reflection has the
/// files of each service, what they import, and no other service's.
#[test]
fn each_service_shows_its_own_files() {
    static DESCRIBE: Method = Method::new("ringway.reflection.v1.Reflection/Describe", Kind::Unary);
    run(async |client| {
        for (service, files) in [
            ("traps.names.v2.Traps", &["names.proto", "second.proto"][..]),
            ("traps.type.async.Match", &["root.proto", "keyword.proto"]),
            ("Rootless", &["root.proto"]),
            ("traps.comments.v1.Comments", &["comments.proto"]),
            ("traps.old.v1.Young", &["old.proto"]),
        ] {
            let request = DescribeRequest { service: service.to_owned() };
            let (codec_in, codec_out) = (Codec::protobuf(), Codec::<DescribeResponse>::protobuf());
            let described = client.unary(&DESCRIBE, codec_in, codec_out, request).await?;
            let set = FileDescriptorSet::decode(described.file_descriptor_set);
            let set = set.map_err(|error| Status::internal(error.to_string()))?;
            let ours = set.file.iter().filter(|file| !file.name().starts_with("google/"));
            assert_eq!(ours.map(|file| file.name()).collect::<Vec<_>>(), files, "{service}");
            assert!(set.file.iter().all(|file| file.source_code_info.is_none()), "{service}");
        }
        Ok(())
    });
}

#[test]
fn what_is_deprecated_warns_those_who_call_it() {
    run(async |client| {
        let young = old::YoungClient::new(client.clone());
        #[expect(deprecated)]
        let said = young.say(old::Present::default());
        assert_eq!(said.await?, old::Present::default());
        #[expect(deprecated)]
        let (_past, mut gone) = young.streams();
        assert_eq!(gone.next().await?.map(|gone| gone.n), Some(1));
        #[expect(deprecated)]
        let old = old::OldClient::new(client);
        // No `Bytes`, as the build script says.
        let inner = Some(old::past::Inner { raw: vec![1, 2] });
        let past = old::Past { inner, ..old::Past::default() };
        assert_eq!(old.ask(past.clone()).await?.past, Some(past));
        Ok(())
    });
}
