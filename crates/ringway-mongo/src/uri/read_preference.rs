//! Read preferences, by MongoDB's specification "Server Selection".

use std::collections::BTreeMap;
use std::time::Duration;

use bson::{Document, doc};

use super::InvalidUri;

/// Which members of a replica set may answer reads.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum ReadMode {
    /// The primary alone.
    #[default]
    Primary,
    /// The primary, or a secondary while there is none.
    PrimaryPreferred,
    /// Secondaries alone.
    Secondary,
    /// A secondary, or the primary while there is none.
    SecondaryPreferred,
    /// Whichever member is near.
    Nearest,
}

impl ReadMode {
    const ALL: [(&'static str, Self); 5] = [
        ("primary", Self::Primary),
        ("primaryPreferred", Self::PrimaryPreferred),
        ("secondary", Self::Secondary),
        ("secondaryPreferred", Self::SecondaryPreferred),
        ("nearest", Self::Nearest),
    ];

    /// The mode of this name, whatever its case.
    pub(super) fn parse(name: &str) -> Option<Self> {
        Self::ALL.iter().find(|(known, _)| known.eq_ignore_ascii_case(name)).map(|(_, mode)| *mode)
    }

    /// The name of the mode in connection strings and commands.
    pub fn name(self) -> &'static str {
        Self::ALL.iter().find(|(_, mode)| *mode == self).map_or("primary", |(name, _)| name)
    }
}

/// Tags that a member must have, all of them.
pub type TagSet = BTreeMap<String, String>;

/// Which members of a replica set may answer reads, and how far they may lag behind.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct ReadPreference {
    /// The kind of member.
    pub mode: ReadMode,
    /// Sets of tags in the order in which they are tried; an empty set matches every member, and an empty list too.
    pub tag_sets: Vec<TagSet>,
    /// The longest lag behind the primary; `None` for any.
    pub max_staleness: Option<Duration>,
}

impl ReadPreference {
    /// Makes a preference for one kind of member, whatever its tags and its lag.
    pub fn new(mode: ReadMode) -> Self {
        Self { mode, ..Self::default() }
    }

    /// The value of the field `$readPreference`.
    pub fn to_document(&self) -> Document {
        let mut document = doc! { "mode": self.mode.name() };
        if !self.tag_sets.is_empty() {
            let set = |tags: &TagSet| -> Document {
                tags.iter().map(|(name, value)| (name.clone(), value.into())).collect()
            };
            document.insert("tags", self.tag_sets.iter().map(set).collect::<Vec<_>>());
        }
        if let Some(max) = self.max_staleness {
            document
                .insert("maxStalenessSeconds", i64::try_from(max.as_secs()).unwrap_or(i64::MAX));
        }
        document
    }

    /// Checks that tags and lag are not asked of the primary.
    ///
    /// # Errors
    /// The mode is [`ReadMode::Primary`], and tags or a lag are set.
    pub fn check(&self) -> Result<(), InvalidUri> {
        let has_tags = self.tag_sets.iter().any(|tags| !tags.is_empty());
        if self.mode == ReadMode::Primary && (has_tags || self.max_staleness.is_some()) {
            let message = "readPreferenceTags and maxStalenessSeconds need a readPreference other than primary";
            return Err(InvalidUri::new(message));
        }
        Ok(())
    }
}
