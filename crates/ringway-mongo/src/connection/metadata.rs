//! What new connections say of the client.

use std::sync::{Arc, Mutex, PoisonError};

use ringway_wire::mongo::{ClientDescription, ClientMetadata};

use crate::error::Result;
use crate::options::{ClientOptions, DriverInfo};

/// What new connections of a client say of it, on whatever core. Libraries around the client may add to it at any time.
pub(crate) struct HandshakeMetadata {
    options: Arc<ClientOptions>,
    told: Mutex<ToldMetadata>,
}

struct ToldMetadata {
    infos: Vec<DriverInfo>,
    document: Arc<ClientMetadata>,
}

impl HandshakeMetadata {
    pub(crate) fn new(options: &Arc<ClientOptions>) -> Arc<Self> {
        let infos = options.driver_infos.clone();
        let document = document(options, &infos);
        Arc::new(Self {
            options: Arc::clone(options),
            told: Mutex::new(ToldMetadata { infos, document }),
        })
    }

    /// What the next connection says.
    pub(crate) fn now(&self) -> Arc<ClientMetadata> {
        Arc::clone(&self.told.lock().unwrap_or_else(PoisonError::into_inner).document)
    }

    /// Adds a library, unless it is there already.
    ///
    /// # Errors
    /// Those of [`DriverInfo::join`].
    pub(crate) fn append(&self, info: DriverInfo) -> Result {
        let mut told = self.told.lock().unwrap_or_else(PoisonError::into_inner);
        info.join(&mut told.infos)?;
        told.document = document(&self.options, &told.infos);
        Ok(())
    }
}

fn document(options: &ClientOptions, infos: &[DriverInfo]) -> Arc<ClientMetadata> {
    let joined = |own: &str, field: fn(&DriverInfo) -> &String| {
        let others = infos.iter().map(field).filter(|text| !text.is_empty());
        others.fold(own.to_owned(), |joined, other| format!("{joined}|{other}"))
    };
    let driver = joined("ringway", |info| &info.name);
    let version = joined(env!("CARGO_PKG_VERSION"), |info| &info.version);
    let platform = joined("Rust, Ringway runtime", |info| &info.platform);
    let client = options.environment.describe(ClientDescription {
        application: options.application.as_deref(),
        driver: &driver,
        version: &version,
        platform: &platform,
        ..ClientDescription::default()
    });
    Arc::new(ClientMetadata::new(&client))
}
