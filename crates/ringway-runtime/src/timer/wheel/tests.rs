use std::collections::BTreeMap;

use super::*;

fn us(count: u64) -> Duration {
    Duration::from_micros(count)
}

fn fired(wheel: &mut Wheel<u32>, now: Instant) -> Vec<u32> {
    let mut fired = Vec::new();
    wheel.expire(now, &mut |_, payload| fired.push(payload));
    fired
}

#[test]
fn a_timer_fires_in_the_tick_after_its_deadline_and_not_before() {
    let start = Instant::now();
    let mut wheel = Wheel::new(start);
    wheel.insert(start + us(1_500), 1);
    assert_eq!(wheel.next_deadline(), Some(start + us(2_000)));
    assert_eq!(fired(&mut wheel, start + us(1_999)), []);
    assert_eq!(fired(&mut wheel, start + us(2_000)), [1]);
    assert_eq!((wheel.len(), wheel.next_deadline()), (0, None));
}

#[test]
fn a_past_deadline_fires_at_once() {
    let start = Instant::now();
    let mut wheel = Wheel::new(start + us(5_000));
    wheel.insert(start, 1);
    assert_eq!(fired(&mut wheel, start + us(5_000)), [1]);
    assert_eq!(fired(&mut wheel, start + us(90_000)), []);
    wheel.insert(start + us(7_000), 2);
    assert_eq!(fired(&mut wheel, start + us(90_000)), [2]);
}

#[test]
fn far_timers_keep_their_order_through_one_jump() {
    let day = Duration::from_secs(86_400);
    let start = Instant::now();
    let mut wheel = Wheel::new(start);
    for (payload, days) in [(4, 4_000), (1, 1), (3, 300), (2, 1)] {
        wheel.insert(start + day * days, payload);
    }
    assert_eq!(wheel.next_deadline(), Some(start + day));
    assert_eq!(fired(&mut wheel, start + day * 301), [1, 2, 3]);
    assert_eq!(wheel.next_deadline(), Some(start + day * 4_000));
    assert_eq!(fired(&mut wheel, start + day * 5_000), [4]);
}

#[test]
fn the_farthest_deadline_a_clock_can_name_is_held() {
    let start = Instant::now();
    let mut wheel = Wheel::new(start);
    let far = (0..=63).rev().find_map(|bits| start.checked_add(Duration::from_secs(1 << bits)));
    let key = wheel.insert(far.expect("some deadline fits"), 1);
    assert_eq!(fired(&mut wheel, start + Duration::from_secs(1 << 32)), []);
    assert!(wheel.next_deadline().is_some());
    assert_eq!(wheel.cancel(key), Some(1));
    assert_eq!(wheel.next_deadline(), None);
}

#[test]
fn a_stale_key_names_nothing() {
    let start = Instant::now();
    let mut wheel = Wheel::new(start);
    let first = wheel.insert(start, 1);
    assert_eq!(fired(&mut wheel, start), [1]);
    let second = wheel.insert(start, 2);
    assert_eq!((first.index, wheel.cancel(first)), (second.index, None));
    assert!(!wheel.rearm(first, start));
    assert_eq!(wheel.cancel(second), Some(2));
    assert_eq!(wheel.cancel(second), None);
}

#[test]
fn an_entry_is_retired_after_its_last_generation() {
    let start = Instant::now();
    let mut wheel = Wheel::new(start);
    let key = wheel.insert(start, 1);
    wheel.timers[key.index as usize].generation = u32::MAX;
    assert_eq!(fired(&mut wheel, start), [1]);
    let last = TimerKey { index: key.index, generation: u32::MAX };
    assert_eq!((wheel.cancel(last), wheel.insert(start, 2).index), (None, 1));
}

#[test]
fn rearming_reuses_the_entry_and_moves_to_the_end_of_its_tick() {
    let start = Instant::now();
    let mut wheel = Wheel::new(start);
    let first = wheel.insert(start + us(1_000), 1);
    wheel.insert(start + us(9_000), 2);
    for _ in 0..1_000 {
        assert!(wheel.rearm(first, start + us(9_000)));
    }
    assert_eq!(wheel.timers.len(), 2);
    assert_eq!(fired(&mut wheel, start + us(8_999)), []);
    assert_eq!(fired(&mut wheel, start + us(9_000)), [2, 1]);
}

/// The plainest correct timer queue: everything sorted by the tick it fires in, then by arming.
struct Model {
    start: Instant,
    current: u64,
    armings: u64,
    order: BTreeMap<(u64, u64), (u32, Instant)>,
    armed: BTreeMap<u32, (TimerKey, (u64, u64))>,
}

impl Model {
    fn arm(&mut self, id: u32, key: TimerKey, deadline: Instant) {
        let tick = (deadline - self.start).as_nanos().div_ceil(TICK_NS) as u64;
        let position = (tick.max(self.current), self.armings);
        self.armings += 1;
        self.order.insert(position, (id, deadline));
        if let Some((_, old)) = self.armed.insert(id, (key, position)) {
            self.order.remove(&old);
        }
    }

    fn cancel(&mut self, id: u32) {
        if let Some((_, position)) = self.armed.remove(&id) {
            self.order.remove(&position);
        }
    }

    fn expire(&mut self, now: Instant) -> Vec<u32> {
        self.current = ((now - self.start).as_nanos() / TICK_NS) as u64;
        let later = self.order.split_off(&(self.current + 1, 0));
        let due = std::mem::replace(&mut self.order, later);
        for (id, deadline) in due.values() {
            assert!(*deadline <= now);
            self.armed.remove(id);
        }
        due.into_values().map(|(id, _)| id).collect()
    }
}

struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        mixed ^ (mixed >> 31)
    }

    /// Microseconds to half a year, every magnitude equally likely.
    fn span(&mut self) -> Duration {
        let magnitude = self.next() % 44;
        us(self.next() % (1 << magnitude))
    }
}

#[test]
fn the_wheel_fires_what_the_model_fires() {
    for seed in 0..400 {
        compare_with_model(seed);
    }
}

fn compare_with_model(seed: u64) {
    let mut random = Random(seed);
    let start = Instant::now();
    let mut now = start;
    let mut wheel = Wheel::new(start);
    let (order, armed) = (BTreeMap::new(), BTreeMap::new());
    let mut model = Model { start, current: 0, armings: 0, order, armed };
    let mut keys = Vec::new();
    for id in 0..300 {
        let choice = random.next() as usize;
        match choice % 8 {
            0..=3 => {
                let deadline = now + random.span();
                let key = wheel.insert(deadline, id);
                keys.push((id, key));
                model.arm(id, key, deadline);
            }
            4 if !keys.is_empty() => {
                let (id, key) = keys[choice / 8 % keys.len()];
                let expected = model.armed.contains_key(&id).then_some(id);
                assert_eq!(wheel.cancel(key), expected, "seed {seed}");
                model.cancel(id);
            }
            5 if !keys.is_empty() => {
                let (id, key) = keys[choice / 8 % keys.len()];
                let deadline = now + random.span();
                let expected = model.armed.contains_key(&id);
                assert_eq!(wheel.rearm(key, deadline), expected, "seed {seed}");
                if expected {
                    model.arm(id, key, deadline);
                }
            }
            6 => now += random.span() / 16,
            _ => now = wheel.next_deadline().unwrap_or(now).max(now),
        }
        if choice % 8 >= 6 {
            assert_eq!(fired(&mut wheel, now), model.expire(now), "seed {seed}");
        }
        check_next_deadline(&wheel, &model, seed);
    }
}

fn check_next_deadline(wheel: &Wheel<u32>, model: &Model, seed: u64) {
    assert_eq!(wheel.len(), model.order.len(), "seed {seed}");
    let first = model.order.keys().next();
    let exact = first.map(|(tick, _)| model.start + Duration::from_millis(*tick));
    match (wheel.next_deadline(), exact) {
        (Some(answer), Some(exact)) => assert!(answer <= exact, "seed {seed}"),
        (answer, exact) => assert_eq!(answer, exact, "seed {seed}"),
    }
}

/// Following `next_deadline` reaches every timer in a few steps, also where cancelled timers made
/// it answer early.
#[test]
fn following_next_deadline_reaches_a_timer_in_few_steps() {
    for seed in 0..100 {
        let mut random = Random(seed);
        let start = Instant::now();
        let mut wheel = Wheel::new(start);
        let keys: Vec<_> = (0..50).map(|id| wheel.insert(start + random.span(), id)).collect();
        for key in keys.into_iter().skip(1) {
            wheel.cancel(key);
        }
        let mut steps = 0;
        while let Some(next) = wheel.next_deadline() {
            fired(&mut wheel, next);
            steps += 1;
        }
        assert!(steps <= WHEEL_LEVELS, "{steps} steps, seed {seed}");
    }
}

/// Without cancellations the answer is exact, so a sleeping core wakes only to fire.
#[test]
fn next_deadline_is_exact_without_cancellations() {
    for seed in 0..100 {
        let mut random = Random(seed);
        let start = Instant::now();
        let mut wheel = Wheel::new(start);
        for id in 0..50 {
            wheel.insert(start + random.span(), id);
        }
        while let Some(next) = wheel.next_deadline() {
            assert!(!fired(&mut wheel, next).is_empty(), "woke for nothing, seed {seed}");
        }
    }
}
