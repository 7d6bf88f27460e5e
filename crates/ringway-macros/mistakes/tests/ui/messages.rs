//! Types that do not travel.

use ringway_rpc::{Status, service};

struct Quote {
    price: u64,
}

#[service(crate = "ringway_rpc")]
trait Market {
    async fn quote(&self, symbol: String) -> Result<Quote, Status>;
}

fn main() {}
