//! Keys of SCRAM, which take milliseconds to derive.

use std::cell::RefCell;
use std::num::NonZeroU32;

use ringway_runtime::spawn_blocking;
use ringway_wire::mongo::{ScramChallenge, ScramKeys, ScramMechanism, scram_password};

use crate::error::{Error, Fate, Kind, Result};
use crate::limits::KEYS_KEPT;
use crate::options::Login;

/// The keys that a client has derived for its one user.
#[derive(Default)]
pub(crate) struct KeyCache {
    /// The latest last.
    known: RefCell<Vec<KnownKeys>>,
}

struct KnownKeys {
    mechanism: ScramMechanism,
    salt: Vec<u8>,
    iterations: NonZeroU32,
    keys: ScramKeys,
}

impl KeyCache {
    /// The keys that answer a challenge: known ones, or derived on the pool for blocking work.
    pub(crate) async fn keys(
        &self,
        login: &Login,
        mechanism: ScramMechanism,
        challenge: &ScramChallenge,
    ) -> Result<ScramKeys> {
        let (salt, iterations) = (challenge.salt(), challenge.iterations());
        let is_it = |known: &&KnownKeys| {
            (known.mechanism, &*known.salt, known.iterations) == (mechanism, salt, iterations)
        };
        if let Some(known) = self.known.borrow().iter().find(is_it) {
            return Ok(known.keys.clone());
        }
        let password = scram_password(mechanism, &login.user, &login.password)
            .map_err(Error::authentication)?;
        let salt = salt.to_vec();
        let (keys, salt) =
            off_core(move || (ScramKeys::derive(mechanism, &password, &salt, iterations), salt))
                .await?;
        let mut known = self.known.borrow_mut();
        if known.len() == KEYS_KEPT {
            known.remove(0);
        }
        known.push(KnownKeys { mechanism, salt, iterations, keys: keys.clone() });
        Ok(keys)
    }
}

async fn off_core<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> Result<T> {
    let failed = "the keys of SCRAM cannot be derived";
    let task = spawn_blocking(work)
        .map_err(|error| Error::new(Kind::Limit, Fate::NotSent, failed).with_source(error))?;
    task.await.map_err(|panic| {
        let why = ringway_runtime::panic_message(panic);
        Error::new(Kind::Limit, Fate::NotSent, failed).with_source(why)
    })
}
