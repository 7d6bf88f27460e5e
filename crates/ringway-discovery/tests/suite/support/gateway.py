"""What etcd3gw, which speaks to etcd's JSON gateway alone, does with a registry at the port that is given."""

import queue
import sys

import etcd3gw
from etcd3gw.watch import Watcher

LIMIT = 30

client = etcd3gw.client(host="127.0.0.1", port=int(sys.argv[1]), timeout=LIMIT)
assert client.status()["version"].startswith("3."), client.status()
assert client.members()[0]["clientURLs"], client.members()

client.put("a", "1")
assert client.get("a") == [b"1"]
assert client.create("a", "2") is False and client.create("b", "2") is True
assert client.replace("a", "1", "3") is True
assert [value for value, _ in client.get_prefix("a")] == [b"3"]
assert client.delete("b") is True and client.get("b") == []

lease = client.lease(ttl=LIMIT)
client.put("leased", "x", lease=lease)
assert lease.keys() == [b"leased"] and lease.refresh() > 0 and lease.ttl() > 0
lease.revoke()
assert client.get("leased") == []

with client.lock("l", ttl=LIMIT) as held:
    assert held.is_acquired()

events = queue.Queue()

watcher = Watcher(client, "w/", events.put, range_end="w0")
for number in range(3):
    client.put(f"w/{number}", str(number))
told = [events.get(timeout=LIMIT)["kv"]["value"] for _ in range(3)]
assert told == [b"0", b"1", b"2"], told
watcher.stop()
