//! How connections line up with requests over HTTP/2, and how a core begins them.
//!
//! A head of some bytes begins work of many microseconds, so a core begins a bounded number of requests in each turn,
//! and connections take turns.

use std::rc::{Rc, Weak};

use ringway_runtime::{spawn_named, yield_now};
use ringway_wire::grpc::GrpcServer;

use crate::limits;
use crate::server::connection::ServerConnection;
use crate::server::core::ServerCore;
use crate::server::guest_line::BeginsGuests;

impl BeginsGuests for ServerConnection<GrpcServer> {
    fn begin_next(&self) -> bool {
        self.guest_host.get().is_some_and(|host| host.begin_next())
    }
}

impl ServerCore {
    /// Lines up a connection that has requests to begin.
    pub(super) fn line_up_guests(self: &Rc<Self>, connection: &Rc<ServerConnection<GrpcServer>>) {
        let line = self.guest_line();
        let own = Rc::clone(connection) as Rc<dyn BeginsGuests>;
        line.waiting.borrow_mut().push_back(Rc::downgrade(&own));
        if !line.has_pacer.replace(true) {
            spawn_named("pace of requests over HTTP/2", pace(Rc::downgrade(self)));
        }
    }

    /// Begins the next request of the line; false if there is none.
    fn begin_next_guest(&self) -> bool {
        let Some(connection) = self.guest_line().next() else { return false };
        if connection.begin_next() {
            let own = Rc::downgrade(&connection);
            self.guest_line().waiting.borrow_mut().push_back(own);
        }
        true
    }
}

async fn pace(core: Weak<ServerCore>) {
    loop {
        yield_now().await;
        let Some(core) = core.upgrade() else { return };
        let begun = (0..limits::GUESTS_PER_TURN).take_while(|_| core.begin_next_guest()).count();
        if begun < limits::GUESTS_PER_TURN {
            core.guest_line().has_pacer.set(false);
            return;
        }
    }
}
