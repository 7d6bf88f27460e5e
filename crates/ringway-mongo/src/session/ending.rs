//! The sessions that a client leaves behind.

use ringway_runtime::now;
use ringway_wire::mongo::SessionId;

use super::SessionPool;

impl SessionPool {
    /// Takes all that no operation uses and that servers may still know.
    pub(crate) fn take_all(&self) -> Vec<SessionId> {
        let known_since = now().checked_sub(self.timeout());
        let all = std::mem::take(&mut *self.free());
        let is_known = |used_at| known_since.is_none_or(|since| used_at >= since);
        all.into_iter().filter(|it| is_known(it.used_at)).map(|it| it.id).collect()
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.free().is_empty()
    }
}
