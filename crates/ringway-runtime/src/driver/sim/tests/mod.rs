//! The simulated driver against its contract.

mod clock;
pub(in crate::driver) mod conformance;
mod connects;
mod datagrams;
mod echo;
mod faults;
mod lab;
mod runtime;
mod streams;
