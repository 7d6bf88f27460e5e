//! Task names as small numbers, so that another thread can read which task is running.

use std::cell::RefCell;
use std::sync::Mutex;

/// The number of a task name; zero means none.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct NameId(u32);

static NAMES: Mutex<Vec<&'static str>> = Mutex::new(Vec::new());

thread_local! {
    /// Names seen by this thread; there are few, since they are names of types.
    static SEEN: RefCell<Vec<(&'static str, NameId)>> = const { RefCell::new(Vec::new()) };
}

impl NameId {
    pub(crate) fn of(name: &'static str) -> Self {
        let seen = SEEN.try_with(|seen| {
            let mut seen = seen.borrow_mut();
            if let Some((_, id)) = seen.iter().find(|(known, _)| std::ptr::eq(*known, name)) {
                return *id;
            }
            let id = Self::intern(name);
            seen.push((name, id));
            id
        });
        // A thread that is ending has no cache.
        seen.unwrap_or_else(|_destroyed| Self::intern(name))
    }

    fn intern(name: &'static str) -> Self {
        let mut names = NAMES.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
        let known = names.iter().position(|known| *known == name);
        let index = known.unwrap_or_else(|| {
            names.push(name);
            names.len() - 1
        });
        Self(index as u32 + 1)
    }

    pub(crate) fn bits(self) -> u32 {
        self.0
    }

    /// The name with this number; `None` for zero.
    pub(crate) fn resolve(bits: u32) -> Option<&'static str> {
        let names = NAMES.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
        names.get((bits as usize).checked_sub(1)?).copied()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_id_resolves_to_its_name() {
        let id = NameId::of("resolves to itself");
        assert_eq!(NameId::of("resolves to itself"), id);
        assert_eq!(NameId::resolve(id.bits()), Some("resolves to itself"));
        assert_eq!(NameId::resolve(0), None);
    }
}
