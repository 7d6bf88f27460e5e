//! Which of many keeps most, known at any time without looking at all.

/// A place that is in no list, and the end of a list.
const NONE: u32 = u32::MAX;

/// Lists, one for each rank. Two places of a rank differ by a quarter at most.
const RANKS: usize = u128::BITS as usize;

/// Places by how much they keep: each change costs a few steps, and so does the question who keeps
/// most, up to a quarter.
#[derive(Debug, Default)]
pub(super) struct Ranks {
    nodes: Vec<Node>,
    /// The place that came last into each list.
    heads: Vec<u32>,
    /// One bit for each list that is not empty.
    occupied: u128,
}

#[derive(Debug, Clone, Copy)]
struct Node {
    /// The list in which it is, or any number from [`RANKS`] up.
    rank: u8,
    before: u32,
    behind: u32,
}

impl Ranks {
    /// Notes that `place` keeps `size` bytes; with none it is in no list.
    #[inline]
    pub(super) fn note(&mut self, place: u32, size: usize) {
        let rank = size.checked_ilog2().map_or(Node::UNRANKED, |power| rank(size, power));
        if self.nodes.get(place as usize).map_or(Node::UNRANKED, |node| node.rank) != rank {
            self.move_to(place, rank);
        }
    }

    fn move_to(&mut self, place: u32, rank: u8) {
        let index = place as usize;
        if self.nodes.len() <= index {
            self.nodes.resize(index + 1, Node::FREE);
        }
        self.leave(index);
        if rank != Node::UNRANKED {
            self.enter(place, rank);
        }
    }

    /// A place that keeps most, up to a quarter, of those that were noted. `kept` is what a place keeps
    /// now: one that has changed since is noted anew.
    pub(super) fn largest(&mut self, kept: impl Fn(u32) -> usize) -> Option<u32> {
        loop {
            let rank = self.occupied.checked_ilog2()?;
            let place = self.heads[rank as usize];
            self.note(place, kept(place));
            if self.nodes[place as usize].rank == rank as u8 {
                return Some(place);
            }
        }
    }

    /// Nobody keeps anything.
    pub(super) fn clear(&mut self) {
        *self = Self::default();
    }

    fn enter(&mut self, place: u32, rank: u8) {
        if self.heads.is_empty() {
            self.heads = vec![NONE; RANKS];
        }
        let behind = std::mem::replace(&mut self.heads[usize::from(rank)], place);
        if behind != NONE {
            self.nodes[behind as usize].before = place;
        }
        self.nodes[place as usize] = Node { rank, before: NONE, behind };
        self.occupied |= 1 << rank;
    }

    fn leave(&mut self, index: usize) {
        let Node { rank, before, behind } = std::mem::replace(&mut self.nodes[index], Node::FREE);
        if rank == Node::UNRANKED {
            return;
        }
        if behind != NONE {
            self.nodes[behind as usize].before = before;
        }
        if before != NONE {
            self.nodes[before as usize].behind = behind;
            return;
        }
        self.heads[usize::from(rank)] = behind;
        if behind == NONE {
            self.occupied &= !(1 << rank);
        }
    }
}

impl Node {
    const UNRANKED: u8 = u8::MAX;
    const FREE: Node = Node { rank: Node::UNRANKED, before: NONE, behind: NONE };
}

/// Four ranks for each power of two: the two bits behind the highest tell them apart.
#[inline]
fn rank(size: usize, power: u32) -> u8 {
    let quarter = if power >= 2 { size >> (power - 2) } else { size << (2 - power) } & 3;
    (4 * power as usize + quarter).min(RANKS - 1) as u8
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_largest_is_known_up_to_a_quarter_whatever_happens() {
        let mut ranks = Ranks::default();
        let mut sizes = [0_usize; 50];
        let mut state = 1_u64;
        for step in 0..100_000 {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(step);
            let (place, bits) = ((state >> 40) as usize % sizes.len(), (state >> 56) % 31);
            let size = (state >> 8) as usize & ((1 << bits) - 1);
            sizes[place] = if step % 3 == 0 { 0 } else { size };
            ranks.note(place as u32, sizes[place]);
            let most = sizes.into_iter().max().expect("there are places");
            let largest = ranks.largest(|place| sizes[place as usize]);
            let largest = largest.map_or(0, |place| sizes[place as usize]);
            let is_near = largest * 5 >= most * 4;
            assert!(is_near && (largest > 0) == (most > 0), "{largest} bytes of {most}");
        }
        // What has gone since it was noted is found out.
        assert_eq!(ranks.largest(|_| 0), None);
        assert!(ranks.heads.iter().all(|&head| head == NONE));
    }

    #[test]
    fn ranks_rise_with_sizes() {
        let rank_of = |size: usize| rank(size, size.ilog2());
        let sizes = (1..5_000).chain((0..200).map(|step| 5_000 + (step << 25)));
        let ranks: Vec<u8> = sizes.map(rank_of).collect();
        assert!(ranks.is_sorted() && ranks[0] == 0 && ranks.last() == Some(&127));
    }
}
