//! What a server answers over HTTP beside its calls.

use ringway_http::Router;

use super::console::{ConsoleTable, Profile};
use super::console_access::Console;
use super::cors::{Cors, CorsFields};
use crate::builtin::health::Health;

/// The settings of HTTP, as the program has made them.
#[derive(Debug, Default)]
pub(super) struct HttpSettings {
    /// The program's own routes.
    pub(super) routes: Option<Router>,
    /// What libraries have added, where the program has no route.
    pub(super) pages: Router,
    pub(super) cors: Option<Cors>,
    pub(super) console: Console,
    pub(super) tables: Vec<ConsoleTable>,
    pub(super) has_no_metrics: bool,
}

/// The state behind the side doors of a server.
#[derive(Debug, Default)]
pub(crate) struct SideDoors {
    pub(super) health: Health,
    pub(super) routes: Option<Router>,
    pub(super) pages: Router,
    /// The pages of other origins that may make calls.
    pub(super) cors: Option<CorsFields>,
    pub(super) console: Console,
    pub(super) tables: Vec<ConsoleTable>,
    /// Whether `/metrics` is switched off.
    pub(super) has_no_metrics: bool,
    /// What the cores are seen to do, for the console.
    pub(super) profile: Profile,
}

impl SideDoors {
    /// Checks the settings.
    pub(super) fn new(health: Health, settings: HttpSettings) -> Result<Self, String> {
        let HttpSettings { routes, pages, cors, console, tables, has_no_metrics } = settings;
        console.check()?;
        let cors = cors.as_ref().map(Cors::compile).transpose()?;
        let profile = Profile::default();
        Ok(Self { health, routes, pages, cors, console, tables, has_no_metrics, profile })
    }
}
