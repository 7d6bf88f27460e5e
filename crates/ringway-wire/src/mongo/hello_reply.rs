//! What a server says about itself.

use bson::oid::ObjectId;
use bson::{RawBsonRef, RawDocument};

use super::command_reply::number;
use super::fault::MongoFault;
use super::limits::MONGO_MESSAGE_MAX;
use super::scram::ScramMechanism;

/// The part that a server plays in its deployment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ServerKind {
    /// A server that stands alone.
    Standalone,
    /// A router of a sharded cluster.
    Mongos,
    /// The primary of a replica set.
    Primary,
    /// A secondary of a replica set.
    Secondary,
    /// A member of a replica set that only votes.
    Arbiter,
    /// A member of a replica set that is none of these, such as a hidden one.
    Other,
    /// A server whose replica set has not been set up.
    Ghost,
}

/// The answer to `hello`, borrowed.
#[derive(Debug, Clone, Copy)]
pub struct HelloReply<'a> {
    /// What the server is.
    pub kind: ServerKind,
    /// The lowest version of the protocol that the server speaks.
    pub wire_version_min: i32,
    /// The highest version of the protocol that the server speaks.
    pub wire_version_max: i32,
    /// Bytes that a document may have.
    pub document_len_max: usize,
    /// Bytes that a message may have.
    pub message_len_max: usize,
    /// Writes that one command may have.
    pub writes_max: usize,
    /// Minutes after which unused sessions end; `None` if the server has no sessions.
    pub session_timeout_minutes: Option<u32>,
    /// The number by which the server's log calls this connection.
    pub connection_id: Option<i64>,
    /// The service that answers behind a load balancer.
    pub service_id: Option<ObjectId>,
    /// The name of the replica set.
    pub set_name: Option<&'a str>,
    /// What the server answers to the authentication that `hello` has begun.
    pub speculative_authenticate: Option<&'a RawDocument>,
    document: &'a RawDocument,
}

/// Bytes of a document if the server does not tell.
const DOCUMENT_LEN_DEFAULT: usize = 16 << 20;

/// Writes of a command if the server does not tell.
const WRITES_DEFAULT: usize = 100_000;

/// What decides about the kind.
#[derive(Default)]
struct HelloRole {
    is_writable_primary: bool,
    is_secondary: bool,
    is_arbiter: bool,
    is_hidden: bool,
    is_replica_set: bool,
    is_mongos: bool,
}

impl<'a> HelloReply<'a> {
    /// Reads the body of a reply whose `ok` is 1. Limits are those of the server, but at least one and at
    /// most what this crate sends.
    ///
    /// # Errors
    /// It is not BSON, or a field has another type.
    pub fn of(body: &'a RawDocument) -> Result<Self, MongoFault> {
        let mut reply = Self {
            kind: ServerKind::Standalone,
            wire_version_min: 0,
            wire_version_max: 0,
            document_len_max: DOCUMENT_LEN_DEFAULT,
            message_len_max: MONGO_MESSAGE_MAX,
            writes_max: WRITES_DEFAULT,
            session_timeout_minutes: None,
            connection_id: None,
            service_id: None,
            set_name: None,
            speculative_authenticate: None,
            document: body,
        };
        let mut role = HelloRole::default();
        for element in body.iter() {
            let (name, value) = element.map_err(|_| MongoFault::Document("a reply to hello"))?;
            reply.take(name.as_str(), value, &mut role)?;
        }
        reply.kind = role.kind(reply.set_name.is_some());
        Ok(reply)
    }

    fn take(
        &mut self,
        name: &str,
        value: RawBsonRef<'a>,
        role: &mut HelloRole,
    ) -> Result<(), MongoFault> {
        let bounded = |name, max: usize| -> Result<usize, MongoFault> {
            let number = number(value).ok_or(MongoFault::Field(name))?;
            Ok((number as usize).clamp(1, max))
        };
        match name {
            "minWireVersion" => self.wire_version_min = version(value)?,
            "maxWireVersion" => self.wire_version_max = version(value)?,
            "maxBsonObjectSize" => {
                self.document_len_max = bounded("maxBsonObjectSize", MONGO_MESSAGE_MAX)?;
            }
            "maxMessageSizeBytes" => {
                self.message_len_max = bounded("maxMessageSizeBytes", MONGO_MESSAGE_MAX)?;
            }
            "maxWriteBatchSize" => self.writes_max = bounded("maxWriteBatchSize", WRITES_DEFAULT)?,
            "logicalSessionTimeoutMinutes" => {
                self.session_timeout_minutes = number(value).map(|minutes| minutes as u32);
            }
            "connectionId" => self.connection_id = number(value).map(|id| id as i64),
            "serviceId" => self.service_id = value.as_object_id(),
            "setName" => self.set_name = value.as_str(),
            "speculativeAuthenticate" => self.speculative_authenticate = value.as_document(),
            "isWritablePrimary" | "ismaster" => {
                role.is_writable_primary |= value.as_bool().unwrap_or(false);
            }
            "secondary" => role.is_secondary = value.as_bool().unwrap_or(false),
            "arbiterOnly" => role.is_arbiter = value.as_bool().unwrap_or(false),
            "hidden" => role.is_hidden = value.as_bool().unwrap_or(false),
            "isreplicaset" => role.is_replica_set = value.as_bool().unwrap_or(false),
            "msg" => role.is_mongos = value.as_str() == Some("isdbgrid"),
            _ => {}
        }
        Ok(())
    }

    /// The compressors that the server shares with the client.
    #[must_use]
    pub fn has_compressor(&self, name: &str) -> bool {
        self.lists("compression", name)
    }

    /// The best mechanism that the server has for the user that `hello` has asked about; `None` if it does
    /// not tell.
    #[must_use]
    pub fn mechanism(&self) -> Option<ScramMechanism> {
        self.document.get_array("saslSupportedMechs").ok()?;
        let known = [ScramMechanism::Sha256, ScramMechanism::Sha1];
        known.into_iter().find(|known| self.lists("saslSupportedMechs", known.name()))
    }

    /// The whole document.
    #[must_use]
    pub fn document(&self) -> &'a RawDocument {
        self.document
    }

    fn lists(&self, field: &str, name: &str) -> bool {
        let Ok(list) = self.document.get_array(field) else { return false };
        list.into_iter().flatten().any(|entry| entry.as_str() == Some(name))
    }
}

fn version(value: RawBsonRef<'_>) -> Result<i32, MongoFault> {
    number(value).map(|version| version as i32).ok_or(MongoFault::Field("maxWireVersion"))
}

impl HelloRole {
    /// Specification: Server Discovery and Monitoring, "type".
    fn kind(&self, is_in_set: bool) -> ServerKind {
        match self {
            _ if self.is_mongos => ServerKind::Mongos,
            _ if self.is_replica_set => ServerKind::Ghost,
            _ if !is_in_set => ServerKind::Standalone,
            _ if self.is_writable_primary => ServerKind::Primary,
            _ if self.is_hidden => ServerKind::Other,
            _ if self.is_secondary => ServerKind::Secondary,
            _ if self.is_arbiter => ServerKind::Arbiter,
            _ => ServerKind::Other,
        }
    }
}
