//! Changes of the frames of a session, for every protocol.

use super::random::Random;

/// The form of a protocol's frames.
pub(crate) struct Changes {
    /// The positions and sizes of numbers in frames, some of them more often than others.
    pub(crate) fields: &'static [(usize, usize)],
    pub(crate) is_big_endian: bool,
    /// Makes a frame of settings.
    pub(crate) settings: fn(&mut Random) -> Vec<u8>,
    /// Makes any frame.
    pub(crate) own: fn(&mut Random) -> Vec<u8>,
}

/// Changes a session a little, or a lot.
pub(crate) fn change(
    changes: &Changes,
    frames: &mut Vec<Vec<u8>>,
    others: &[Vec<u8>],
    random: &mut Random,
) {
    for _ in 0..1 + random.below(4) {
        let at = random.below(frames.len());
        match random.below(12) {
            0 => flip(&mut frames[at], random),
            1..=3 => change_field(changes, &mut frames[at], random),
            4 => drop(frames.remove(at)),
            5 => frames.insert(at, frames[at].clone()),
            6 => {
                let with = random.below(frames.len());
                frames.swap(at, with);
            }
            7 => frames.insert(at, pick(others, random).cloned().unwrap_or_default()),
            8 => {
                let len = frames[at].len();
                frames[at].truncate(random.below(len + 1));
            }
            9 => frames.insert(at, (changes.settings)(random)),
            10 => {
                let times = 1 + random.below(40);
                frames.splice(at..at, vec![frames[at].clone(); times]);
            }
            _ => frames.insert(at, (changes.own)(random)),
        }
        if frames.is_empty() {
            return;
        }
    }
}

fn flip(frame: &mut [u8], random: &mut Random) {
    if !frame.is_empty() {
        let at = random.below(frame.len());
        frame[at] ^= 1 << random.below(8);
    }
}

/// Puts a number into a field that is a little off, or far off.
fn change_field(changes: &Changes, frame: &mut [u8], random: &mut Random) {
    let numbers = [0, 1, 15, 16, 17, 255, 4_095, 65_535, 65_536, i32::MAX as u32, u32::MAX];
    let number = numbers[random.below(numbers.len())];
    let (at, width) = changes.fields[random.below(changes.fields.len())];
    let Some(field) = frame.get_mut(at..at + width) else {
        return;
    };
    if changes.is_big_endian {
        field.reverse();
    }
    let mut bytes = [0; 4];
    bytes[..width].copy_from_slice(field);
    let before = u32::from_le_bytes(bytes);
    let after = match random.below(4) {
        0 => number,
        1 => before.wrapping_add(1),
        2 => before.wrapping_sub(1),
        _ => before ^ 1 << random.below(8 * width),
    };
    field.copy_from_slice(&after.to_le_bytes()[..width]);
    if changes.is_big_endian {
        field.reverse();
    }
}

pub(crate) fn pick<'a, T>(all: &'a [T], random: &mut Random) -> Option<&'a T> {
    if all.is_empty() { None } else { all.get(random.below(all.len())) }
}
