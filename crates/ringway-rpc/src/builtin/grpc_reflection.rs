//! gRPC server reflection: `grpc.reflection.v1` and `v1alpha`.

mod files;
mod messages;

use std::sync::{Arc, OnceLock};

use self::files::Files;
use self::messages::{
    ErrorResponse, ExtensionNumbers, FileDescriptors, ListServices, ReflectionRequest,
    ReflectionResponse, ServiceName, request, response,
};
use crate::builtin::reflection::ReflectionService;
use crate::call::codec::Codec;
use crate::call::context::Context;
use crate::call::method::{Kind, Method};
use crate::call::status::{Code, Status};
use crate::service::{Methods, Service, ServiceDescriptor};
use crate::stream::sink::Sink;
use crate::stream::streaming::Streaming;

static V1: [Method; 1] =
    [Method::new("grpc.reflection.v1.ServerReflection/ServerReflectionInfo", Kind::Bidi)];

static V1_ALPHA: [Method; 1] =
    [Method::new("grpc.reflection.v1alpha.ServerReflection/ServerReflectionInfo", Kind::Bidi)];

static DESCRIPTORS: [ServiceDescriptor; 2] = [
    ServiceDescriptor {
        name: "grpc.reflection.v1.ServerReflection",
        methods: &V1,
        file_descriptor_set: None,
    },
    ServiceDescriptor {
        name: "grpc.reflection.v1alpha.ServerReflection",
        methods: &V1_ALPHA,
        file_descriptor_set: None,
    },
];

/// Serves reflection from a [`ReflectionService`] in one of two versions, which differ only in
/// their names.
pub(crate) struct GrpcReflection {
    services: ReflectionService,
    files: Arc<OnceLock<Files>>,
    descriptor: &'static ServiceDescriptor,
}

impl GrpcReflection {
    /// Makes the services of both versions.
    pub(crate) fn of(services: &ReflectionService) -> [Self; 2] {
        let files = Arc::default();
        let service =
            |descriptor| Self { services: services.clone(), files: Arc::clone(&files), descriptor };
        [service(&DESCRIPTORS[0]), service(&DESCRIPTORS[1])]
    }
}

impl Service for GrpcReflection {
    fn descriptor(&self) -> &'static ServiceDescriptor {
        self.descriptor
    }

    fn register(&self, methods: &mut Methods) {
        let (services, files) = (self.services.clone(), Arc::clone(&self.files));
        methods.bidi(
            &self.descriptor.methods[0],
            Codec::protobuf(),
            Codec::protobuf(),
            move |context: Context, requests, replies| {
                answer_all(context, services.clone(), Arc::clone(&files), requests, replies)
            },
        );
    }
}

/// Answers until the client ends its questions or the server drains.
async fn answer_all(
    context: Context,
    services: ReflectionService,
    files: Arc<OnceLock<Files>>,
    mut requests: Streaming<ReflectionRequest>,
    mut replies: Sink<ReflectionResponse>,
) -> Result<(), Status> {
    while let Some(next) = context.until_draining(requests.next()).await {
        let Some(request) = next? else { break };
        let files = files.get_or_init(|| Files::of(services.descriptor_sets()));
        let answer = answer(&services, files, &request);
        let valid_host = request.host.clone();
        let response = ReflectionResponse {
            valid_host,
            original_request: Some(request),
            answer: Some(answer),
        };
        let Some(sent) = context.until_draining(replies.send(response)).await else { break };
        sent?;
    }
    Ok(())
}

fn answer(
    services: &ReflectionService,
    files: &Files,
    request: &ReflectionRequest,
) -> response::MessageResponse {
    let file = |found: Option<&bytes::Bytes>, what: &str| match found {
        Some(file) => response::MessageResponse::Files(FileDescriptors {
            file_descriptor_proto: vec![file.clone()],
        }),
        None => error(Code::NotFound, format!("{what} is unknown")),
    };
    match &request.question {
        Some(request::Question::FileByFilename(name)) => file(files.by_name(name), name),
        Some(request::Question::FileContainingSymbol(name)) => file(files.of_symbol(name), name),
        Some(request::Question::FileContainingExtension(extension)) => {
            let name = format!("{} in {}", extension.extension_number, extension.containing_type);
            let found = files.of_extension(&extension.containing_type, extension.extension_number);
            file(found, &name)
        }
        Some(request::Question::AllExtensionNumbersOfType(name)) => {
            response::MessageResponse::Extensions(ExtensionNumbers {
                base_type_name: name.clone(),
                extension_number: files.extensions_of(name),
            })
        }
        Some(request::Question::ListServices(_)) => {
            let names = services.names().map(|name| ServiceName { name: name.to_owned() });
            response::MessageResponse::Services(ListServices { service: names.collect() })
        }
        None => error(Code::InvalidArgument, String::from("the request has no question")),
    }
}

fn error(code: Code, error_message: String) -> response::MessageResponse {
    response::MessageResponse::Error(ErrorResponse { error_code: code as i32, error_message })
}
