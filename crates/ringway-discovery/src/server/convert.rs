//! Keys of the store as messages of the wire.

use crate::etcd::api::mvccpb;
use crate::store::KeyValue;

impl From<KeyValue> for mvccpb::KeyValue {
    fn from(found: KeyValue) -> Self {
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
