//! One of three server processes is killed under load. Each call still ends once: those declared
//! idempotent with their reply, the others with a reply or with a status that says why there is
//! none, and nothing is carried out twice.

use std::cell::Cell;
use std::collections::HashMap;
use std::rc::Rc;

use ringway::rpc::{Call, Client, Status};
use ringway::runtime::{block_on, spawn, timeout};

use crate::example::{Example, LIMIT};

/// The service of the example `rpc_balanced`, whose servers print the orders that they carry out.
#[ringway::service(package = "shop.v1")]
trait Shop {
    #[method(idempotent)]
    async fn price(&self, item: u64) -> Result<u64, Status>;
    async fn order(&self, number: u64) -> Result<u64, Status>;
}

/// Calls of each method.
const CALLS: u64 = 4_000;

/// Calls of each method that are under way at a time.
const IN_FLIGHT: usize = 48;

/// What each call came to, by its number.
type Outcomes = HashMap<u64, Result<u64, Status>>;

#[test]
fn killing_one_server_of_three_fails_no_idempotent_call_and_repeats_no_other() {
    let server = || Example::start("rpc_balanced", &["tcp://127.0.0.1:0"]);
    let (victim, survivors) = (Rc::new(server()), [server(), server()]);
    let mut client = Client::builder();
    for server in survivors.iter().chain([&*victim]) {
        client = client.address(server.listening().1);
    }
    let shop = ShopClient::new(client.build().expect("good addresses"));

    let load = load(shop, Rc::clone(&victim));
    let ended = block_on(timeout(LIMIT, load)).expect("a core of its own");
    let (prices, orders) = ended.expect("every call ends in time");

    for (item, price) in prices {
        assert_eq!(price.expect("an idempotent call succeeds"), 100 * item);
    }
    let before = carried_out(&victim);
    assert!(!before.is_empty(), "the victim was not in use");
    let mut all = before;
    for survivor in survivors {
        survivor.terminate();
        all.extend(carried_out(&survivor));
        survivor.wait();
    }
    check_orders(&orders, &all);
}

/// Calls both methods at once, and kills `victim` in the middle.
async fn load(shop: ShopClient, victim: Rc<Example>) -> (Outcomes, Outcomes) {
    let prices = spawn(make_calls({
        let shop = shop.clone();
        move |item| shop.price(item)
    }));
    let orders = make_calls(move |number| {
        if number == CALLS / 2 {
            victim.kill();
        }
        shop.order(number)
    });
    let orders = orders.await;
    (prices.await.expect("no panic"), orders)
}

async fn make_calls(call: impl Fn(u64) -> Call<u64> + 'static) -> Outcomes {
    let (call, next) = (Rc::new(call), Rc::new(Cell::new(0)));
    let callers = (0..IN_FLIGHT).map(|_| {
        let (call, next) = (Rc::clone(&call), Rc::clone(&next));
        spawn(async move {
            let mut outcomes = Vec::new();
            while next.get() < CALLS {
                let number = next.replace(next.get() + 1);
                outcomes.push((number, call(number).await));
            }
            outcomes
        })
    });
    let mut all = Outcomes::new();
    for caller in callers.collect::<Vec<_>>() {
        all.extend(caller.await.expect("no panic"));
    }
    assert_eq!(all.len() as u64, CALLS);
    all
}

/// The orders that a server has carried out, once it has ended. What it wrote before it was killed
/// is still in the pipe.
fn carried_out(server: &Example) -> Vec<u64> {
    let lines = server.rest();
    let number = |line: &String| line.strip_prefix("order ").and_then(|it| it.parse().ok());
    lines.iter().map(|line| number(line).unwrap_or_else(|| panic!("{line}"))).collect()
}

fn check_orders(orders: &Outcomes, carried_out: &[u64]) {
    let mut times: HashMap<u64, usize> = HashMap::new();
    carried_out.iter().for_each(|number| *times.entry(*number).or_default() += 1);
    let mut failed = 0;
    for (number, outcome) in orders {
        let times = times.remove(number).unwrap_or(0);
        match outcome {
            Ok(reply) => assert_eq!((reply, times), (number, 1), "order {number}"),
            Err(status) => {
                failed += 1;
                assert!(status.is_unavailable() && !status.message().is_empty(), "{status:?}");
                assert!(times <= usize::from(!status.is_not_executed()), "{status:?}: {times}");
            }
        }
    }
    assert!(times.is_empty(), "orders that nobody has placed: {times:?}");
    assert!(failed <= IN_FLIGHT, "{failed} orders failed, more than were under way");
}
