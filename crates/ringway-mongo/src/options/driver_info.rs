//! Libraries around the client, of which servers are told.

use crate::error::{Error, Fate, Kind, Result};
use crate::limits::{DRIVER_INFO_LEN_MAX, DRIVER_INFOS_MAX};

/// A library that wraps this client. Servers write it to their logs, behind the name of the client.
///
/// Specification: MongoDB Handshake, "Supporting Wrapping Libraries".
///
/// ```
/// use ringway_mongo::{ClientOptions, DriverInfo};
///
/// let info = DriverInfo::new("shop-orm").version("2.1.0");
/// let options = ClientOptions::parse("mongodb://127.0.0.1")?.driver_info(info)?;
/// # Ok::<(), ringway_mongo::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DriverInfo {
    pub(crate) name: String,
    pub(crate) version: String,
    pub(crate) platform: String,
}

impl DriverInfo {
    /// Names a library.
    #[must_use]
    pub fn new(name: &str) -> Self {
        Self { name: name.to_owned(), version: String::new(), platform: String::new() }
    }

    /// Sets its version.
    #[must_use]
    pub fn version(mut self, version: &str) -> Self {
        self.version = version.to_owned();
        self
    }

    /// Sets what it is made of, such as a language with its version.
    #[must_use]
    pub fn platform(mut self, platform: &str) -> Self {
        self.platform = platform.to_owned();
        self
    }

    /// Adds it to those that are told, unless it is there already.
    ///
    /// # Errors
    /// [`Kind::Options`]: it cannot be told; [`Kind::Limit`]: there are too many.
    pub(crate) fn join(self, infos: &mut Vec<Self>) -> Result {
        self.check()?;
        if infos.contains(&self) {
            return Ok(());
        }
        if infos.len() == DRIVER_INFOS_MAX {
            let what = format!("a client tells of at most {DRIVER_INFOS_MAX} libraries around it");
            return Err(Error::new(Kind::Limit, Fate::NotSent, what));
        }
        infos.push(self);
        Ok(())
    }

    fn check(&self) -> Result {
        let texts = [&self.name, &self.version, &self.platform];
        let wrong = if texts.iter().any(|text| text.contains('|')) {
            "must not contain \"|\", which stands between two of them".to_owned()
        } else if texts.iter().any(|text| text.len() > DRIVER_INFO_LEN_MAX) {
            format!("has at most {DRIVER_INFO_LEN_MAX} bytes")
        } else if self.name.is_empty() {
            "must not be empty".to_owned()
        } else {
            return Ok(());
        };
        let what = format!("the name, version or platform of a library around the client {wrong}");
        Err(Error::new(Kind::Options, Fate::NotSent, what))
    }
}
