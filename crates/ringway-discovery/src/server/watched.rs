//! The ranges that are watched, to be found by keys that have changed.
//!
//! Single keys are in a hash map. Other ranges are in an interval tree: sorted by their first keys, and each node knows the
//! furthest end below it. So a change passes by the ranges that it does not touch, however many they are. The priorities
//! of the nodes are random (the tree is a treap), so that no order of watches makes it deep.

use std::cmp::Ordering;
use std::collections::{BTreeSet, HashMap};

use bytes::Bytes;

use crate::store::KeyRange;

/// Ranges, each with the watches of it.
pub(super) struct WatchedRanges<W> {
    keys: HashMap<Bytes, BTreeSet<W>>,
    ranges: Tree<W>,
}

type Tree<W> = Option<Box<Node<W>>>;

struct Node<W> {
    first: Bytes,
    end: RangeEnd,
    watches: BTreeSet<W>,
    /// Not below those of its children.
    priority: u32,
    /// The last end of this range and of those below it.
    furthest: RangeEnd,
    left: Tree<W>,
    right: Tree<W>,
}

/// Where a range ends.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord)]
enum RangeEnd {
    Before(Bytes),
    Never,
}

impl RangeEnd {
    fn is_behind(&self, key: &[u8]) -> bool {
        match self {
            Self::Before(end) => key < &**end,
            Self::Never => true,
        }
    }
}

impl<W> Default for WatchedRanges<W> {
    fn default() -> Self {
        Self { keys: HashMap::new(), ranges: None }
    }
}

impl<W: Ord> WatchedRanges<W> {
    pub(super) fn insert(&mut self, range: KeyRange, watch: W) {
        match interval(range) {
            Ok((first, end)) => insert(&mut self.ranges, first, end, watch),
            Err(key) => _ = self.keys.entry(key).or_default().insert(watch),
        }
    }

    pub(super) fn remove(&mut self, range: &KeyRange, watch: &W) {
        match interval(range.clone()) {
            Ok((first, end)) => remove(&mut self.ranges, (&first, &end), watch),
            Err(key) => {
                if let Some(watches) = self.keys.get_mut(&key) {
                    watches.remove(watch);
                    if watches.is_empty() {
                        self.keys.remove(&key);
                    }
                }
            }
        }
    }

    /// Visits the watches of the ranges that have one of these keys, which are sorted; each range once. Returns the number
    /// of ranges that were looked at.
    pub(super) fn visit(&self, keys: &[&[u8]], mut visit: impl FnMut(&W)) -> usize {
        for watches in keys.iter().filter_map(|key| self.keys.get(*key)) {
            watches.iter().for_each(&mut visit);
        }
        look(&self.ranges, keys, &mut visit)
    }

    /// The number of ranges.
    #[cfg(test)]
    pub(super) fn len(&self) -> usize {
        fn count<W>(tree: &Tree<W>) -> usize {
            tree.as_ref().map_or(0, |node| 1 + count(&node.left) + count(&node.right))
        }
        self.keys.len() + count(&self.ranges)
    }
}

/// The first key and the end of a range, or the single key that it is.
fn interval(range: KeyRange) -> Result<(Bytes, RangeEnd), Bytes> {
    match range {
        KeyRange::Key(key) => Err(key),
        KeyRange::Between(first, end) => Ok((first, RangeEnd::Before(end))),
        KeyRange::From(first) => Ok((first, RangeEnd::Never)),
    }
}

impl<W> Node<W> {
    fn compare(&self, first: &Bytes, end: &RangeEnd) -> Ordering {
        first.cmp(&self.first).then_with(|| end.cmp(&self.end))
    }

    /// Works out the furthest end anew, after a change below.
    fn measure(&mut self) {
        let below = [&self.left, &self.right].into_iter().flatten().map(|node| &node.furthest);
        self.furthest = below.fold(&self.end, |one, other| one.max(other)).clone();
    }
}

fn insert<W: Ord>(tree: &mut Tree<W>, first: Bytes, end: RangeEnd, watch: W) {
    let Some(node) = tree else {
        let furthest = end.clone();
        let (watches, priority) = (BTreeSet::from([watch]), fastrand::u32(..));
        *tree = Some(Box::new(Node {
            first,
            end,
            watches,
            priority,
            furthest,
            left: None,
            right: None,
        }));
        return;
    };
    match node.compare(&first, &end) {
        Ordering::Equal => _ = node.watches.insert(watch),
        Ordering::Less => insert(&mut node.left, first, end, watch),
        Ordering::Greater => insert(&mut node.right, first, end, watch),
    }
    node.measure();
    let priority = node.priority;
    let is_above = |child: &Tree<W>| child.as_ref().is_some_and(|it| it.priority > priority);
    let (left_rises, right_rises) = (is_above(&node.left), is_above(&node.right));
    if left_rises {
        rotate(tree, |node| &mut node.left, |node| &mut node.right);
    } else if right_rises {
        rotate(tree, |node| &mut node.right, |node| &mut node.left);
    }
}

/// Has the child on one side take the place of its parent.
fn rotate<W>(
    tree: &mut Tree<W>,
    near: fn(&mut Node<W>) -> &mut Tree<W>,
    far: fn(&mut Node<W>) -> &mut Tree<W>,
) {
    let Some(mut parent) = tree.take() else { return };
    if let Some(mut child) = near(&mut parent).take() {
        *near(&mut parent) = far(&mut child).take();
        parent.measure();
        *far(&mut child) = Some(parent);
        child.measure();
        *tree = Some(child);
    } else {
        *tree = Some(parent);
    }
}

fn remove<W: Ord>(tree: &mut Tree<W>, range: (&Bytes, &RangeEnd), watch: &W) {
    let Some(node) = tree else { return };
    match node.compare(range.0, range.1) {
        Ordering::Equal => {
            node.watches.remove(watch);
            if node.watches.is_empty() {
                *tree = merge(node.left.take(), node.right.take());
                return;
            }
        }
        Ordering::Less => remove(&mut node.left, range, watch),
        Ordering::Greater => remove(&mut node.right, range, watch),
    }
    node.measure();
}

/// One tree of two, of which the first has the smaller ranges.
fn merge<W>(left: Tree<W>, right: Tree<W>) -> Tree<W> {
    let (mut left, mut right) = match (left, right) {
        (Some(left), Some(right)) => (left, right),
        (left, right) => return left.or(right),
    };
    if left.priority > right.priority {
        left.right = merge(left.right.take(), Some(right));
        left.measure();
        Some(left)
    } else {
        right.left = merge(Some(left), right.left.take());
        right.measure();
        Some(right)
    }
}

fn look<W>(tree: &Tree<W>, keys: &[&[u8]], visit: &mut impl FnMut(&W)) -> usize {
    let Some(node) = tree else { return 0 };
    let keys = &keys[..keys.partition_point(|key| node.furthest.is_behind(key))];
    if keys.is_empty() {
        return 0;
    }
    let mut looked_at = 1 + look(&node.left, keys, visit);
    let keys = &keys[keys.partition_point(|key| *key < &*node.first)..];
    if let Some(first) = keys.first() {
        if node.end.is_behind(first) {
            node.watches.iter().for_each(&mut *visit);
        }
        looked_at += look(&node.right, keys, visit);
    }
    looked_at
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A range of short keys, so that many meet.
    fn random_range(rng: &mut fastrand::Rng) -> KeyRange {
        let mut key = || Bytes::from_iter((0..rng.usize(..3)).map(|_| rng.u8(b'a'..b'e')));
        let (first, end) = (key(), key());
        match rng.u8(..4) {
            0 => KeyRange::Key(first),
            1 => KeyRange::prefix(first),
            2 => KeyRange::From(first),
            _ => KeyRange::Between(first, end), // empty, half of the time
        }
    }

    #[test]
    fn the_watches_of_changed_keys_are_found_as_by_looking_at_all() {
        for seed in 0..200 {
            let mut rng = fastrand::Rng::with_seed(seed);
            let (mut watched, mut model) = (WatchedRanges::default(), Vec::new());
            for watch in 0..60 {
                let range = random_range(&mut rng);
                watched.insert(range.clone(), watch);
                model.push((range, watch));
                if rng.u8(..3) == 0 {
                    let (range, watch) = model.swap_remove(rng.usize(..model.len()));
                    watched.remove(&range, &watch);
                }
                let name = |rng: &mut fastrand::Rng| {
                    (0..rng.usize(..4)).map(|_| rng.u8(b'a'..b'e')).collect::<Vec<u8>>()
                };
                let names: BTreeSet<Vec<u8>> = (0..rng.u8(..5)).map(|_| name(&mut rng)).collect();
                let keys: Vec<&[u8]> = names.iter().map(Vec::as_slice).collect();
                let mut found = Vec::new();
                watched.visit(&keys, |watch| found.push(*watch));
                found.sort_unstable();
                let touched = |range: &KeyRange| keys.iter().any(|key| range.contains(key));
                let all = model.iter().filter(|(range, _)| touched(range));
                let mut expected: Vec<i32> = all.map(|(_, watch)| *watch).collect();
                expected.sort_unstable();
                assert_eq!(found, expected, "seed {seed}: {keys:?} of {model:?}");
            }
            let different: BTreeSet<&KeyRange> = model.iter().map(|(range, _)| range).collect();
            assert_eq!(watched.len(), different.len(), "seed {seed}");
        }
    }

    #[test]
    fn of_three_hundred_thousand_ranges_a_change_looks_at_few() {
        let mut watched = WatchedRanges::default();
        let ranges = 300_000;
        for at in 0..ranges {
            // In order, which would make a plain tree a list.
            watched.insert(KeyRange::prefix(format!("service/{at:06}/")), at);
            watched.insert(KeyRange::Key(format!("key/{at}").into()), at);
        }
        watched.insert(KeyRange::all(), ranges);
        let look = |keys: &[&[u8]]| {
            let mut found = Vec::new();
            let looked_at = watched.visit(keys, |watch| found.push(*watch));
            (found, looked_at)
        };
        // A path of the tree has some 20 to 50 nodes, and each key has one.
        for unwatched in [&b"a"[..], b"key/none", b"service/150000", b"service/0/", b"z"] {
            let (found, looked_at) = look(&[unwatched]);
            assert_eq!(found, [ranges]);
            assert!(looked_at < 200, "{looked_at} ranges for {unwatched:?}");
        }
        let (mut found, looked_at) = look(&[b"a", b"key/7", b"service/000008/x", b"z"]);
        found.sort_unstable();
        assert_eq!(found, [7, 8, ranges]);
        assert!(looked_at < 400, "{looked_at} ranges for four keys");
    }
}
