//! The methods of `grpc.health.v1.Health`.

use crate::builtin::health::messages::{
    HealthCheckRequest, HealthCheckResponse, HealthListRequest, HealthListResponse,
};
use crate::builtin::health::{Health, unknown};
use crate::call::codec::Codec;
use crate::call::context::Context;
use crate::call::method::{Kind, Method};
use crate::call::status::Status;
use crate::service::{Methods, Service, ServiceDescriptor};
use crate::stream::sink::Sink;

/// Serves the contents of [`Health`].
pub(crate) struct HealthService {
    health: Health,
}

static METHODS: [Method; 3] = [
    Method::new("grpc.health.v1.Health/Check", Kind::Unary).idempotent(),
    Method::new("grpc.health.v1.Health/Watch", Kind::ServerStream),
    Method::new("grpc.health.v1.Health/List", Kind::Unary).idempotent(),
];

static DESCRIPTOR: ServiceDescriptor = ServiceDescriptor {
    name: "grpc.health.v1.Health",
    methods: &METHODS,
    file_descriptor_set: Some(include_bytes!("health.binpb")), // made from health.proto
};

impl HealthService {
    pub(crate) fn new(health: &Health) -> Self {
        Self { health: health.clone() }
    }
}

impl Service for HealthService {
    fn descriptor(&self) -> &'static ServiceDescriptor {
        &DESCRIPTOR
    }

    fn register(&self, methods: &mut Methods) {
        let [check, watch, list] = [0; 3].map(|_| self.health.clone());
        let [check_method, watch_method, list_method] = &METHODS;
        methods.unary(
            check_method,
            Codec::protobuf(),
            Codec::protobuf(),
            move |_: Context, request: HealthCheckRequest| {
                let serving = check.of(&request.service);
                let answer = serving.ok_or_else(|| unknown(&request.service));
                async move { answer.map(|serving| HealthCheckResponse::of(Some(serving))) }
            },
        );
        methods.server_stream(
            watch_method,
            Codec::protobuf(),
            Codec::protobuf(),
            move |context: Context, request: HealthCheckRequest, out: Sink<HealthCheckResponse>| {
                watch_service(context, watch.clone(), request.service, out)
            },
        );
        methods.unary(
            list_method,
            Codec::protobuf(),
            Codec::protobuf(),
            move |_: Context, _: HealthListRequest| {
                let all = list.all().into_iter();
                let statuses =
                    all.map(|(name, serving)| (name, HealthCheckResponse::of(Some(serving))));
                let answer = HealthListResponse { statuses: statuses.collect() };
                async move { Ok(answer) }
            },
        );
    }
}

/// Sends each change until the client cancels or the server drains, which has set all services to not serving before.
async fn watch_service(
    context: Context,
    health: Health,
    service: String,
    mut out: Sink<HealthCheckResponse>,
) -> Result<(), Status> {
    let mut watch = health.watch(service);
    while let Some(serving) = context.until_draining(watch.changed()).await {
        // A client that does not read may hold up its own stream, and not the drain.
        let Some(sent) = context.until_draining(out.send(HealthCheckResponse::of(serving))).await
        else {
            break;
        };
        sent?;
    }
    Ok(())
}
