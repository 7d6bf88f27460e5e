//! One suite over all drivers: what the contract in the parent module promises, tested through the
//! contract alone.
//!
//! The [`rig`] drives a driver and checks the rules that hold for any sequence of events, such as
//! that nothing follows `Closed`. A further driver joins with a [`Fixture`] and one `suite!` line.

mod connections;
mod datagrams;
mod ended_peers;
mod keys;
mod lifetimes;
mod resources;
mod rig;
mod streams;

use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::os::fd::OwnedFd;
use std::sync::Arc;

use socket2::SockAddr;

use self::rig::Rig;
use super::Driver;
use super::epoll::Epoll;
use super::uring::Uring;
use crate::buf::{BufferCounts, Pools};
use crate::core::wake_descriptor;

/// How the suite gets a driver.
pub(super) trait Fixture {
    type Driver: Driver;

    /// Whether other threads can wake the driver.
    const IS_WOKEN: bool = true;

    /// A driver that receives into `pools` and is woken by `eventfd`. An error skips the test; it
    /// is for interfaces that this kernel refuses.
    fn driver(pools: &Pools, eventfd: Arc<OwnedFd>) -> io::Result<Self::Driver>;

    /// An address at which to listen for streams, its port left open.
    fn stream_addr() -> SockAddr {
        SocketAddr::from((Ipv4Addr::LOCALHOST, 0)).into()
    }

    /// A Unix address of that name.
    fn unix_addr(name: &str) -> SockAddr {
        SockAddr::unix(format!("\0{name}")).expect("a short name")
    }

    /// Descriptors open by now, as far as the driver's are among them.
    fn descriptors_open(_driver: &Self::Driver) -> usize {
        std::fs::read_dir("/proc/self/fd").map_or(0, Iterator::count)
    }
}

struct UringFixture;

impl Fixture for UringFixture {
    type Driver = Uring;

    fn driver(pools: &Pools, eventfd: Arc<OwnedFd>) -> io::Result<Uring> {
        Uring::new(pools, eventfd)
    }
}

struct EpollFixture;

impl Fixture for EpollFixture {
    type Driver = Epoll;

    fn driver(pools: &Pools, eventfd: Arc<OwnedFd>) -> io::Result<Epoll> {
        Ok(Epoll::new(pools, eventfd).expect("every kernel has epoll"))
    }
}

/// Runs one test of the suite, or says why not.
fn run<F: Fixture>(message_buffers: u16, test: fn(&mut Rig<F>)) {
    let eventfd = wake_descriptor().expect("a descriptor is free");
    let counts = BufferCounts { message: message_buffers, bulk: 16, datagram: 16 };
    let pools = Pools::new(counts, &Arc::downgrade(&eventfd)).expect("address space");
    match F::driver(&pools, eventfd.clone()) {
        Ok(driver) => test(&mut Rig::new(driver, eventfd, pools)),
        Err(reason) => eprintln!("skipped, this kernel refuses the driver: {reason}"),
    }
}

/// Buffers of a test that is not about running out of them.
const BUFFERS: u16 = 256;

macro_rules! suite {
    ($module:ident, $fixture:ty) => {
        mod $module {
            use super::*;

            suite! { $fixture, BUFFERS, connections:
                connect_and_accept
                connect_refused
                several_connects_at_once
                accept_stop_and_start
                accept_again_without_a_new_connection
                unix_streams
                unix_connects_wait_for_a_full_backlog
            }
            suite! { $fixture, BUFFERS, streams:
                echo_of_many_sizes
                echo_of_views
                sends_in_sequence
                gathered_send
                gathered_send_beyond_the_kernels_limit
                bulk_receive
                bytes_behind_passed_descriptors
                bytes_behind_an_urgent_mark
                half_close
                shutdown_waits_for_the_batch
                eof_again_after_eof
                recv_stop_loses_nothing
                recv_stop_while_idle
                blocked_send_completes_once
                a_slow_peer_makes_progress
                a_send_cut_short_holds_up_no_other
            }
            suite! { $fixture, BUFFERS, ended_peers:
                a_peer_that_has_ended_and_reads_slowly_gets_everything
                the_end_waits_for_a_peer_that_has_ended
                a_peer_that_has_ended_and_reads_nothing_can_be_left
                a_peer_that_has_ended_and_leaves_fails_the_send
            }
            suite! { $fixture, BUFFERS, lifetimes:
                close_is_last
                close_right_after_the_operations
                close_of_a_listener
                close_while_connecting
                close_while_receive_is_parked
                abort_resets_the_peer
                send_to_a_closed_peer_fails
                keys_are_reused_without_stale_events
                drop_with_everything_in_flight
            }
            suite! { $fixture, BUFFERS, keys:
                operations_on_a_closing_key_do_nothing
                operations_on_a_key_that_never_was_do_nothing
                a_descriptor_has_one_key
            }
            suite! { $fixture, BUFFERS, datagrams:
                datagram_echo
                datagrams_keep_their_bounds
                datagram_of_many_segments
                datagram_recv_stop
                many_datagrams_in_flight
                unix_datagrams_wait_for_their_receiver
                close_while_datagrams_wait
            }
            suite! { $fixture, BUFFERS, resources:
                syscalls_are_counted
                a_message_needs_three_calls
                peek_tells_of_work
                eventfd_wakes_each_time
                wait_ends_in_time
                descriptors_return_to_base
                accept_outlives_the_descriptor_limit
                a_buffer_that_comes_home_wakes_the_driver
                classes_of_receives_leave_each_other_their_buffers
            }
            suite! { $fixture, 2, resources:
                starvation_loses_nothing
                held_buffers_park_receives
                parked_receive_lets_the_send_go_on
            }

            mod one_buffer {
                use super::*;

                suite! { $fixture, 1, streams:
                    echo_of_many_sizes
                    echo_of_views
                    half_close
                    recv_stop_loses_nothing
                }
                suite! { $fixture, 1, lifetimes:
                    close_while_receive_is_parked
                    keys_are_reused_without_stale_events
                }
                suite! { $fixture, 1, resources:
                    starvation_loses_nothing
                    parked_receive_lets_the_send_go_on
                }
            }
        }
    };
    ($fixture:ty, $buffers:expr, $group:ident: $($test:ident)*) => {
        $(
            #[test]
            fn $test() {
                run::<$fixture>($buffers, $group::$test);
            }
        )*
    };
}

suite!(uring, UringFixture);
suite!(epoll, EpollFixture);
suite!(sim, crate::driver::sim::tests::conformance::SimFixture);
