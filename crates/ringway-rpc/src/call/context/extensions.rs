//! Values that interceptors attach to a call for later interceptors and the handler.

use std::any::{Any, TypeId};
use std::rc::Rc;

use ringway_runtime::drop_each;

/// One value per type. Their destructors are user code, so each runs by itself and its panic is
/// contained.
#[derive(Default)]
pub(super) struct Extensions {
    values: Vec<(TypeId, Rc<dyn Any>)>,
}

impl Extensions {
    /// Stores a value and returns the former one of its type, which the caller drops outside of any
    /// borrow.
    #[must_use = "it is dropped outside of the context"]
    pub(super) fn insert<T: 'static>(&mut self, value: T) -> Option<Rc<dyn Any>> {
        let (id, value) = (TypeId::of::<T>(), Rc::new(value));
        match self.values.iter_mut().find(|(other, _)| *other == id) {
            Some((_, former)) => Some(std::mem::replace(former, value)),
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
