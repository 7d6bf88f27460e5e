//! The lists of values that make one row each.

use crate::args::values::ValueError;
use crate::limits;

pub(super) fn list(flag: &str, given: &[u32], default: &[u32]) -> Result<Vec<u32>, ValueError> {
    if given.len() > limits::LIST_VALUES_MAX {
        return Err(ValueError::new(format!(
            "{flag} lists {} values; {} is the most",
            given.len(),
            limits::LIST_VALUES_MAX
        )));
    }
    Ok(if given.is_empty() { default } else { given }.to_vec())
}
