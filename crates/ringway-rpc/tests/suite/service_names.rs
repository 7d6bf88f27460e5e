//! Services whose names and messages collide with generated names. Compiling without a warning is
//! half of the test; the calls are the other half.

#![deny(warnings)]

use std::time::Duration;

use ringway_rpc::{Client, Server, Service, Status};

/// Runs a test with a client of a server of `service`, for at most a minute.
fn run(
    service: impl Service,
    test: impl AsyncFnOnce(Client) -> Result<(), Status> + Send + 'static,
) {
    let server = Server::bind("tcp://127.0.0.1:0").expect("a port").threads(1).service(service);
    let server = server.start().expect("it starts");
    let client = Client::connect(server.addresses()[0].clone()).expect("a good address");
    let outcome = ringway_runtime::block_on(async move {
        ringway_runtime::timeout(Duration::from_secs(60), test(client)).await
    });
    outcome.expect("a core").expect("in time").expect("success");
    server.abort();
}

mod messages {
    use ringway_rpc::{Sink, Status, Streaming, service};
    use serde::{Deserialize, Serialize};

    macro_rules! messages {
        ($($name:ident)*) => { $(
            #[derive(Clone, Copy, PartialEq, Debug, Serialize, Deserialize)]
            #[allow(dead_code)] // some only collide
            pub(crate) struct $name(pub(crate) u32);
        )* };
    }

    // `Sink`, `Streaming` and `Status` are the library's here; messages with these names are in
    // `other`.
    messages! { T S Context Option Some None Box Vec Rc Send Sync Fn Clone Debug Method Client Server
    CallOptions Call Provider Service Methods Kind Codec Bytes ExchangeServer ExchangeClient }

    pub(crate) mod other {
        use serde::{Deserialize, Serialize};

        messages! { Sink Streaming Status Result }
    }

    #[service(crate = "::ringway_rpc", server = "Serves", client = "Calls")]
    pub(crate) trait Exchange {
        async fn t(&self, t: T) -> Result<S, Status>;
        async fn context(
            &self,
            c: ::ringway_rpc::Context,
            m: self::Context,
        ) -> Result<self::Context, Status>;
        async fn prelude(&self, a: Option) -> Result<Box, Status>;
        async fn clones(&self, a: Clone) -> Result<Debug, Status>;
        async fn ours(&self, a: Method) -> Result<Client, Status>;
        async fn derived(&self, a: ExchangeServer) -> Result<ExchangeClient, Status>;
        async fn sinks(
            &self,
            sinks: Streaming<self::other::Sink>,
            streams: Sink<self::other::Streaming>,
        ) -> Result<(), Status>;
        async fn status(&self, _: other::Status) -> Result<self::other::Result, Status>;
        #[method(offload)]
        async fn offloaded(&self, a: Provider) -> Result<Service, Status>;
    }

    pub(crate) struct Floor;

    impl Exchange for Floor {
        async fn t(&self, t: T) -> Result<S, Status> {
            Ok(S(t.0))
        }
        async fn context(
            &self,
            c: ::ringway_rpc::Context,
            m: self::Context,
        ) -> Result<self::Context, Status> {
            assert_eq!(c.method().short_name(), "Context");
            Ok(m)
        }
        async fn prelude(&self, a: Option) -> Result<Box, Status> {
            Ok(Box(a.0))
        }
        async fn clones(&self, a: Clone) -> Result<Debug, Status> {
            Ok(Debug(a.0))
        }
        async fn ours(&self, a: Method) -> Result<Client, Status> {
            Ok(Client(a.0))
        }
        async fn derived(&self, a: ExchangeServer) -> Result<ExchangeClient, Status> {
            Ok(ExchangeClient(a.0))
        }
        async fn sinks(
            &self,
            mut sinks: Streaming<other::Sink>,
            mut streams: Sink<other::Streaming>,
        ) -> Result<(), Status> {
            while let ::core::option::Option::Some(sink) = sinks.next().await? {
                streams.send(other::Streaming(sink.0)).await?;
            }
            Ok(())
        }
        async fn status(&self, a: other::Status) -> Result<other::Result, Status> {
            Ok(other::Result(a.0))
        }
        async fn offloaded(&self, a: Provider) -> Result<Service, Status> {
            Ok(Service(a.0))
        }
    }
}

#[test]
fn messages_may_have_any_name() {
    use messages::{Calls, Context, Floor, Option, Provider, S, Serves, T, other};
    run(Serves::new(Floor), async |client| {
        let exchange = Calls::new(client);
        assert_eq!(exchange.t(T(1)).await?, S(1));
        assert_eq!(exchange.context(Context(2)).await?, Context(2));
        assert_eq!(exchange.prelude(Option(3)).await?.0, 3);
        assert_eq!(exchange.status(other::Status(4)).await?.0, 4);
        assert_eq!(exchange.offloaded(Provider(5)).await?.0, 5);
        let (mut sink, mut streams) = exchange.sinks();
        sink.send(other::Sink(6)).await?;
        assert_eq!(streams.next().await?, Some(other::Streaming(6)));
        Ok(())
    });
}

mod methods {
    use ringway_rpc::{Status, service};

    type Result<A> = ::core::result::Result<A, Status>;

    #[service(crate = "ringway_rpc")]
    pub(crate) trait Odd {
        async fn clone(&self, n: u32) -> Result<u32>;
        async fn fmt(&self, n: u32) -> Result<u32>;
        async fn client(&self, n: u32) -> Result<u32>;
        async fn register(&self, n: u32) -> Result<u32>;
        async fn descriptor(&self, n: u32) -> Result<u32>;
        async fn r#type(&self, r#match: u32) -> Result<u32>;
        async fn per_core(&self, n: u32) -> Result<u32>;
        async fn drop(&self, n: u32) -> Result<u32>;
        async fn unary(&self, n: u32) -> Result<u32>;
        async fn instance(&self, n: u32) -> Result<u32>;
    }

    macro_rules! add {
        ($($name:ident $plus:literal)*) => { $(
            async fn $name(&self, n: u32) -> Result<u32> {
                Ok(n + $plus)
            }
        )* };
    }

    pub(crate) struct Plus;

    impl Odd for Plus {
        add! { clone 1 fmt 2 client 3 register 4 descriptor 5 r#type 6 per_core 7 drop 8 unary 9
        instance 10 }
    }
}

#[test]
fn methods_may_have_any_name() {
    use methods::{OddClient, OddServer, Plus};
    run(OddServer::new(Plus), async |client| {
        let odd = OddClient::new(client);
        assert_eq!(odd.clone(10).await?, 11);
        assert_eq!(odd.fmt(10).await?, 12);
        assert_eq!(odd.client(10).await?, 13);
        assert_eq!(odd.register(10).await?, 14);
        assert_eq!(odd.descriptor(10).await?, 15);
        assert_eq!(odd.r#type(10).await?, 16);
        assert_eq!(odd.per_core(10).await?, 17);
        assert_eq!(odd.drop(10).await?, 18);
        assert_eq!(odd.unary(10).await?, 19);
        assert_eq!(odd.instance(10).await?, 20);
        Ok(())
    });
}

mod constants {
    #![allow(non_upper_case_globals, dead_code)]

    use ringway_rpc::{Context, Sink, Status, Streaming, service};

    pub(crate) const request: u32 = 1;
    pub(crate) const requests: u32 = 1;
    pub(crate) const context: u32 = 1;
    pub(crate) const replies: u32 = 1;
    pub(crate) const methods: u32 = 1;
    pub(crate) const provider: u32 = 1;
    pub(crate) const service: u32 = 1;
    pub(crate) static client: u32 = 1;
    pub(crate) static options: u32 = 1;
    pub(crate) const make: u32 = 1;
    pub(crate) const interceptor: u32 = 1;
    pub(crate) static addresses: u32 = 1;
    pub(crate) const value_0: u32 = 1;
    pub(crate) const named: u32 = 1;

    #[service(crate = "ringway_rpc")]
    pub(crate) trait Consts {
        async fn unary(&self, c: Context, n: u32) -> Result<u32, Status>;
        async fn stream(&self, n: Streaming<u32>, m: Sink<u32>) -> Result<(), Status>;
        async fn nameless(&self, _: u32) -> Result<u32, Status>;
        async fn sum(&self, _: u32, named: u32) -> Result<u32, Status>;
        #[method(offload)]
        async fn offloaded(&self, c: Context, n: u32) -> Result<u32, Status>;
    }

    pub(crate) struct Same;

    impl Consts for Same {
        async fn unary(&self, _: Context, n: u32) -> Result<u32, Status> {
            Ok(n)
        }
        async fn stream(&self, mut n: Streaming<u32>, mut m: Sink<u32>) -> Result<(), Status> {
            while let Some(number) = n.next().await? {
                m.send(number).await?;
            }
            Ok(())
        }
        async fn nameless(&self, n: u32) -> Result<u32, Status> {
            Ok(n)
        }
        async fn sum(&self, n: u32, m: u32) -> Result<u32, Status> {
            Ok(n + m)
        }
        async fn offloaded(&self, _: Context, n: u32) -> Result<u32, Status> {
            Ok(n)
        }
    }
}

#[test]
fn constants_may_have_any_name() {
    use constants::{ConstsClient, ConstsServer, Same};
    run(ConstsServer::per_core(|| Same), async |client| {
        let consts = ConstsClient::new(client);
        assert_eq!(consts.unary(1).await? + consts.nameless(2).await?, 3);
        assert_eq!(consts.offloaded(3).await? + consts.sum(1, 2).await?, 6);
        Ok(())
    });
}

mod old {
    #![allow(deprecated)] // for the user's code; generated code is outside of any `allow`

    use ringway_rpc::{Sink, Status};

    #[deprecated]
    #[derive(Clone, PartialEq, prost::Message)]
    pub(crate) struct OldTick {
        #[prost(uint64, tag = "1")]
        pub(crate) cents: u64,
    }

    pub(crate) struct Past;

    impl super::Old for Past {
        async fn tick(&self, request: OldTick) -> Result<OldTick, Status> {
            Ok(request)
        }
        async fn ticks(&self, request: OldTick, mut ticks: Sink<OldTick>) -> Result<(), Status> {
            ticks.send(request).await
        }
        async fn offloaded(&self, request: u32) -> Result<u32, Status> {
            Ok(request)
        }
    }
}

#[ringway_rpc::service(crate = "ringway_rpc")]
#[deprecated = "use the new one"]
#[allow(deprecated)] // of the trait alone
trait Old {
    #[deprecated]
    async fn tick(&self, request: old::OldTick) -> Result<old::OldTick, Status>;
    #[deprecated(since = "2.0.0", note = "there are no ticks any more")]
    async fn ticks(
        &self,
        request: old::OldTick,
        ticks: ringway_rpc::Sink<old::OldTick>,
    ) -> Result<(), Status>;
    #[deprecated]
    #[method(offload)]
    async fn offloaded(&self, request: u32) -> Result<u32, Status>;
}

/// Each `expect` stands for a warning that users get; a missing warning is an error.
#[test]
fn use_of_deprecated_items_warns() {
    #[expect(deprecated)]
    let service = OldServer::new(old::Past);
    run(service, async |client| {
        #[expect(deprecated)]
        let old = OldClient::new(client);
        #[expect(deprecated)]
        let tick = old::OldTick { cents: 5 };
        #[expect(deprecated)]
        let reply = old.tick(tick.clone());
        assert_eq!(reply.await?, tick);
        #[expect(deprecated)]
        let mut ticks = old.ticks(tick.clone());
        assert_eq!(ticks.next().await?, Some(tick));
        #[expect(deprecated)]
        let reply = old.offloaded(7);
        assert_eq!(reply.await?, 7);
        Ok(())
    });
}

mod connecting {
    use ringway_rpc::{Status, service};

    /// Its client has no constructor of that name.
    #[service(crate = "ringway_rpc")]
    pub(crate) trait Switch {
        async fn connect(&self, line: String) -> Result<String, Status>;
    }

    pub(crate) struct Board;

    impl Switch for Board {
        async fn connect(&self, line: String) -> Result<String, Status> {
            Ok(format!("connected to {line}"))
        }
    }
}

#[test]
fn method_may_be_named_connect() {
    run(connecting::SwitchServer::new(connecting::Board), async |client| {
        let switch = connecting::SwitchClient::new(client);
        assert_eq!(switch.connect("7".into()).await?, "connected to 7");
        Ok(())
    });
}

mod bare {
    #![no_implicit_prelude]

    use ::ringway_rpc::{Context, Sink, Status, Streaming, service};
    use ::std::result::Result::{self, Ok};

    #[service(crate = "::ringway_rpc")]
    pub(crate) trait Bare {
        async fn none(&self) -> Result<(), Status>;
        async fn sum(&self, context: Context, a: u32, b: u32) -> Result<u32, Status>;
        async fn stream(&self, a: Streaming<u32>, b: Sink<u32>) -> Result<(), Status>;
        #[method(offload)]
        async fn offloaded(&self, a: u32) -> Result<u32, Status>;
    }

    pub(crate) struct Nothing;

    impl Bare for Nothing {
        async fn none(&self) -> Result<(), Status> {
            Ok(())
        }
        async fn sum(&self, _: Context, a: u32, b: u32) -> Result<u32, Status> {
            Ok(a + b)
        }
        async fn stream(&self, _: Streaming<u32>, _: Sink<u32>) -> Result<(), Status> {
            Ok(())
        }
        async fn offloaded(&self, a: u32) -> Result<u32, Status> {
            Ok(a)
        }
    }
}

#[test]
fn a_service_needs_no_prelude() {
    run(bare::BareServer::new(bare::Nothing), async |client| {
        let bare = bare::BareClient::new(client);
        bare.none().await?;
        assert_eq!(bare.sum(1, 2).await? + bare.offloaded(4).await?, 7);
        let (sink, mut replies) = bare.stream();
        assert!(replies.next().await?.is_none());
        drop(sink);
        Ok(())
    });
}

mod short {
    use ringway_rpc::{Status, service};

    /// Its values may be called what an unnamed one before them would be called.
    #[service(crate = "ringway_rpc")]
    pub(crate) trait T {
        async fn sum(&self, _: u32, value_0: u32, value_0_: u32) -> Result<u32, Status>;
    }

    pub(crate) struct Adds;

    impl T for Adds {
        async fn sum(&self, a: u32, b: u32, c: u32) -> Result<u32, Status> {
            Ok(a + b + c)
        }
    }
}

#[test]
fn a_service_may_be_named_like_a_type_parameter() {
    run(short::TServer::new(short::Adds), async |client| {
        let short = short::TClient::new(client);
        assert_eq!(short.sum(1, 2, 4).await?, 7);
        Ok(())
    });
}
