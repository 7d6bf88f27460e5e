//! Values that those who see a call first leave for those who come later.

use std::any::{Any, TypeId};
use std::rc::Rc;

use ringway_runtime::drop_each;

/// One value of each type. Their destructors are code of users, and run one by one: what one of them
/// does, be it a panic, ends with it.
#[derive(Default)]
pub(super) struct Extensions {
    values: Vec<(TypeId, Rc<dyn Any>)>,
}

impl Extensions {
    /// The value that had the place before, to be dropped when nothing is borrowed.
    #[must_use = "it is dropped outside of the context"]
    pub(super) fn insert<T: 'static>(&mut self, value: T) -> Option<Rc<dyn Any>> {
        let (id, value) = (TypeId::of::<T>(), Rc::new(value));
        match self.values.iter_mut().find(|(other, _)| *other == id) {
            Some((_, place)) => Some(std::mem::replace(place, value)),
            None => {
                self.values.push((id, value));
                None
            }
        }
    }

    pub(super) fn get<T: 'static>(&self) -> Option<Rc<T>> {
        let (_, value) = self.values.iter().find(|(id, _)| *id == TypeId::of::<T>())?;
        Rc::clone(value).downcast().ok()
    }

    #[inline]
    pub(super) fn clear(&mut self) {
        if !self.values.is_empty() {
            let values = self.values.drain(..).map(|(_, value)| value);
            drop_each("a value in a call's context", values);
        }
    }
}

impl Drop for Extensions {
    #[inline]
    fn drop(&mut self) {
        self.clear();
    }
}
