//! Keys of the store as messages of the wire.

use bytes::Bytes;

use crate::etcd::api::mvccpb;
use crate::store::KeyValue;

impl From<KeyValue<Bytes>> for mvccpb::KeyValue {
    fn from(found: KeyValue<Bytes>) -> Self {
        Self {
            key: found.key,
            create_revision: found.create_revision.0,
            mod_revision: found.mod_revision.0,
            version: found.version,
            value: found.value,
            lease: found.lease.0,
        }
    }
}
