use loom::sync::Arc;
use loom::thread;

use super::*;

fn returns() -> Arc<Returns> {
    Arc::new(Returns::new(Weak::new()))
}

/// A buffer is returned while the core goes to sleep for lack of one: the core sees it or is
/// signalled.
#[test]
fn loom_a_return_that_races_with_a_wait_is_seen_or_told() {
    loom::model(|| {
        let returns = returns();
        let other = returns.clone();
        let other = thread::spawn(move || other.leave(1));
        let sleeps = returns.await_next();
        let seen = !sleeps && returns.take() == [1];
        let told = other.join().expect("no panic");
        assert!(if sleeps { told } else { seen });
    });
}

/// The same after an earlier wait that ended for another reason, with a look in between.
#[test]
fn loom_a_flag_left_by_an_earlier_wait_hides_nothing() {
    loom::model(|| {
        let returns = returns();
        assert!(returns.await_next());
        let other = returns.clone();
        let other = thread::spawn(move || other.leave(1));
        let early = returns.take();
        let sleeps = returns.await_next();
        let late = if sleeps { Vec::new() } else { returns.take() };
        let told = other.join().expect("no panic");
        let seen = [early, late].concat() == [1];
        assert!(seen || (sleeps && told));
    });
}

/// Two threads return a buffer each: both are found, and a sleeping core is signalled.
#[test]
fn loom_two_returns_are_both_found() {
    loom::model(|| {
        let returns = returns();
        assert!(returns.await_next());
        let others: Vec<_> = [1, 2]
            .map(|id| {
                let other = returns.clone();
                thread::spawn(move || other.leave(id))
            })
            .into();
        let mut found = returns.take();
        let told: Vec<bool> =
            others.into_iter().map(|other| other.join().expect("no panic")).collect();
        found.extend(returns.take());
        found.sort_unstable();
        assert_eq!(found, [1, 2]);
        assert_eq!(told.iter().filter(|&&told| told).count(), 1);
    });
}
