//! Which server gets an operation.

use std::rc::Rc;
use std::time::Duration;

use ringway_runtime::{now_exact, sleep, timeout};

use super::Deployment;
use super::wanted::Wanted;
use crate::error::{Error, Fate, Kind, Result};
use crate::pool::{Lease, Pool, is_of_server};
use crate::topology::{Selection, ServerDescription};
use crate::uri::HostAddress;

impl Deployment {
    /// All servers that fail one after the other have the time of one selection.
    pub(super) async fn lease_of(
        &self,
        mut pool: Rc<Pool>,
        wanted: Wanted<'_>,
        avoided: &[HostAddress],
    ) -> Result<Lease> {
        let mut failing_since = None;
        loop {
            let generation = pool.generation();
            let error = match pool.lease().await {
                Ok(lease) => return Ok(lease),
                Err(error) => error,
            };
            // A server that has too much to do counts as one that is there, unless it has turned out to be gone, and wants a
            // pause.
            let is_there = error.is_overload() && generation == pool.generation();
            let is_settled = matches!(wanted, Wanted::At(_) | Wanted::Of(_));
            if is_settled || is_there || !is_of_server(&error) {
                return Err(error);
            }
            let since = *failing_since.get_or_insert_with(now_exact);
            let spent = now_exact().saturating_duration_since(since);
            pool = Box::pin(self.select(wanted, avoided, Some((error, spent)))).await?;
        }
    }

    /// A connection for commands that are not tried again as a whole: while a server has too much to do for another
    /// connection, it is asked again after pauses.
    pub(crate) async fn lease_patiently(&self, wanted: Wanted<'_>) -> Result<Lease> {
        let mut number = 0;
        loop {
            let leased = self.lease(wanted, &[]).await;
            match &leased {
                Err(error) if error.is_retryable_overload() => {
                    number += 1;
                    if number > self.greeting.options.adaptive_retries_max {
                        return leased;
                    }
                    sleep(error.next_backoff(number)).await;
                }
                _ => return leased,
            }
        }
    }

    /// Waits until a server suits. `failed` is why the last one did not, and the time since the first did not.
    pub(super) async fn select(
        &self,
        wanted: Wanted<'_>,
        avoided: &[HostAddress],
        failed: Option<(Error, Duration)>,
    ) -> Result<Rc<Pool>> {
        let limit = self.greeting.options.selection_timeout;
        let (earlier, spent) = failed.unzip();
        let left = limit.saturating_sub(spent.unwrap_or_default());
        let suitable = async {
            loop {
                let changed = self.changed.notified();
                if let Some(pool) = self.choose(wanted, avoided)? {
                    return Ok(pool);
                }
                self.ask();
                changed.await;
            }
        };
        timeout(left, suitable).await.unwrap_or_else(|_| {
            let wanted =
                if matches!(wanted, Wanted::Write) { "takes writes" } else { "suits the read" };
            let what = format!("no server that {wanted} within {limit:?} ({})", self.describe());
            let error = Error::new(Kind::Network, Fate::NotSent, what);
            Err(match earlier {
                Some(earlier) => error.with_source(earlier),
                None => error,
            })
        })
    }

    fn choose(&self, wanted: Wanted<'_>, avoided: &[HostAddress]) -> Result<Option<Rc<Pool>>> {
        let members = self.members.borrow();
        if let Wanted::At(id) = wanted {
            let gone = || {
                let what =
                    "the server that has the cursor does not belong to the deployment any more";
                Error::new(Kind::Network, Fate::NotSent, what)
            };
            let member = members.iter().find(|member| member.pool.id() == id).ok_or_else(gone)?;
            return Ok(Some(Rc::clone(&member.pool)));
        }
        if let Wanted::Of(address) = wanted {
            let gone = || {
                let what =
                    "the router that has the transaction does not belong to the cluster any more";
                Error::new(Kind::Network, Fate::NotSent, what)
            };
            let member = members.iter().find(|member| member.pool.address() == address);
            return Ok(Some(Rc::clone(&member.ok_or_else(gone)?.pool)));
        }
        let options = &self.greeting.options;
        let selection = match wanted {
            Wanted::Read(reads) => Selection::Read(&self.reads(reads).preference),
            _ => Selection::Write,
        };
        let topology = self.topology.borrow();
        let nearest = topology.nearest_but(selection, avoided, options.local_threshold);
        let servers = nearest.map_err(|error| {
            Error::new(Kind::Incompatible, Fate::NotSent, "no server can be used")
                .with_source(error)
        })?;
        let pool_of = |server: &&ServerDescription| {
            members.iter().map(|member| &member.pool).find(|it| *it.address() == server.address)
        };
        let pools: Vec<_> = servers.iter().filter_map(pool_of).collect();
        Ok(self.less_busy(&pools).cloned())
    }

    /// Of two pools, the one that has lent fewer connections; each time other two.
    fn less_busy<'a>(&self, pools: &[&'a Rc<Pool>]) -> Option<&'a Rc<Pool>> {
        let turn = self.turn.get();
        self.turn.set(turn.wrapping_add(1));
        less_busy_of_two(turn, pools.len(), |at| pools[at].leased()).map(|at| pools[at])
    }
}

/// Of two of so many servers, the one with fewer operations. Each of them is compared with each other one as often: what
/// the specification has chance do.
///
/// Specification: Server Selection, "Selecting servers within the latency window".
pub(super) fn less_busy_of_two(
    turn: usize,
    count: usize,
    operations: impl Fn(usize) -> u32,
) -> Option<usize> {
    let one = turn.checked_rem(count)?;
    let step = 1 + (turn / count).checked_rem(count - 1).unwrap_or(0);
    let other = (one + step) % count;
    Some(if operations(other) < operations(one) { other } else { one })
}
