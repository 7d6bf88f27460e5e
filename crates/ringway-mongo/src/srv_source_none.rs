//! What stands in the place of DNS without the feature `dns`: no server is looked up.

use std::time::Duration;

use crate::error::Result;
use crate::uri::{ConnectionString, HostAddress};

pub(crate) use self::NoDns as SrvSource;

/// There is none.
#[derive(Clone, Debug)]
pub(crate) enum NoDns {}

impl NoDns {
    pub(crate) fn of(uri: &ConnectionString) -> Option<Self> {
        debug_assert!(uri.looked_up.is_none(), "nothing is looked up");
        None
    }

    pub(crate) fn servers_max(&self) -> usize {
        match *self {}
    }

    pub(crate) fn first_pause(&self) -> Duration {
        match *self {}
    }

    pub(crate) fn pause(&self, _: Duration) -> Duration {
        match *self {}
    }

    pub(crate) async fn look_up(&self) -> Result<(Vec<HostAddress>, Duration)> {
        match *self {}
    }
}
