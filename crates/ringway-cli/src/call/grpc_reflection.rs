//! Reflection of gRPC servers: `grpc.reflection.v1`, or `v1alpha` of older ones.

use std::collections::{BTreeMap, BTreeSet};

use bytes::Bytes;
use prost::Message as _;
use prost_reflect::prost_types::FileDescriptorProto;
use prost_reflect::prost_types::method_options::IdempotencyLevel;
use prost_reflect::{DescriptorPool, MethodDescriptor};
use ringway_rpc::reflection::{DescribeResponse, MethodDescription};
use ringway_rpc::{Client, Code, Codec, Kind, Method, Sink, Status, Streaming};

use super::grpc_messages::{
    FileSet, ReflectionRequest, ReflectionResponse, request::Wanted, response::Told,
};
use crate::limits::{REFLECTION_BYTES_MAX, REFLECTION_FILES_MAX};

static V1: Method =
    Method::new("grpc.reflection.v1.ServerReflection/ServerReflectionInfo", Kind::Bidi);
static V1_ALPHA: Method =
    Method::new("grpc.reflection.v1alpha.ServerReflection/ServerReflectionInfo", Kind::Bidi);

/// The reflection service of a gRPC server, and the files received so far.
pub(super) struct GrpcReflection {
    client: Client,
    /// Older servers have only one of these.
    version: &'static Method,
    /// All questions use one stream while it lasts; a server may leave out what it has sent on it before.
    stream: Option<Stream>,
    /// Files by name.
    files: BTreeMap<String, File>,
    /// Bytes of all files.
    len: usize,
}

struct Stream {
    questions: Sink<ReflectionRequest>,
    answers: Streaming<ReflectionResponse>,
}

struct File {
    bytes: Bytes,
    imports: Vec<String>,
}

impl GrpcReflection {
    pub(super) fn new(client: &Client) -> Self {
        let (client, files) = (client.clone(), BTreeMap::new());
        Self { client, version: &V1, stream: None, files, len: 0 }
    }

    /// Returns the names of all services.
    ///
    /// # Errors
    /// UNIMPLEMENTED if the server has no reflection; otherwise the server's status.
    pub(super) async fn services(&mut self) -> Result<Vec<String>, Status> {
        match self.ask(Wanted::Services("*".to_owned())).await? {
            Told::Services(told) => Ok(told.services.into_iter().map(|it| it.name).collect()),
            _ => Err(another_answer("the list of services")),
        }
    }

    /// Returns a service as its `.proto` file declares it.
    ///
    /// # Errors
    /// UNIMPLEMENTED if the server has no reflection; the server's status, such as NOT_FOUND; or invalid files.
    pub(super) async fn describe(&mut self, service: &str) -> Result<DescribeResponse, Status> {
        self.fetch(Wanted::FileOf(service.to_owned())).await?;
        let mut absent = BTreeSet::new();
        while let Some(name) = self.missing(&absent) {
            match self.fetch(Wanted::File(name.clone())).await {
                // The well-known files are known here too.
                Err(status) if status.is_not_found() && name.starts_with("google/protobuf/") => {}
                Err(status) => return Err(status),
                Ok(()) => {}
            }
            // A file that came under another name is not requested again.
            absent.insert(name);
        }
        self.description(service)
    }

    /// Returns a file that others import and that is missing.
    fn missing(&self, absent: &BTreeSet<String>) -> Option<String> {
        let mut imports = self.files.values().flat_map(|file| &file.imports);
        imports.find(|&name| !self.files.contains_key(name) && !absent.contains(name)).cloned()
    }

    async fn fetch(&mut self, wanted: Wanted) -> Result<(), Status> {
        let Told::Files(told) = self.ask(wanted).await? else {
            return Err(another_answer("a file"));
        };
        for bytes in told.files {
            let file =
                FileDescriptorProto::decode(&bytes[..]).map_err(|error| unreadable(&error))?;
            self.len += bytes.len();
            self.files.insert(file.name().to_owned(), File { bytes, imports: file.dependency });
        }
        if self.files.len() > REFLECTION_FILES_MAX || self.len > REFLECTION_BYTES_MAX {
            return Err(Status::resource_exhausted(format!(
                "the server describes itself in more than {REFLECTION_FILES_MAX} files or {} MiB",
                REFLECTION_BYTES_MAX >> 20
            )));
        }
        Ok(())
    }

    async fn ask(&mut self, wanted: Wanted) -> Result<Told, Status> {
        loop {
            let stream = self.stream.take();
            let mut stream = stream.unwrap_or_else(|| Stream::open(&self.client, self.version));
            match stream.ask(wanted.clone()).await {
                Ok(answer) => {
                    self.stream = Some(stream);
                    return told(answer);
                }
                Err(status) if status.is_unimplemented() && self.version.name() == V1.name() => {
                    self.version = &V1_ALPHA;
                }
                Err(status) => return Err(status),
            }
        }
    }

    fn description(&self, service: &str) -> Result<DescribeResponse, Status> {
        let files = self.files.values().map(|file| file.bytes.clone()).collect();
        let set = Bytes::from(FileSet { files }.encode_to_vec());
        let pool = pool(&set).map_err(|error| unreadable(&error))?;
        let found = pool.get_service_by_name(service).ok_or_else(|| {
            Status::not_found(format!("the file that the server names does not declare {service}"))
        })?;
        Ok(DescribeResponse {
            methods: found.methods().map(|method| description(&method)).collect(),
            file_descriptor_set: set,
        })
    }
}

impl Stream {
    fn open(client: &Client, version: &'static Method) -> Self {
        let (questions, answers) = client.bidi(version, Codec::protobuf(), Codec::protobuf());
        Self { questions, answers }
    }

    async fn ask(&mut self, wanted: Wanted) -> Result<ReflectionResponse, Status> {
        // A finished call accepts no more messages; its other half tells how it ended.
        _ = self.questions.send(ReflectionRequest { wanted: Some(wanted) }).await;
        let answer = self.answers.next().await?;
        answer.ok_or_else(|| Status::internal("the server ended its reflection stream early"))
    }
}

/// Returns the types that `set` declares, and the well-known ones.
///
/// # Errors
/// It is not a `google.protobuf.FileDescriptorSet`, or lacks a file that it imports.
pub(super) fn pool(set: &[u8]) -> Result<DescriptorPool, prost_reflect::DescriptorError> {
    let mut pool = DescriptorPool::global();
    pool.decode_file_descriptor_set(set)?;
    Ok(pool)
}

fn told(answer: ReflectionResponse) -> Result<Told, Status> {
    match answer.told {
        Some(Told::Failure(failure)) => {
            let code = u8::try_from(failure.code).map_or(Code::Unknown, Code::from_wire);
            let code = if code == Code::Ok { Code::Unknown } else { code };
            Err(Status::new(code, failure.message))
        }
        Some(told) => Ok(told),
        None => Err(another_answer("anything")),
    }
}

fn description(method: &MethodDescriptor) -> MethodDescription {
    let options = method.method_descriptor_proto().options.as_ref();
    let level = options.map(|options| options.idempotency_level());
    MethodDescription {
        name: method.name().to_owned(),
        streams_in: method.is_client_streaming(),
        streams_out: method.is_server_streaming(),
        codec_in: PROTOBUF,
        codec_out: PROTOBUF,
        idempotent: level.is_some_and(|level| level != IdempotencyLevel::IdempotencyUnknown),
        message_in: method.input().full_name().to_owned(),
        message_out: method.output().full_name().to_owned(),
    }
}

fn another_answer(asked: &str) -> Status {
    Status::internal(format!(
        "the server's reflection was asked for {asked} and answered something else"
    ))
}

fn unreadable(error: &dyn std::error::Error) -> Status {
    Status::internal(format!("the server's descriptors cannot be read: {error}"))
}

/// The number of the codec.
const PROTOBUF: u32 = 1;
