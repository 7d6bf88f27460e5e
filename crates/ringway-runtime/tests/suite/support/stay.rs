//! A test leaves nothing behind. Each test of this program stays in it for its time; whoever is the last to
//! leave finds no more in the process than the first has found.

use std::sync::{Mutex, MutexGuard, PoisonError};

use super::held::Held;

/// One test's time in the suite.
pub(crate) struct Stay(());

impl Stay {
    pub(crate) fn begin() -> Self {
        let mut suite = suite();
        if suite.staying == 0 {
            suite.before = Held::now();
        }
        suite.staying += 1;
        Self(())
    }
}

impl Drop for Stay {
    fn drop(&mut self) {
        let mut suite = suite();
        suite.staying -= 1;
        // A test that fails has said what is wrong; what it leaves behind is no news.
        suite.failed |= std::thread::panicking();
        if suite.staying == 0 && !suite.failed {
            let left = suite.before.is_left(); // under the lock, so that no test begins meanwhile
            suite.failed = left.is_err();
            drop(suite);
            left.unwrap_or_else(|left| panic!("something was left behind: {left}"));
        }
    }
}

struct Suite {
    staying: usize,
    failed: bool,
    before: Held,
}

fn suite() -> MutexGuard<'static, Suite> {
    const NOTHING: Held = Held { descriptors: 0, threads: 0, cores: 0 };
    static SUITE: Mutex<Suite> = Mutex::new(Suite { staying: 0, failed: false, before: NOTHING });
    SUITE.lock().unwrap_or_else(PoisonError::into_inner)
}
