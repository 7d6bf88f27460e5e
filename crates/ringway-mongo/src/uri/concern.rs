//! Read and write concerns, by MongoDB's specification "Read and Write Concern".

use std::time::Duration;

use bson::Document;

use super::InvalidUri;

/// How many members must have a document before a read returns it: `local`, `majority` and so on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ReadConcern {
    /// The level, as the server knows it.
    pub level: String,
}

impl ReadConcern {
    /// Returns the `readConcern` field of a command.
    pub fn to_document(&self) -> Document {
        bson::doc! { "level": self.level.as_str() }
    }
}

/// Which members must confirm a write.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Acknowledgment {
    /// So many members; with 0 the server does not answer at all.
    Nodes(u32),
    /// Most of the members that vote and bear data.
    Majority,
    /// The members that a rule of the replica set's configuration names.
    Custom(String),
}

/// What a write waits for. Without any setting the server's own default holds.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct WriteConcern {
    /// Which members must confirm the write.
    pub w: Option<Acknowledgment>,
    /// Whether they must have written it to their journals.
    pub journal: Option<bool>,
    /// How long the server waits for that; without it, for ever.
    pub w_timeout: Option<Duration>,
}

impl WriteConcern {
    /// Whether nothing is set.
    pub fn is_server_default(&self) -> bool {
        *self == Self::default()
    }

    /// Whether the server answers a write.
    pub fn is_acknowledged(&self) -> bool {
        self.w != Some(Acknowledgment::Nodes(0)) || self.journal == Some(true)
    }

    /// Checks that the settings do not contradict each other.
    ///
    /// # Errors
    /// A write that nobody confirms (`w=0`) cannot wait for the journal.
    pub fn check(&self) -> Result<(), InvalidUri> {
        match (&self.w, self.journal) {
            (Some(Acknowledgment::Nodes(0)), Some(true)) => Err(InvalidUri::new(
                "w=0 asks for no confirmation, and journal=true for one: leave one of them out",
            )),
            _ => Ok(()),
        }
    }

    /// Returns the `writeConcern` field of a command.
    pub fn to_document(&self) -> Document {
        let mut document = Document::new();
        match &self.w {
            Some(Acknowledgment::Nodes(count)) => {
                document.insert("w", i32::try_from(*count).unwrap_or(i32::MAX));
            }
            Some(Acknowledgment::Majority) => {
                document.insert("w", "majority");
            }
            Some(Acknowledgment::Custom(name)) => {
                document.insert("w", name.as_str());
            }
            None => {}
        }
        if let Some(timeout) = self.w_timeout {
            document.insert("wtimeout", i64::try_from(timeout.as_millis()).unwrap_or(i64::MAX));
        }
        if let Some(journal) = self.journal {
            document.insert("j", journal);
        }
        document
    }
}
