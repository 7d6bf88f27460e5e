//! Approximate ranking by size: finds the largest of many entries without visiting all of them.

/// An index that is in no list, and the end of a list.
const NONE: u32 = u32::MAX;

/// Number of lists. The sizes within a rank differ by a quarter at most.
const RANKS: usize = u128::BITS as usize;

/// Entries ranked by the number of bytes they hold. A change takes a few steps, and so does finding
/// the largest entry, to within a quarter.
#[derive(Debug, Default)]
pub(super) struct Ranks {
    nodes: Vec<Node>,
    /// The index added last to each list.
    heads: Vec<u32>,
    /// One bit for each list that is not empty.
    occupied: u128,
}

#[derive(Debug, Clone, Copy)]
struct Node {
    /// The entry's list, or any number from [`RANKS`] up if it is in none.
    rank: u8,
    before: u32,
    behind: u32,
}

impl Ranks {
    /// Records that the entry at `index` holds `size` bytes; with none it is in no list.
    #[inline]
    pub(super) fn note(&mut self, index: u32, size: usize) {
        let rank = size.checked_ilog2().map_or(Node::UNRANKED, |power| rank(size, power));
        if self.nodes.get(index as usize).map_or(Node::UNRANKED, |node| node.rank) != rank {
            self.move_to(index, rank);
        }
    }

    fn move_to(&mut self, index: u32, rank: u8) {
        let at = index as usize;
        if self.nodes.len() <= at {
            self.nodes.resize(at + 1, Node::FREE);
        }
        self.leave(at);
        if rank != Node::UNRANKED {
            self.enter(index, rank);
        }
    }

    /// The index of an entry that holds most, to within a quarter, of those recorded. `held` gives
    /// the current size of an entry; entries whose size has changed are ranked anew.
    pub(super) fn largest(&mut self, held: impl Fn(u32) -> usize) -> Option<u32> {
        loop {
            let rank = self.occupied.checked_ilog2()?;
            let index = self.heads[rank as usize];
            self.note(index, held(index));
            if self.nodes[index as usize].rank == rank as u8 {
                return Some(index);
            }
        }
    }

    /// Removes all entries.
    pub(super) fn clear(&mut self) {
        *self = Self::default();
    }

    fn enter(&mut self, index: u32, rank: u8) {
        if self.heads.is_empty() {
            self.heads = vec![NONE; RANKS];
        }
        let behind = std::mem::replace(&mut self.heads[usize::from(rank)], index);
        if behind != NONE {
            self.nodes[behind as usize].before = index;
        }
        self.nodes[index as usize] = Node { rank, before: NONE, behind };
        self.occupied |= 1 << rank;
    }

    fn leave(&mut self, at: usize) {
        let Node { rank, before, behind } = std::mem::replace(&mut self.nodes[at], Node::FREE);
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

/// The rank of a size: four ranks for each power of two, told apart by the two bits below the
/// highest.
#[inline]
fn rank(size: usize, power: u32) -> u8 {
    let quarter = if power >= 2 { size >> (power - 2) } else { size << (2 - power) } & 3;
    (4 * power as usize + quarter).min(RANKS - 1) as u8
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_largest_entry_is_found_to_within_a_quarter() {
        let mut ranks = Ranks::default();
        let mut sizes = [0_usize; 50];
        let mut state = 1_u64;
        for step in 0..100_000 {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(step);
            let (index, bits) = ((state >> 40) as usize % sizes.len(), (state >> 56) % 31);
            let size = (state >> 8) as usize & ((1 << bits) - 1);
            sizes[index] = if step % 3 == 0 { 0 } else { size };
            ranks.note(index as u32, sizes[index]);
            let most = sizes.into_iter().max().expect("there are entries");
            let largest = ranks.largest(|index| sizes[index as usize]);
            let largest = largest.map_or(0, |index| sizes[index as usize]);
            let is_near = largest * 5 >= most * 4;
            assert!(is_near && (largest > 0) == (most > 0), "{largest} bytes of {most}");
        }
        // Entries that hold nothing any more are found out.
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
