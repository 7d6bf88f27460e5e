//! Services that every server offers: health and reflection.

use prost::Message;
use ringway_rpc::reflection::{
    DescribeRequest, DescribeResponse, ListRequest, ListResponse, MethodDescription,
};
use ringway_rpc::{
    Code, Codec, Context, Kind, Method, Methods, ServerHandle, Service, ServiceDescriptor,
    ServingStatus,
};

use crate::support::caller::Caller;
use crate::support::echo::{Echo, serve};
use crate::support::{end, socket_addr};

fn connected() -> (ServerHandle, Caller) {
    let handle = serve(&Echo::default(), |server| server);
    let caller = Caller::connect(socket_addr(&handle));
    (handle, caller)
}

/// Calls a method whose messages are protobuf.
fn ask<Rep: Message + Default>(caller: &mut Caller, name: &str, request: &impl Message) -> Rep {
    let message = request.encode_to_vec();
    let stream = caller.open_with(name, Some(&message), true, |open| open.codec = 1);
    Rep::decode(caller.answer(stream).ok()).expect("a reply of the type asked for")
}

#[test]
fn services_and_methods_are_listed() {
    let (handle, mut caller) = connected();
    let list: ListResponse =
        ask(&mut caller, "ringway.reflection.v1.Reflection/List", &ListRequest {});
    let expected = [
        "echo.Echo",
        "grpc.health.v1.Health",
        "grpc.reflection.v1.ServerReflection",
        "grpc.reflection.v1alpha.ServerReflection",
        "ringway.reflection.v1.Reflection",
    ];
    assert_eq!(list.services, expected);
    let request = DescribeRequest { service: "echo.Echo".to_owned() };
    let echo: DescribeResponse =
        ask(&mut caller, "ringway.reflection.v1.Reflection/Describe", &request);
    assert_eq!(echo.methods.len(), 11);
    let say = MethodDescription { name: "Say".to_owned(), idempotent: true, ..Default::default() };
    assert_eq!(echo.methods[0], say);
    let chat = MethodDescription {
        name: "Chat".to_owned(),
        streams_in: true,
        streams_out: true,
        ..Default::default()
    };
    assert_eq!(echo.methods[9], chat);
    let request = DescribeRequest { service: "grpc.health.v1.Health".to_owned() };
    let health: DescribeResponse =
        ask(&mut caller, "ringway.reflection.v1.Reflection/Describe", &request);
    assert!(health.methods.iter().all(|method| method.codec_in == 1 && method.codec_out == 1));
    let unknown = DescribeRequest { service: "no.Service".to_owned() }.encode_to_vec();
    let name = "ringway.reflection.v1.Reflection/Describe";
    let stream = caller.open_with(name, Some(&unknown), true, |open| open.codec = 1);
    assert_eq!(caller.answer(stream).code, Code::NotFound);
    end(handle);
}

/// A service that does not register one of its methods.
struct Half;

static HALF: [Method; 2] =
    [Method::new("half.Half/There", Kind::Unary), Method::new("half.Half/LeftOut", Kind::Unary)];

static HALF_DESCRIPTOR: ServiceDescriptor =
    ServiceDescriptor { name: "half.Half", methods: &HALF, file_descriptor_set: None };

impl Service for Half {
    fn descriptor(&self) -> &'static ServiceDescriptor {
        &HALF_DESCRIPTOR
    }

    fn register(&self, methods: &mut Methods) {
        let raw = Codec::raw();
        methods.unary(&HALF[0], raw, raw, async |_: Context, it: bytes::Bytes| Ok(it));
    }
}

#[test]
fn methods_that_are_not_served_are_not_described() {
    let handle = serve(&Echo::default(), |server| server.service(Half));
    let mut caller = Caller::connect(socket_addr(&handle));
    let request = DescribeRequest { service: "half.Half".to_owned() };
    let half: DescribeResponse =
        ask(&mut caller, "ringway.reflection.v1.Reflection/Describe", &request);
    let names: Vec<_> = half.methods.iter().map(|method| &*method.name).collect();
    assert_eq!(names, ["There"]);
    end(handle);
}

/// The messages of `grpc.health.v1`, as any client declares them.
#[derive(Clone, PartialEq, Message)]
struct CheckRequest {
    #[prost(string, tag = "1")]
    service: String,
}

#[derive(Clone, Copy, PartialEq, Message)]
struct CheckResponse {
    #[prost(int32, tag = "1")]
    status: i32,
}

#[derive(Clone, PartialEq, Message)]
struct HealthList {
    #[prost(btree_map = "string, message", tag = "1")]
    statuses: std::collections::BTreeMap<String, CheckResponse>,
}

const SERVING: i32 = 1;
const NOT_SERVING: i32 = 2;
const SERVICE_UNKNOWN: i32 = 3;

#[test]
fn health_is_reported_and_watched() {
    let (handle, mut caller) = connected();
    let of = |service: &str| CheckRequest { service: service.to_owned() };
    let check = |caller: &mut Caller, service: &str| {
        ask::<CheckResponse>(caller, "grpc.health.v1.Health/Check", &of(service)).status
    };
    assert_eq!(check(&mut caller, ""), SERVING);
    for service in ["echo.Echo", "grpc.health.v1.Health", "ringway.reflection.v1.Reflection"] {
        assert_eq!(check(&mut caller, service), SERVING, "{service}");
    }
    let unknown = of("no.Service").encode_to_vec();
    let open_codec = |open: &mut ringway_wire::native::Open<'_>| open.codec = 1;
    let stream = caller.open_with("grpc.health.v1.Health/Check", Some(&unknown), true, open_codec);
    assert_eq!(caller.answer(stream).code, Code::NotFound);

    let request = of("later.Service").encode_to_vec();
    let watch = caller.open_with("grpc.health.v1.Health/Watch", Some(&request), true, open_codec);
    for (change, status) in [
        (None, SERVICE_UNKNOWN),
        (Some(ServingStatus::NotServing), NOT_SERVING),
        (Some(ServingStatus::Serving), SERVING),
    ] {
        if let Some(serving) = change {
            handle.health().set("later.Service", serving);
        }
        let told = CheckResponse::decode(caller.message(watch).expect("it is told"));
        assert_eq!(told.expect("a response").status, status);
    }
    let all: HealthList = ask(&mut caller, "grpc.health.v1.Health/List", &CheckRequest::default());
    assert_eq!(all.statuses["later.Service"].status, SERVING);
    assert!(all.statuses.contains_key("echo.Echo") && all.statuses.contains_key(""));
    caller.cancel(watch, "enough");
    end(handle);
}
