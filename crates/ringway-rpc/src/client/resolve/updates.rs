//! What a resolver tells, and what becomes of it.

use std::collections::HashMap;
use std::fmt;
use std::rc::Rc;

use super::keeper::Keeper;
use crate::call::status::Status;
use crate::client::hosts::Host;
use crate::limits;

/// Where a [resolver](super::Resolver) tells the hosts of its client.
#[derive(Clone)]
pub struct HostUpdates {
    keeper: Rc<Keeper>,
}

/// What has become of a list of hosts.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[must_use = "a list that is held back has to be confirmed"]
pub enum Verdict {
    /// The client uses the list.
    Taken,
    /// The list is empty, or less than half as long as the one before: hosts that are missing in it stay in use. Read
    /// the source again after [`HostUpdates::CONFIRM_AFTER`], and tell what it says then; if that is as short, it is
    /// believed.
    Held,
    /// The list had entries, and none of them is a host. The client uses the former list.
    Refused,
}

/// A list of hosts after the malformed ones have been left out.
#[derive(Default)]
pub(super) struct CheckedList {
    pub(super) hosts: Vec<Host>,
    pub(super) skipped: usize,
    /// Why the first of them was skipped.
    pub(super) why: String,
}

impl HostUpdates {
    /// The wait before a list that was [held back](Verdict::Held) is to be confirmed.
    pub const CONFIRM_AFTER: std::time::Duration = limits::SHORT_LIST_HOLD;

    pub(super) fn new(keeper: Rc<Keeper>) -> Self {
        Self { keeper }
    }

    /// Replaces the client's hosts by this list, which is complete.
    ///
    /// Entries that are errors or cannot be connected to are left out and counted, and so are JSON-RPC servers. Of a
    /// host that is listed twice, the last entry counts. Weights are brought into their range, 1 to 100. A list has
    /// 65,536 hosts at most, and of twice as many entries the rest is left out.
    pub fn set(&self, hosts: impl IntoIterator<Item = Result<Host, Status>>) -> Verdict {
        self.keeper.take(check(hosts), false)
    }

    /// Replaces the client's hosts by this list, as [`set`](Self::set) does, and never holds it back: the source has
    /// said twice that it is as short as it is.
    pub fn set_confirmed(&self, hosts: impl IntoIterator<Item = Result<Host, Status>>) -> Verdict {
        self.keeper.take(check(hosts), true)
    }

    /// Waits until none of the client's hosts can be reached. A source that is asked at intervals is asked again then, at a
    /// rate that it bounds itself: this is ready again when all have failed once more. One task may wait for it.
    pub async fn all_unreachable(&self) {
        self.keeper.all_unreachable().await;
    }

    /// Notes that the source fails, and why. The client keeps the hosts that it has.
    pub fn failed(&self, why: impl fmt::Display) {
        self.keeper.failed(why.to_string());
    }
}

impl fmt::Debug for HostUpdates {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("HostUpdates").field(&self.keeper.source()).finish()
    }
}

pub(super) fn check(hosts: impl IntoIterator<Item = Result<Host, Status>>) -> CheckedList {
    let mut list = CheckedList::default();
    let mut indices = HashMap::new();
    let mut hosts = hosts.into_iter();
    for entry in hosts.by_ref().take(2 * limits::LISTED_HOSTS_MAX) {
        let usable = entry.and_then(|host| host.address.check_resolved().map(|()| host));
        let usable = usable.map_err(|status| status.message().to_owned()).and_then(|mut host| {
            host.weight = host.weight.clamp(1, limits::HOST_WEIGHT_MAX);
            let index = *indices.entry(host.address.clone()).or_insert(list.hosts.len());
            match list.hosts.get_mut(index) {
                Some(known) => *known = host,
                None if index < limits::LISTED_HOSTS_MAX => list.hosts.push(host),
                None => {
                    let most = limits::LISTED_HOSTS_MAX;
                    indices.remove(&host.address);
                    return Err(format!("a list has {most} hosts at most"));
                }
            }
            Ok(())
        });
        if let Err(why) = usable {
            list.skipped += 1;
            if list.why.is_empty() {
                list.why = why;
            }
        }
    }
    if hosts.next().is_some() {
        // They are not looked at one by one, since there may be no end of them.
        list.skipped = list.skipped.saturating_add(hosts.size_hint().0.saturating_add(1));
        if list.why.is_empty() {
            let most = 2 * limits::LISTED_HOSTS_MAX;
            list.why = format!("of a list the first {most} entries are looked at");
        }
    }
    list
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_list_without_end_is_looked_at_up_to_a_bound() {
        let list = check(std::iter::repeat_with(|| Host::new("tcp://10.0.0.1:1")));
        assert_eq!((list.hosts.len(), list.skipped), (1, usize::MAX));
    }
}
