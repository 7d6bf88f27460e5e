//! The programs of others that a bench starts. What is missing is left out, and the report says so.

use crate::process::{GO_RPC, H2load, PeerJob, Peers, ProcessError};
use crate::stderr;

use super::contender::{Client, Contender, Program};
use super::plan::Setting;

/// The programs that the settings need.
#[derive(Debug, Default)]
pub(super) struct Programs {
    peers: Option<Peers>,
    go: Option<Peers>,
    h2load: Option<H2load>,
    left_out: Vec<String>,
}

impl Programs {
    /// Builds and looks for what `settings` need, and takes the contenders from them whose program is missing.
    ///
    /// # Errors
    /// The peers cannot be built. They are a part of this project, so that is no reason to go on without them.
    pub(super) fn prepare(settings: &mut [Setting]) -> Result<Self, ProcessError> {
        let mut programs = Self::default();
        let needs = |is: fn(&Contender) -> bool| {
            settings.iter().flat_map(|setting| &setting.contenders).any(is)
        };
        let (needs_peers, needs_go, needs_h2load) =
            (needs(is_of_peers), needs(is_of_go), needs(is_of_h2load));
        if needs_peers {
            programs.peers = Some(Peers::prepare(|text| stderr::say(text))?);
        }
        if needs_go {
            match Peers::prepare_go(|text| stderr::say(text)) {
                Ok(go) => programs.go = Some(go),
                Err(why) => programs.leave_out(settings, is_of_go, &format!("Go's net/rpc: {why}")),
            }
        }
        if needs_h2load {
            programs.h2load = H2load::find();
            if programs.h2load.is_none() {
                programs.leave_out(settings, is_of_h2load, NO_H2LOAD);
            }
        }
        Ok(programs)
    }

    fn leave_out(&mut self, settings: &mut [Setting], is: fn(&Contender) -> bool, why: &str) {
        stderr::say(format_args!("there are no rows of {why}"));
        settings.iter_mut().for_each(|setting| setting.contenders.retain(|it| !is(it)));
        self.left_out.push(why.to_owned());
    }

    /// Returns the rows that there are not, each with its reason.
    pub(super) fn left_out(&self) -> &[String] {
        &self.left_out
    }

    /// Returns the binary that has the server `kind`.
    ///
    /// # Errors
    /// It was not prepared.
    pub(super) fn of_kind(&self, kind: &str) -> Result<&Peers, &'static str> {
        let programs = if kind == GO_RPC { &self.go } else { &self.peers };
        programs.as_ref().ok_or("a peer that was not prepared")
    }

    /// Returns the binary that has the client for `job`.
    ///
    /// # Errors
    /// It was not prepared.
    pub(super) fn of_client(&self, job: &PeerJob) -> Result<&Peers, &'static str> {
        match job {
            PeerJob::Rpc { peer, .. } => self.of_kind(peer),
            _ => self.of_kind(""),
        }
    }

    /// Returns h2load.
    ///
    /// # Errors
    /// It is not installed.
    pub(super) fn h2load(&self) -> Result<&H2load, &'static str> {
        self.h2load.as_ref().ok_or("h2load is not installed")
    }
}

fn is_of_peers(contender: &Contender) -> bool {
    // etcd is started by itself.
    let serves =
        matches!(contender.server, Program::Peer(kind) if kind != "etcd" && kind != GO_RPC);
    let calls = match contender.client {
        Client::Epoll => true,
        Client::Peer(name) => name != GO_RPC,
        _ => false,
    };
    serves || calls
}

fn is_of_go(contender: &Contender) -> bool {
    contender.client == Client::Peer(GO_RPC)
}

fn is_of_h2load(contender: &Contender) -> bool {
    contender.client == Client::H2load
}

const NO_H2LOAD: &str = "h2load: it is not installed (Debian's package nghttp2-client)";
