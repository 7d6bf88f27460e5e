//! A process with few descriptors.

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

use crate::held::open_descriptors;

/// The limit of descriptors is low until this is dropped.
pub(crate) struct Scarcity {
    before: Rlimit,
}

impl Scarcity {
    /// Leaves about so many.
    pub(crate) fn begin(spare: usize) -> Self {
        let before = getrlimit(Resource::Nofile);
        let limit = (open_descriptors() + spare) as u64;
        setrlimit(Resource::Nofile, Rlimit { current: Some(limit), ..before })
            .expect("a lower limit");
        Self { before }
    }
}

impl Drop for Scarcity {
    fn drop(&mut self) {
        setrlimit(Resource::Nofile, self.before).expect("the limit that was");
    }
}
