//! A limit that leaves the process few descriptors.

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

use crate::held::open_descriptors;

/// Keeps the limit of descriptors low until it is dropped.
pub(crate) struct Scarcity {
    before: Rlimit,
}

impl Scarcity {
    /// Sets the limit so that about `spare` descriptors are left.
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
