//! Hosts from a file that is watched: `file:///path`.

use std::path::PathBuf;
use std::time::Duration;

use ringway_rpc::{HostUpdates, Resolver, Resolving, Status, Verdict};
use ringway_runtime::{fs, sleep, timeout};

use super::parse_list;
use crate::limits;

/// Reads a [list of hosts](parse_list), and reads it again when the file changes.
pub(crate) struct FileResolver {
    path: PathBuf,
}

impl FileResolver {
    /// The resolver of an address such as `file:///etc/market/hosts`.
    pub(crate) fn parse(address: &str) -> Result<Self, Status> {
        match address.strip_prefix("file://") {
            Some(path) if path.starts_with('/') && path.len() > 1 => Ok(Self { path: path.into() }),
            _ => {
                let why =
                    format!("`{address}` names no file: write file:///path, with three slashes");
                Err(Status::invalid_argument(why))
            }
        }
    }

    async fn follow(self: Box<Self>, updates: HostUpdates) {
        let mut wait = limits::RETRY_FIRST;
        loop {
            let mut watch = match fs::watch(&self.path).await {
                Ok(watch) => watch,
                Err(error) => {
                    updates.failed(format!("it cannot be watched: {error}"));
                    pause(&mut wait).await;
                    continue;
                }
            };
            loop {
                let verdict = self.read(&updates).await;
                let changed = match verdict {
                    Some(Verdict::Taken) => {
                        wait = limits::RETRY_FIRST;
                        watch.changed().await
                    }
                    Some(Verdict::Held) => {
                        match timeout(HostUpdates::CONFIRM_AFTER, watch.changed()).await {
                            Ok(changed) => changed,
                            Err(_time_to_confirm) => continue,
                        }
                    }
                    Some(Verdict::Refused) => watch.changed().await,
                    // What has failed may be mended without a change of the file.
                    None => match timeout(wait, watch.changed()).await {
                        Ok(changed) => changed,
                        Err(_time_to_try_again) => {
                            wait = (wait * 2).min(limits::RETRY_MAX);
                            continue;
                        }
                    },
                };
                if let Err(error) = changed {
                    updates.failed(format!("it cannot be watched: {error}"));
                    break;
                }
            }
            pause(&mut wait).await;
        }
    }

    async fn read(&self, updates: &HostUpdates) -> Option<Verdict> {
        let read = fs::read(&self.path, limits::LIST_BYTES_MAX).await;
        let text = read.map_err(|error| error.to_string()).and_then(|bytes| {
            String::from_utf8(bytes).map_err(|_| String::from("it is no text in UTF-8"))
        });
        match text.and_then(|text| parse_list(&text)) {
            Ok(hosts) => Some(updates.set(hosts)),
            Err(why) => {
                updates.failed(format!("it cannot be read: {why}"));
                None
            }
        }
    }
}

impl Resolver for FileResolver {
    fn name(&self) -> String {
        format!("file://{}", self.path.display())
    }

    fn run(self: Box<Self>, updates: HostUpdates) -> Resolving {
        Box::pin(self.follow(updates))
    }
}

/// Waits, and doubles the next wait.
async fn pause(wait: &mut Duration) {
    sleep(*wait).await;
    *wait = (*wait * 2).min(limits::RETRY_MAX);
}
