//! What a watch knows of a service: its keys, and the endpoints that they stand for.
//!
//! A registry is not believed blindly: what cannot be true is refused, and what was known stays.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::api::mvccpb::event::EventType;
use super::api::mvccpb::{Event, KeyValue};
use super::keys::ServiceKeys;
use super::range::Listed;
use crate::endpoint::{Endpoint, Error};
use crate::limits;

/// The keys of a service as they were at one revision.
pub(super) struct Listing {
    keys: ServiceKeys,
    /// The cluster that has told of them; 0 if none has yet.
    cluster: u64,
    /// The revision up to which all is known.
    revision: i64,
    entries: BTreeMap<Vec<u8>, KnownKey>,
}

struct KnownKey {
    /// The revision of the last change that could be read.
    revision: i64,
    endpoint: Arc<Endpoint>,
}

/// Why a list is not believed at once. It may be true, and is asked for again.
pub(super) struct Doubt(pub(super) Error);

impl Listing {
    pub(super) fn new(keys: ServiceKeys) -> Self {
        Self { keys, cluster: 0, revision: 0, entries: BTreeMap::new() }
    }

    pub(super) fn revision(&self) -> i64 {
        self.revision
    }

    pub(super) fn cluster(&self) -> u64 {
        self.cluster
    }

    /// The endpoints in the order of their addresses, each address once: that of the last change.
    pub(super) fn endpoints(&self) -> Vec<Arc<Endpoint>> {
        let mut entries: Vec<_> = self.entries.values().collect();
        entries.sort_by(|one, other| {
            let addresses = one.endpoint.address().cmp(other.endpoint.address());
            addresses.then(other.revision.cmp(&one.revision))
        });
        entries.dedup_by(|one, other| one.endpoint.address() == other.endpoint.address());
        entries.into_iter().map(|entry| Arc::clone(&entry.endpoint)).collect()
    }

    /// Whether a list that was read may be wrong, given that there were `before` endpoints: it has lost more than half
    /// of them at once, or is older than what is known.
    pub(super) fn doubt(&self, listed: &Listed, before: usize) -> Option<Doubt> {
        let is_same = self.cluster == listed.cluster;
        if self.cluster != 0 && !is_same {
            return doubt("the registry is another one now");
        }
        if listed.revision < self.revision {
            return doubt(format!(
                "the registry was at revision {} and is at {} now: it has lost changes",
                self.revision, listed.revision
            ));
        }
        let now = listed.values.iter().filter(|value| self.would_have(value)).count();
        if now < before.div_ceil(2) {
            return doubt(format!("the registry has {now} endpoints of the {before} that it had"));
        }
        None
    }

    /// Whether a value is an endpoint of the service, or would leave the one that its key stood for.
    fn would_have(&self, value: &KeyValue) -> bool {
        match Endpoint::from_json(&value.value) {
            Ok(endpoint) => !self.keys.is_of_longer_name(&value.key, &endpoint),
            Err(_) => self.entries.contains_key(&*value.key),
        }
    }

    /// Takes a whole list over.
    ///
    /// # Errors
    /// Fails if it cannot be that of the service. Nothing has changed then.
    pub(super) fn replace(&mut self, listed: Listed) -> Result<(), Error> {
        listed.values.iter().try_for_each(|value| self.check(value, listed.revision))?;
        let mut entries = BTreeMap::new();
        for value in listed.values {
            let former = self.entries.remove(&*value.key);
            if let Some(entry) = self.entry(&value, former) {
                entries.insert(value.key.to_vec(), entry);
            }
        }
        self.entries = entries;
        (self.cluster, self.revision) = (listed.cluster, listed.revision);
        Ok(())
    }

    /// Takes the changes of one revision or several over.
    ///
    /// # Errors
    /// Fails if they cannot be those that come next. Nothing has changed then.
    pub(super) fn apply(&mut self, events: Vec<Event>, revision: i64) -> Result<(), Error> {
        let most = limits::ENDPOINTS_MAX;
        let is_new = |event: &&Event| {
            let key = event.kv.as_ref().map(|value| &*value.key);
            event.r#type() == EventType::Put && key.is_some_and(|it| !self.entries.contains_key(it))
        };
        if self.entries.len() + events.iter().filter(is_new).count() > most {
            return Err(Error::new(format!("the service has more than {most} endpoints")));
        }
        let mut last = self.revision;
        for event in &events {
            let Some(value) = &event.kv else {
                return Err(Error::new("the registry tells of a change without its key"));
            };
            self.check(value, revision)?;
            if value.mod_revision <= self.revision || value.mod_revision < last {
                let at = value.mod_revision;
                return Err(Error::new(format!(
                    "the registry tells of revision {at} after revision {last}"
                )));
            }
            last = value.mod_revision;
        }
        for event in events {
            let is_put = event.r#type() == EventType::Put;
            let Some(value) = event.kv else { continue };
            let former = self.entries.remove(&*value.key);
            let entry = if is_put { self.entry(&value, former) } else { None };
            if let Some(entry) = entry {
                self.entries.insert(value.key.to_vec(), entry);
            }
        }
        self.revision = last;
        Ok(())
    }

    /// Notes that nothing has changed up to a revision.
    pub(super) fn progress(&mut self, revision: i64) {
        self.revision = self.revision.max(revision);
    }

    fn check(&self, value: &KeyValue, revision: i64) -> Result<(), Error> {
        if !self.keys.contains(&value.key) {
            let key = value.key.escape_ascii();
            return Err(Error::new(format!("the registry tells of `{key}`, which is foreign")));
        }
        if value.mod_revision > revision {
            let at = value.mod_revision;
            return Err(Error::new(format!(
                "the registry tells of revision {at} before it is at more than {revision}"
            )));
        }
        Ok(())
    }

    /// What a value stands for; what the key stood for if it cannot be read.
    fn entry(&self, value: &KeyValue, former: Option<KnownKey>) -> Option<KnownKey> {
        match Endpoint::from_json(&value.value) {
            Ok(endpoint) if self.keys.is_of_longer_name(&value.key, &endpoint) => None,
            Ok(endpoint) => {
                Some(KnownKey { revision: value.mod_revision, endpoint: Arc::new(endpoint) })
            }
            Err(error) => {
                let kept = if former.is_some() { "its last value is kept" } else { "left out" };
                tracing::warn!(key = %value.key.escape_ascii(), %error, kept, "wrong value in the registry");
                former
            }
        }
    }
}

fn doubt(why: impl Into<String>) -> Option<Doubt> {
    Some(Doubt(Error::new(why)))
}

#[cfg(test)]
mod tests;
