//! Values that may be given in two ways, by position or by another letter and by flag, but not by both.

use crate::args::values::ValueError;

pub(super) fn merge<T>(
    name: &str,
    flag: &mut Option<T>,
    positional: Option<T>,
) -> Result<(), ValueError> {
    match (&flag, positional) {
        (Some(_), Some(_)) => Err(given_twice(name)),
        (None, Some(value)) => {
            *flag = Some(value);
            Ok(())
        }
        (_, None) => Ok(()),
    }
}

pub(super) fn merge_list(
    name: &str,
    list: &mut Vec<u32>,
    positional: Option<u32>,
) -> Result<(), ValueError> {
    match positional {
        Some(_) if !list.is_empty() => Err(given_twice(name)),
        Some(value) => {
            list.push(value);
            Ok(())
        }
        None => Ok(()),
    }
}

fn given_twice(name: &str) -> ValueError {
    ValueError::new(format!("{name} is given twice; drop one"))
}
