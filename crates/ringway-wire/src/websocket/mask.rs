//! The mask of a client's frames, RFC 6455 section 5.3.

/// Puts a mask on, or takes it off. `offset` bytes of the payload stand in front of these.
pub(super) fn apply(bytes: &mut [u8], mut mask: [u8; 4], offset: usize) {
    mask.rotate_left(offset % 4);
    let [a, b, c, d] = mask;
    let word = u64::from_ne_bytes([a, b, c, d, a, b, c, d]);
    let (words, rest) = bytes.as_chunks_mut::<8>();
    for masked in words {
        *masked = (u64::from_ne_bytes(*masked) ^ word).to_ne_bytes();
    }
    for (byte, mask) in rest.iter_mut().zip(mask.iter().cycle()) {
        *byte ^= mask;
    }
}

#[cfg(test)]
mod tests {
    #[test]
    fn the_mask_goes_on_where_the_last_piece_has_left_it() {
        let plain: Vec<u8> = (0..100).collect();
        let one_by_one: Vec<u8> =
            plain.iter().enumerate().map(|(at, byte)| byte ^ [1, 2, 3, 4][at % 4]).collect();
        for cut in 0..plain.len() {
            let mut bytes = plain.clone();
            let (front, back) = bytes.split_at_mut(cut);
            super::apply(front, [1, 2, 3, 4], 0);
            super::apply(back, [1, 2, 3, 4], cut);
            assert_eq!(bytes, one_by_one, "cut at {cut}");
        }
    }
}
