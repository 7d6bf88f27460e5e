//! The integration tests of this crate, as one program.

#[macro_use]
mod support;

mod allocations;
mod backpressure;
mod callbacks;
mod core_end;
mod counters;
mod cross_core;
mod datagrams;
mod destructors;
mod disks;
mod endings;
mod file_descriptors;
mod file_ends;
mod files;
mod idle;
mod kernel_resources;
mod listeners;
mod scarcity;
mod sent_files;
mod streams;
mod syscalls;
mod tasks;
mod time;
mod watchdog;
mod watches;
