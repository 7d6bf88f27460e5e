//! What is asked, in order, and the answers as text.

use std::fmt::Debug;
use std::sync::LazyLock;
use std::time::Duration;

use etcd_client::{
    Client, Compare, CompareOp, DeleteOptions, Error, GetOptions, LeaseGrantOptions,
    LeaseTimeToLiveOptions, PutOptions, SortOrder, SortTarget, Txn, TxnOp, WatchFilterType,
    WatchOptions, WatchStream,
};
use regex::Regex;

/// How long one answer may take.
const LIMIT: Duration = Duration::from_secs(30);

const LEASE: i64 = 4711;

/// Asks a server everything. Returns a text for each answer, without what differs between any two servers.
pub(crate) fn answers(authority: &str) -> Vec<String> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    runtime.expect("a runtime").block_on(async {
        let mut asked = Asked {
            client: Client::connect([authority], None).await.expect("it connects"),
            answers: Vec::new(),
        };
        asked.keys().await;
        asked.leases().await;
        asked.transactions().await;
        asked.watches().await;
        asked.compactions().await;
        asked.the_server().await;
        asked.answers
    })
}

struct Asked {
    client: Client,
    answers: Vec<String>,
}

impl Asked {
    fn keep(&mut self, what: &str, answer: impl Debug) {
        self.answers.push(masked(&format!("{what}: {answer:?}")));
    }

    async fn put(&mut self, key: &str, value: &str, options: Option<PutOptions>) {
        let answer = self.client.put(key, value, options).await;
        self.keep(&format!("put {key} {value}"), told(answer));
    }

    async fn get(&mut self, key: &str, options: GetOptions) {
        let what = format!("get {key} {options:?}");
        let answer = self.client.get(key, Some(options)).await;
        self.keep(&what, told(answer));
    }

    async fn delete(&mut self, key: &str, options: DeleteOptions) {
        let what = format!("delete {key} {options:?}");
        let answer = self.client.delete(key, Some(options)).await;
        self.keep(&what, told(answer));
    }

    async fn keys(&mut self) {
        let all = || GetOptions::new().with_prefix();
        self.put("a/1", "one", None).await;
        self.put("a/2", "two", None).await;
        self.put("a/3", "three", None).await;
        self.put("a/1", "uno", Some(PutOptions::new().with_prev_key())).await;
        self.put("a/1", "", Some(PutOptions::new().with_ignore_value())).await;
        self.put("none", "", Some(PutOptions::new().with_ignore_value())).await;
        self.put("", "no key", None).await;
        for options in [
            GetOptions::new(),
            all(),
            all().with_keys_only(),
            all().with_count_only(),
            all().with_limit(2),
            all().with_sort(SortTarget::Value, SortOrder::Descend),
            all().with_sort(SortTarget::Mod, SortOrder::Ascend),
            all().with_sort(SortTarget::Create, SortOrder::Descend).with_limit(1),
            all().with_sort(SortTarget::Version, SortOrder::Ascend),
            all().with_revision(3),
            all().with_revision(99),
            all().with_min_mod_revision(4),
            all().with_max_mod_revision(4),
            all().with_min_create_revision(3),
            all().with_max_create_revision(3),
            all().with_serializable(),
            GetOptions::new().with_range("a0"),
            GetOptions::new().with_from_key(),
            GetOptions::new().with_all_keys(),
        ] {
            self.get("a/", options).await;
        }
        self.get("nothing", GetOptions::new()).await;
        self.delete("a/3", DeleteOptions::new().with_prev_key()).await;
        self.delete("nothing", DeleteOptions::new()).await;
        self.put("a/3", "drei", None).await;
        self.delete("a/2", DeleteOptions::new().with_range("a/4").with_prev_key()).await;
    }

    async fn leases(&mut self) {
        let granted = self.client.lease_grant(30, Some(LeaseGrantOptions::new().with_id(LEASE)));
        let granted = granted.await;
        self.keep("grant", told(granted));
        let twice = self.client.lease_grant(30, Some(LeaseGrantOptions::new().with_id(LEASE)));
        let twice = twice.await;
        self.keep("grant twice", told(twice));
        self.put("l/1", "x", Some(PutOptions::new().with_lease(LEASE))).await;
        self.put("l/1", "y", Some(PutOptions::new().with_ignore_lease())).await;
        self.put("l/2", "z", Some(PutOptions::new().with_lease(1))).await;
        self.get("l/", GetOptions::new().with_prefix()).await;
        let keys = LeaseTimeToLiveOptions::new().with_keys();
        let left = self.client.lease_time_to_live(LEASE, Some(keys)).await;
        self.keep("time to live", told(left));
        let left = self.client.lease_time_to_live(1, None).await;
        self.keep("time to live of nothing", told(left));
        let leases = self.client.leases().await;
        self.keep("leases", told(leases));
        let (mut keeper, mut kept) = self.client.lease_keep_alive(LEASE).await.expect("a stream");
        for _ in 0..2 {
            keeper.keep_alive().await.expect("it is sent");
            let answer = in_time(kept.message()).await;
            self.keep("keep alive", told(answer));
        }
        let nothing = self.client.lease_keep_alive(1).await.map(drop);
        self.keep("keep nothing alive", told(nothing));
        for _ in 0..2 {
            let revoked = self.client.lease_revoke(LEASE).await;
            self.keep("revoke", told(revoked));
        }
        self.get("l/", GetOptions::new().with_prefix()).await;
    }

    async fn transactions(&mut self) {
        let (get, put) =
            (|key: &str| TxnOp::get(key, None), |key: &str| TxnOp::put(key, "t", None));
        let inner = Txn::new()
            .when([Compare::version("t/1", CompareOp::Equal, 1)])
            .and_then([put("t/2")])
            .or_else([put("t/3")]);
        let transactions = [
            Txn::new()
                .when([Compare::create_revision("t/1", CompareOp::Equal, 0)])
                .and_then([put("t/1"), get("a/1")])
                .or_else([get("t/1")]),
            Txn::new()
                .when([Compare::create_revision("t/1", CompareOp::Equal, 0)])
                .and_then([put("t/1")])
                .or_else([get("t/1"), TxnOp::delete("nothing", None)]),
            Txn::new()
                .when([
                    Compare::value("t/1", CompareOp::Equal, "t"),
                    Compare::lease("t/1", CompareOp::Equal, 0),
                    Compare::mod_revision("t/1", CompareOp::Greater, 1),
                    Compare::version("t/", CompareOp::NotEqual, 9).with_prefix(),
                ])
                .and_then([TxnOp::txn(inner)]),
            Txn::new().and_then([put("t/4"), put("t/4")]),
            Txn::new().and_then([TxnOp::delete("t/", Some(DeleteOptions::new().with_prefix()))]),
            Txn::new(),
        ];
        for transaction in transactions {
            let what = format!("{transaction:?}");
            let answer = self.client.txn(transaction).await;
            self.keep(&what, told(answer));
        }
    }

    async fn watches(&mut self) {
        let first = self.client.put("w/1", "1", None).await.expect("put");
        let first = first.header().expect("a header").revision();
        self.put("w/1", "2", None).await;
        self.put("w/2", "1", None).await;
        self.delete("w/1", DeleteOptions::new()).await;
        self.put("w/end", "", None).await;
        let from = || WatchOptions::new().with_prefix().with_start_revision(first);
        for options in [
            from(),
            from().with_prev_key(),
            from().with_filters([WatchFilterType::NoPut]),
            from().with_filters([WatchFilterType::NoDelete]),
            from().with_watch_id(7),
            WatchOptions::new().with_range("w/~").with_start_revision(first + 1).with_fragment(),
        ] {
            let what = format!("watch {options:?}");
            let mut watch = self.client.watch("w/", Some(options)).await.expect("a watch");
            self.put("w/x", "", None).await;
            let last = self.client.delete("w/x", None).await.expect("deleted");
            let last = last.header().expect("a header").revision();
            let (mut events, mut seen) = (Vec::new(), 0);
            let last = last - i64::from(what.contains("Nodelete")); // the put before it
            // How events share messages is a matter of time.
            while seen < last {
                let answer = in_time(watch.message()).await.expect("an answer").expect("no end");
                seen =
                    answer.events().last().and_then(|it| it.kv()).map_or(0, |it| it.mod_revision());
                events.extend(answer.events().iter().map(|event| format!("{event:?}")));
            }
            self.keep(&what, events);
            self.end(&what, watch).await;
        }
    }

    /// Asks how far a watch is and cancels it.
    async fn end(&mut self, what: &str, mut watch: WatchStream) {
        watch.cancel(0).await.expect("it is sent");
        watch.cancel(7).await.expect("it is sent");
        while let Ok(Some(answer)) = in_time(watch.message()).await {
            if answer.canceled() {
                return self.keep(what, answer);
            }
        }
        self.keep(what, "has ended");
    }

    async fn compactions(&mut self) {
        for revision in [8, 8, 100_000] {
            let answer = self.client.compact(revision, None).await;
            self.keep(&format!("compact {revision}"), told(answer));
        }
        self.get("a/", GetOptions::new().with_prefix().with_revision(3)).await;
        let options = WatchOptions::new().with_start_revision(3);
        let answer = match self.client.watch("a/1", Some(options)).await {
            Ok(mut watch) => told(in_time(watch.message()).await),
            Err(error) => told::<()>(Err(error)),
        };
        self.keep("watch what was compacted", answer);
    }

    async fn the_server(&mut self) {
        let status = self.client.status().await.expect("a status");
        self.keep("status", (status.is_learner(), status.leader() != 0, status.errors()));
        let members = self.client.member_list().await.expect("members");
        self.keep("members", members.members().len());
    }
}

/// An answer, or what etcd says of the mistake.
fn told<T: Debug>(answer: Result<T, Error>) -> String {
    match answer {
        Ok(answer) => format!("{answer:?}"),
        Err(Error::GRpcStatus(status)) => format!("{:?}: {}", status.code(), status.message()),
        Err(error) => format!("{error}"),
    }
}

async fn in_time<T>(answer: impl Future<Output = T>) -> T {
    tokio::time::timeout(LIMIT, answer).await.expect("an answer in time")
}

/// A text without the ids of servers, their term and the time that is left.
fn masked(text: &str) -> String {
    static MASKS: LazyLock<Regex> = LazyLock::new(|| {
        Regex::new(r"\b(cluster_id|member_id|raft_term|ttl): \d+").expect("a pattern")
    });
    MASKS.replace_all(text, "$1").into_owned()
}
