//! Which servers answer reads.

use bson::RawDocumentBuf;

use crate::error::{Error, Result};
use crate::uri::{ReadMode, ReadPreference};

/// A read preference, with what commands say of it.
#[derive(Clone, Debug)]
pub(crate) struct Reads {
    pub(crate) preference: ReadPreference,
    /// `$readPreference`; `None` if the primary answers.
    pub(crate) field: Option<RawDocumentBuf>,
}

impl Reads {
    /// # Errors
    /// Tags or a lag are asked of the primary, or cannot be encoded.
    pub(crate) fn new(preference: &ReadPreference) -> Result<Self> {
        preference.check().map_err(crate::options::malformed)?;
        let field = match preference.mode {
            ReadMode::Primary => None,
            _ => {
                let document = RawDocumentBuf::try_from(&preference.to_document());
                Some(document.map_err(Error::encoding)?)
            }
        };
        Ok(Self { preference: preference.clone(), field })
    }

    /// Whether others than the primary may answer.
    pub(crate) fn is_elsewhere(&self) -> bool {
        self.preference.mode != ReadMode::Primary
    }
}
