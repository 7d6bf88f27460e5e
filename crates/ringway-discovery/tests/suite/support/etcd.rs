//! A real etcd of one member, for as long as a test needs it.

use std::io::{BufRead, BufReader};
use std::net::TcpListener;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc;
use std::thread;

use tempfile::TempDir;

use super::LIMIT;

/// What a member shows its clients, and whom it believes, as PEM.
pub(crate) struct TlsFiles<'a> {
    pub(crate) certificate: &'a str,
    pub(crate) key: &'a str,
    pub(crate) client_authority: &'a str,
}

impl TlsFiles<'_> {
    /// Writes the files. Returns the arguments that name them.
    fn arguments(&self, folder: &TempDir) -> Vec<String> {
        let files = [
            ("cert-file", self.certificate),
            ("key-file", self.key),
            ("trusted-ca-file", self.client_authority),
        ];
        let written = files.map(|(flag, pem)| {
            let path = folder.path().join(flag);
            std::fs::write(&path, pem).expect("a place for it");
            format!("--{flag}={}", path.display())
        });
        written.into_iter().chain(["--client-cert-auth".to_owned()]).collect()
    }
}

/// A running etcd; dropping it kills it.
pub(crate) struct Etcd {
    child: Child,
    pub(crate) authority: String,
    _data: TempDir,
}

impl Etcd {
    /// Starts etcd on free ports. `None` if it is not installed.
    pub(crate) fn start() -> Option<Self> {
        Self::start_with(None)
    }

    /// The same, and its clients have to show a certificate.
    pub(crate) fn start_with(tls: Option<&TlsFiles<'_>>) -> Option<Self> {
        if !is_installed("etcd") {
            return None;
        }
        // The ports are free when they are chosen, and perhaps not any more when etcd binds them.
        let started = (0..5).find_map(|_| Self::try_start(tls));
        Some(started.expect("etcd starts in one of five attempts"))
    }

    fn try_start(tls: Option<&TlsFiles<'_>>) -> Option<Self> {
        let data = tempfile::tempdir().expect("a directory");
        let [authority, peers] = free_addresses();
        let scheme = if tls.is_some() { "https" } else { "http" };
        let (url, peer_url) = (format!("{scheme}://{authority}"), format!("http://{peers}"));
        let mut command = Command::new("etcd");
        if let Some(tls) = tls {
            command.args(tls.arguments(&data));
        }
        let mut child = command
            .arg("--data-dir")
            .arg(data.path())
            .args(["--listen-client-urls", &url, "--advertise-client-urls", &url])
            .args(["--listen-peer-urls", &peer_url, "--initial-advertise-peer-urls", &peer_url])
            .args(["--initial-cluster", &format!("default={peer_url}"), "--logger=zap"])
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .expect("etcd is installed");
        let log = BufReader::new(child.stderr.take().expect("piped"));
        let etcd = Self { child, authority, _data: data };
        let (ready, is_ready) = mpsc::channel();
        thread::spawn(move || {
            // Read to its end, so that etcd never waits for its log to be read.
            for line in log.lines().map_while(Result::ok) {
                if line.contains("serving client traffic") {
                    _ = ready.send(());
                }
            }
        });
        is_ready.recv_timeout(LIMIT).is_ok().then_some(etcd)
    }
}

impl Drop for Etcd {
    fn drop(&mut self) {
        // It may have ended.
        _ = self.child.kill();
        _ = self.child.wait();
    }
}

/// Whether a program of etcd is there.
pub(crate) fn is_installed(program: &str) -> bool {
    let argument = if program == "etcdctl" { "version" } else { "--version" };
    let mut call = Command::new(program);
    call.arg(argument).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    call.status().is_ok_and(|status| status.success())
}

fn free_addresses() -> [String; 2] {
    let bound = [(); 2].map(|()| TcpListener::bind("127.0.0.1:0").expect("a free port"));
    bound.map(|it| it.local_addr().expect("bound").to_string())
}
