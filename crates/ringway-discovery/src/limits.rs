//! Bounds of discovery, each with its reason.

use std::time::Duration;

/// Changes that a store remembers before it compacts by itself. A watch that is cut for a while finds what it has
/// missed: at a hundred changes a second this is a quarter of an hour.
pub(crate) const HISTORY_CHANGES_MAX: usize = 100_000;

/// Bytes of keys and values that a store remembers for changes before it compacts by itself. It holds when values are
/// large.
pub(crate) const HISTORY_BYTES_MAX: usize = 64 << 20;

/// Revisions that a store forgets with one change, so that it is not held for long when a snapshot has held up many. More
/// than one is enough to catch up.
pub(crate) const REVISIONS_FORGOTTEN_AT_ONCE: usize = 1_000;

/// Changes that are removed at once after they were compacted, while others wait for the store: some milliseconds. One
/// revision may have a million, and the first that can be read comes behind them at once.
pub(crate) const REMOVED_AT_ONCE: usize = 10_000;

/// Changes that a watch gets at once, so that one that is far behind does not hold the store for long. All changes of
/// one revision come together, however many they are.
pub(crate) const WATCH_CHANGES_MAX: usize = 1_000;

/// Changes that a watch looks at in one turn, for the same reason: most may be of other keys.
pub(crate) const WATCH_SCANNED_MAX: usize = 10_000;

/// Bytes of keys and values that a watch gets at once, those before the changes included, so that no response is too long
/// for its reader. All changes of one revision come together here too.
pub(crate) const WATCH_BYTES_MAX: usize = 1 << 20;

/// Keys that a hash of all keys looks at in one turn, while others wait for the store: a fraction of a millisecond.
pub(crate) const HASHED_KEYS_AT_ONCE: usize = 2_000;

/// Bytes of keys and values that it takes in one turn, for the same reason.
pub(crate) const HASHED_BYTES_AT_ONCE: usize = 1 << 20;

/// Bytes of the events of one response to a watch that takes the changes of one revision in parts, as in etcd: those of a
/// request that changes keys.
pub(crate) const WATCH_PART_BYTES: usize = REQUEST_BYTES_MAX;

/// The bytes of all keys and values. A registry of ten thousand servers has some 10 MiB.
pub(crate) const KEYS_BYTES_MAX: usize = 256 << 20;

/// Keys of a registry. Each costs some hundred bytes beside its own, which are kept twice: as the key, and in its message.
pub(crate) const KEYS_MAX: usize = 1_000_000;

/// Bytes of a request that changes keys, as etcd has it by default.
pub(crate) const REQUEST_BYTES_MAX: usize = 3 << 19;

/// Bytes of what one request reads: many times a registry of ten thousand servers. Without a bound one small request
/// would be answered with all keys, and one with many reads with all keys many times. etcd has no such bound.
pub(crate) const READ_BYTES_MAX: usize = 64 << 20;

/// Bytes of an answer to a range that is put together while the registry is locked: a service of some hundred servers, and
/// some microseconds. Longer ones are put together afterwards.
pub(crate) const ENCODED_ANSWER_BYTES: usize = 64 << 10;

/// Comparisons, or operations of one branch, in a transaction, as etcd has it by default.
pub(crate) const TXN_OPERATIONS_MAX: usize = 128;

/// Comparisons and operations of a transaction with all that are nested in it, so that nesting does not multiply the
/// work. etcd has no such bound.
pub(crate) const TXN_OPERATIONS_TOTAL_MAX: usize = 1_024;

/// Keys that the comparisons and operations of a transaction may meet together: one of them all keys, but not each of
/// them, because the registry is locked meanwhile.
pub(crate) const TXN_KEYS_MAX: usize = KEYS_MAX + TXN_OPERATIONS_TOTAL_MAX;

/// The highest first revision. Half of the numbers that JSON has exactly are left for changes.
pub(crate) const FIRST_REVISION_MAX: i64 = 1 << 52;

/// Leases of a registry, one for each server that registers.
pub(crate) const LEASES_MAX: usize = 100_000;

/// The shortest time of a lease, as etcd has it by default: shorter ones are granted this one.
pub(crate) const LEASE_TTL_MIN: Duration = Duration::from_secs(2);

/// The longest time of a lease, as etcd has it: 285 years.
pub(crate) const LEASE_TTL_MAX: Duration = Duration::from_secs(9_000_000_000);

/// How long the task that ends leases sleeps at most: a lease that was granted meanwhile may be the first to expire.
pub(crate) const EXPIRY_LOOK: Duration = Duration::from_millis(500);

/// How late leases may be looked at before it counts as a pause of the registry, in which nobody could renew them. Twice
/// the time between two looks is more than a core with much to do needs.
pub(crate) const PAUSE_FORGIVEN: Duration = Duration::from_secs(1);

/// Pauses that are forgiven one after the other. A core whose turns are so long that each look is late would otherwise
/// keep the leases of servers that are gone for as long as it is slow, although it reads what others renew.
pub(crate) const PAUSES_FORGIVEN: u32 = 8;

/// Leases that end at once, while others wait for the store.
pub(crate) const EXPIRED_AT_ONCE: usize = 100;

/// Keys of such leases after which the rest waits, since one lease may have many: some milliseconds. All keys of one lease go
/// together, however many they are.
pub(crate) const EXPIRED_KEYS_AT_ONCE: usize = 5_000;

/// Bytes of changes that are gathered for the log. More wait: at a disk's 100 MiB a second, not for long.
pub(crate) const JOURNAL_BYTES_MAX: usize = 16 << 20;

/// Bytes of a file of the log, after which the next one begins and a snapshot is made, unless there are many keys. A start
/// reads it in a fraction of a second.
pub(crate) const LOG_FILE_BYTES: usize = 32 << 20;

/// The next file begins when this one has the bytes of the keys, divided by this, if that is more: a snapshot of many keys
/// is written for many changes.
pub(crate) const LOG_KEYS_SHARE: usize = 2;

/// The share of the keys' bytes, as their divisor, that the log may grow by while a snapshot is made, beside the bytes of one of
/// its files: in proportion to what part of the snapshot is on the disk, so that it comes to its end however fast keys change.
/// With the two snapshots that there are at its end, and the file of the log before it, a folder has three times the bytes of the
/// keys and 256 MiB at most.
pub(crate) const PACED_KEYS_SHARE: usize = 4;

/// The share of such a file, as its divisor, that the log may grow by before a snapshot has come far, so that it does not wait
/// for each of its pieces.
pub(crate) const UNPACED_LOG_SHARE: usize = 4;

/// Changes that may be made before a snapshot has come far, for the same reason. In proportion to what is on the disk there may be
/// as many as the history has otherwise, since it keeps them all meanwhile.
pub(crate) const UNPACED_CHANGES: usize = 10_000;

/// Snapshots that fail one after the other before the log counts as failed: it would fill the disk. Each is tried after a file of
/// the log, so this is a GiB or some.
pub(crate) const SNAPSHOT_FAILURES_MAX: u32 = 30;

/// Bytes of zeros that are written behind the end of a log at once, when half of those before are used: some hundred syncs then
/// change nothing but what they write, and the one that has the zeros takes some milliseconds. On a full disk there is room
/// there for thousands of deletions.
pub(crate) const LOG_AHEAD_BYTES: usize = 1 << 20;

/// Bytes of a file of a registry that are read: those of a snapshot of all keys and their history, and more than those
/// of a log that grew while one was made and whose last change deletes a million keys.
pub(crate) const DATA_FILE_BYTES_MAX: usize = 1 << 30;

/// Bytes of a snapshot that are made and written at once, so that other tasks of the core run in between.
pub(crate) const SNAPSHOT_PIECE_BYTES: usize = 256 << 10;

/// Bytes of files that are restored at once when a registry starts, for the same reason: some milliseconds.
pub(crate) const RESTORED_BYTES_AT_ONCE: usize = 256 << 10;

/// Bytes of a snapshot that are synced at once: a fraction of a second of a slow disk, for which a change may have to wait.
pub(crate) const SNAPSHOT_SYNC_BYTES: u64 = 8 << 20;

/// Keys and changes that a snapshot looks at in one turn, while others wait for the store: a fraction of a millisecond.
pub(crate) const SNAPSHOT_SCANNED_MAX: usize = 2_000;

/// How long the log waits before it writes again what a full disk had no room for.
pub(crate) const DISK_FULL_RETRY: Duration = Duration::from_secs(1);

/// Files of a registry's folder: a log and a snapshot, and a log more for each snapshot that failed.
pub(crate) const DATA_FILES_MAX: usize = 10_000;

/// The time that a lease has at least after a pause of the registry, or its whole time if that is shorter: the renewals that
/// came meanwhile are read first. After a start it has its whole time, since renewals are not logged.
pub(crate) const PAUSED_LEASE_MIN: Duration = Duration::from_secs(5);

/// Watches of one stream. A client of etcd has one stream for all its watches.
pub(crate) const WATCHES_PER_STREAM_MAX: usize = 10_000;

/// Bytes of the keys that the watches of one stream name: some hundred for each watch.
pub(crate) const WATCHED_BYTES_PER_STREAM_MAX: usize = 4 << 20;

/// Watches of a registry: a hundred thousand clients that follow five services each. One costs some hundred bytes.
pub(crate) const WATCHES_MAX: usize = 500_000;

/// Bytes of the keys that all watches of a registry name: some hundred for each of them.
pub(crate) const WATCHED_BYTES_MAX: usize = 64 << 20;

/// Watches of a stream that are served in one turn of a core, while others wait for it.
pub(crate) const WATCHES_AT_ONCE: usize = 100;

/// How often a quiet watch that has asked for it hears of its progress, as in etcd.
pub(crate) const WATCH_PROGRESS_INTERVAL: Duration = Duration::from_secs(600);

/// The term that responses name. There are no elections.
pub(crate) const RAFT_TERM: u64 = 1;

/// The revision of users and roles, of which there are none, as that of an etcd that has never had any.
pub(crate) const AUTH_REVISION: u64 = 1;

/// The version of etcd whose API this is.
pub(crate) const API_VERSION: &str = "3.4.0";

/// Services of a local registry before those are forgotten that nobody uses: a program that makes names up would otherwise fill
/// the memory with them.
pub(crate) const LOCAL_SERVICES_UNUSED_MAX: usize = 1_024;

/// Changes of a service that a local registry remembers: a watch that is further behind gets the difference.
pub(crate) const LOCAL_HISTORY_CHANGES_MAX: usize = 256;

/// Bytes of an endpoint as the value of a key: an address and some dozens of entries of metadata.
pub(crate) const ENDPOINT_BYTES_MAX: usize = 64 << 10;

/// The largest weight of a host in a client.
pub(crate) const WEIGHT_MAX: u32 = 100;

/// How long a server that died stays registered, unless it is set: its clients know it by their connections.
pub(crate) const ANNOUNCED_TTL: Duration = Duration::from_secs(10);

/// How long a server that was deregistered goes on serving, unless it is set: clients that have to confirm a short list
/// first use it for 2 seconds.
pub(crate) const DRAIN_DELAY: Duration = Duration::from_secs(5);

/// How long a server that stops waits for its registry. It is what shutdown hooks have.
pub(crate) const WITHDRAW_TIMEOUT: Duration = Duration::from_secs(1);

/// How long a registry may take for a list that is to be confirmed.
pub(crate) const SNAPSHOT_TIMEOUT: Duration = Duration::from_secs(5);

/// Bytes of a file with a list of hosts: as many hosts as a client takes, with some metadata.
pub(crate) const LIST_BYTES_MAX: usize = 16 << 20;

/// The first wait after a source has failed; each further one is twice as long.
pub(crate) const RETRY_FIRST: Duration = Duration::from_millis(500);

/// The longest wait after a source has failed: how late its recovery is seen at most.
pub(crate) const RETRY_MAX: Duration = Duration::from_secs(30);

/// The first wait after a name could not be looked up; each further one is twice as long.
#[cfg(feature = "dns")]
pub(crate) const DNS_RETRY_FIRST: Duration = Duration::from_secs(1);

/// How long a look-up may take with all its attempts: the library gives each server 5 seconds, twice.
#[cfg(feature = "dns")]
pub(crate) const DNS_TIMEOUT: Duration = Duration::from_secs(15);

/// The shortest time between two look-ups of a name, whatever its TTL: some servers say 0.
#[cfg(feature = "dns")]
pub(crate) const DNS_TTL_MIN: Duration = Duration::from_secs(1);

/// The shortest time before a name is looked up again because none of its hosts can be reached: some seconds, within
/// which clients have tried them twice.
#[cfg(feature = "dns")]
pub(crate) const DNS_ASKED_AGAIN: Duration = Duration::from_secs(3);

/// Names in a chain of aliases that is followed, as long as those of the library.
#[cfg(feature = "dns")]
pub(crate) const DNS_ALIASES_MAX: usize = 8;

/// The longest time between two look-ups of a name, so that a change is seen in spite of a TTL of days.
#[cfg(feature = "dns")]
pub(crate) const DNS_TTL_MAX: Duration = Duration::from_secs(300);

/// How long the addresses of one target of SRV records may take: less than the whole, so that a target whose name server is
/// silent does not fail the others.
#[cfg(feature = "dns")]
pub(crate) const DNS_TARGET_TIMEOUT: Duration = Duration::from_secs(5);

/// Targets of SRV records whose addresses are looked up at once.
#[cfg(feature = "dns")]
pub(crate) const DNS_TARGETS_MAX: usize = 128;

/// How long a person waits for an answer of a registry.
pub(crate) const ADMIN_TIMEOUT: Duration = Duration::from_secs(5);

/// Keys that are listed in one request, some hundred KiB.
pub(crate) const ADMIN_PAGE_KEYS: i64 = 1_000;

/// Endpoints that are listed for a person, who could not read more.
pub(crate) const ADMIN_KEYS_MAX: usize = 100_000;

/// Attempts to change an endpoint that others change at the same moment.
pub(crate) const ADMIN_ATTEMPTS: usize = 10;

/// Members of a cluster that a client is told of. Clusters have three to seven.
pub(crate) const MEMBERS_MAX: usize = 32;

/// What the keys of registered endpoints begin with, if nothing else is said: clusters have other uses.
pub(crate) const NAMESPACE: &str = "ringway/";

/// Bytes of a service's name, which is a part of every key.
pub(crate) const SERVICE_NAME_BYTES_MAX: usize = 256;

/// Endpoints of one service: a client calls 1,024 hosts at most, and services are watched before they are picked from.
pub(crate) const ENDPOINTS_MAX: usize = 10_000;

/// Keys that are read at once. With values of etcd's usual bound this stays below `RESPONSE_BYTES_MAX` for what anybody
/// would call an endpoint, and a list of a thousand endpoints takes four requests.
pub(crate) const RANGE_PAGE: i64 = 250;

/// Bytes of a registry's response: a page of endpoints that have their longest, 64 KiB each.
pub(crate) const RESPONSE_BYTES_MAX: u32 = 17 << 20;

/// The time for connecting to a member. Registries are near, and another member waits to be asked.
pub(crate) const CONNECT_TIMEOUT: Duration = Duration::from_secs(2);

/// The time within which a member answers. An election takes one second with etcd's settings.
pub(crate) const REQUEST_TIMEOUT: Duration = Duration::from_secs(2);

/// The time after which a member that tells a watch nothing is asked whether it is there. With the timeout of requests
/// this is how long a list may be out of date before another member is asked.
pub(crate) const PROGRESS_INTERVAL: Duration = Duration::from_secs(5);

/// How long a list is kept while the registry tells one that is hard to believe. Servers whose leases a registry has
/// lost notice within a third of their TTL, and register again.
pub(crate) const HOLD: Duration = Duration::from_secs(5);

/// The first wait before a member is asked again that has failed; the following ones double.
pub(crate) const MEMBER_RETRY_FIRST: Duration = Duration::from_millis(100);

/// The longest of these waits. A registry that is back is noticed within it.
pub(crate) const MEMBER_RETRY_MAX: Duration = Duration::from_secs(2);

/// The longest wait after a refusal, such as a missing right, that no other member would change.
pub(crate) const REFUSED_RETRY_MAX: Duration = Duration::from_secs(10);

/// The longest TTL of a registration. A server that died is not in lists for longer.
pub(crate) const REGISTRATION_TTL_MAX: Duration = Duration::from_secs(24 * 3600);

/// How long a registration tries to deregister. After that its TTL does it.
pub(crate) const DEREGISTER_TIMEOUT: Duration = Duration::from_secs(10);

/// Keys that the console looks at for those without a lease, in a fraction of a millisecond.
pub(crate) const CONSOLE_KEYS_SCANNED: usize = 2_000;

/// Keys that the console of a registry shows: more than a person reads, and little time for the others that
/// wait for the registry meanwhile.
pub(crate) const CONSOLE_KEYS_MAX: usize = 400;
