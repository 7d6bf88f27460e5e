//! The heap of the process.

/// Returns memory that the process has freed to the system, where the allocator is that of glibc; others do so by
/// themselves. It looks through all of the heap, which takes about a millisecond for each 10 MiB that are
/// returned, and threads that allocate wait meanwhile: call it rarely, on a thread that may block.
///
/// ```
/// ringway_runtime::release_free_memory();
/// ```
pub fn release_free_memory() {
    #[cfg(all(target_os = "linux", target_env = "gnu"))]
    // SAFETY: the function may be called at any time and by any thread.
    let _anything_was_returned = unsafe { libc::malloc_trim(0) };
}
