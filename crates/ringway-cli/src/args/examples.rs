//! The examples at the end of each help text.

pub(super) const RINGWAY: &str = "\
Examples:
  ringway bench                                 every suite, in under 90 seconds
  ringway serve rpc --listen tcp://0.0.0.0:9000
  ringway call tcp://127.0.0.1:9000 --list
  ringway bench rpc --help";

pub(super) const SERVE: &str = "\
Examples:
  ringway serve echo                            on tcp://127.0.0.1:7001, one thread a core
  ringway serve discard --frame --cores 0
  ringway serve rpc                             on tcp://127.0.0.1:9000";

pub(super) const SERVE_ECHO: &str = "\
Examples:
  ringway serve echo --listen tcp://127.0.0.1:7001 --cores 0
  ringway serve echo --listen tcp://[::]:7001 --listen unix:///tmp/echo.sock
  ringway serve echo --listen tls://0.0.0.0:7443 --cert cert.pem --key key.pem
  ringway serve echo --backend epoll --spin 0   sleep as soon as there is nothing to do
  ringway serve echo --stats 1s                 what it has done, once a second

The server prints `listening on URI` when it is ready and drains on SIGINT or SIGTERM.";

pub(super) const SERVE_DISCARD: &str = "\
Examples:
  ringway serve discard --listen tcp://127.0.0.1:7002
  ringway serve discard --frame --cores 0-1     count and check the packets of `bench receive`
  ringway serve discard --frame --acknowledge   and answer each: the other side of `bench ttcp`

The server prints `listening on URI` when it is ready and drains on SIGINT or SIGTERM.";

pub(super) const BENCH: &str = "\
Examples:
  ringway bench                                 every suite, in under 90 seconds
  ringway bench --peers                         the same with the peer programs in the same table
  ringway bench pingpong -c 100 -s 64,16384 -d 5
  ringway bench receive --batch --format json > receive.json
  ringway bench rpc -c 200 -l 4 -s 47 --peers   beside tonic and tarpc
  ringway bench rpc --rate 10k,20k,50k,100k --report page.html    where it bends, drawn
  ringway bench grpc -c 2 -l 400 -s 47          our client and server over gRPC
  ringway bench call tcp://127.0.0.1:9000 market.v1.Market/Quote '{}'    load on your own method

The table goes to standard output, progress to standard error. The exit status is 0 if every payload \
was right, 1 if any was wrong or any request failed, 2 if the arguments were wrong.";

pub(super) const PINGPONG: &str = "\
Examples:
  ringway bench pingpong                        16 KiB at 1, 10, 100 and 1,000 connections
  ringway bench pingpong -c 1 -s 64 --spin 0    what waking a sleeping core costs
  ringway bench pingpong --unix -c 100 -d 5
  ringway bench pingpong --addr tcp://127.0.0.1:7001 -c 10
  ringway bench pingpong 1 16384 100 10         threads, block size, sessions, seconds";

pub(super) const IDLE: &str = "\
Examples:
  ringway bench idle                            1,000 and 10,000 connections
  ringway bench idle -c 10000 --peers           beside plain loops, tokio and monoio
  ringway bench idle -c 100000 --unix           more than a TCP address has ports

The memory is that of the server's process; the kernel's own, some kilobytes a socket, is not in it.";

pub(super) const RECEIVE: &str = "\
Examples:
  ringway bench receive                         32-byte packets, both modes
  ringway bench receive --batch -c 4            many packets a write
  ringway bench receive --batch 64 -c 4         64 packets a write
  ringway bench receive --per-packet -c 100     one send call a packet
  ringway serve discard --frame &
  ringway bench receive --addr tcp://127.0.0.1:7001 -c 1";

pub(super) const TTCP: &str = "\
Examples:
  ringway bench ttcp                            64 KiB on one connection
  ringway bench ttcp -s 1024,65536,1048576 --transport tcp,unix
  ringway bench ttcp -l 65536 -c 1,4            -l is the original's letter for -s
  ringway serve discard --frame --acknowledge --listen tcp://0.0.0.0:5001 &
  ringway bench ttcp --addr tcp://127.0.0.1:5001";

pub(super) const SERVE_CLOCK: &str = "\
Examples:
  ringway serve clock --listen tcp://0.0.0.0:7003 --listen udp://0.0.0.0:7003
  ringway bench roundtrip --addr udp://127.0.0.1:7003

A request is 16 bytes. The first 8 come back as they are, and the others as the server's time in \
microseconds since 1970, a little-endian number.";

pub(super) const ROUNDTRIP: &str = "\
Examples:
  ringway bench roundtrip                       over TCP, one exchange after the other
  ringway bench roundtrip --transport tcp,udp,unix
  ringway bench roundtrip --addr udp://10.0.0.1:7003 --pause 200ms -d 10    another machine's clock

The offset is that of the server's clock, by the fastest exchange of all runs; it may be wrong by \
half of that round trip.";

pub(super) const SERVE_RPC: &str = "\
Examples:
  ringway serve rpc --listen tcp://127.0.0.1:9000 --cores 0
  ringway serve rpc --listen tcp://[::]:9000 --listen unix:///tmp/rpc.sock
  ringway serve rpc --listen tls://0.0.0.0:9000 --cert cert.pem --key key.pem --client-ca clients.pem
  ringway call tcp://127.0.0.1:9000 --list      what it offers

The server prints `listening on URI` when it is ready and drains on SIGINT or SIGTERM.";

pub(super) const CALL: &str = "\
Examples:
  ringway call tcp://127.0.0.1:9000 --list
  ringway call tcp://127.0.0.1:9000 ringway.bench.Echo/Say hello
  ringway call tcp://127.0.0.1:9000 ringway.bench.Echo/Greet '{\"name\": \"Ada\"}' --timeout 500ms
  seq 3 | ringway call tcp://127.0.0.1:9000 ringway.bench.Echo/Chat -
  ringway call tcp://127.0.0.1:9000 ringway.bench.Echo/Say - --binary < in.bin > out.bin
  ringway call tcp://127.0.0.1:9000 --list -H 'authorization: Bearer 123'
  ringway call tcp://127.0.0.1:9000 grpc.health.v1.Health/Check
  ringway call jsonrpc+tcp://127.0.0.1:9000 Echo/Greet '{\"name\": \"Ada\"}'   any JSON-RPC server
  ringway call grpc://127.0.0.1:50051 --list                     any gRPC server with reflection
  ringway call grpcs://example.org:443 shop.v1.Shop/Order '{\"item\": 7}' --cacert ca.pem

Each reply is a line on standard output; a terminal shows control characters as \\u001b and the like. \
The program ends with its call, even if there is more input. A call that fails prints its status to \
standard error, and the exit status is 1.";

pub(super) const RPC: &str = "\
Examples:
  ringway bench rpc                             256 B unary on 100 connections, one call each
  ringway bench rpc -c 200 -l 4 -s 47 -m unary,client_stream,server_stream,bidi
  ringway bench rpc -c 2 -l 400 -s 47 --peers   beside tonic and tarpc
  ringway bench rpc --rate 100000 -c 50         an open loop: latency from when each call was due
  ringway bench rpc --rate 100000 --hist rpc.hgrm     and its latencies for HdrHistogram's plotters
  ringway bench rpc --rate 100000 --slow 1      with 1 % slow handlers, latency of the others
  ringway bench rpc --addr tcp://127.0.0.1:9000 -c 10";

pub(super) const GRPC: &str = "\
Examples:
  ringway bench grpc                            256 B unary on 100 connections, one call each
  ringway bench grpc -c 200 -l 4 -s 47 -m unary,client_stream,server_stream,bidi
  ringway bench rpc --protocol native,grpc -c 2 -l 400 -s 47    gRPC beside the native protocol
  ringway bench grpc --rate 100000 -c 50        an open loop: latency from when each call was due
  ringway bench grpc -c 2 -l 400 -s 47 --peers  tonic's client and server beside and across ours
  ringway bench grpc --addr grpc://127.0.0.1:9000 -c 10
  ringway bench stream --protocol grpc -w 8     streams";

pub(super) const JSONRPC: &str = "\
Examples:
  ringway bench jsonrpc                         256 B on 100 connections, one call each
  ringway bench jsonrpc -c 1 -s 32              simple: one call after the other
  ringway bench jsonrpc -c 100 -l 8 -s 32       throughput: eight calls at once on each connection
  ringway bench jsonrpc -s 10240                a payload of 10 KiB
  ringway bench jsonrpc -c 100 -l 100           stress: 10,000 calls at once
  ringway bench jsonrpc --transport tcp,unix,http,ws
  ringway bench jsonrpc --transport http,ws --peers   beside jsonrpsee
  ringway bench jsonrpc --transport tcp,unix --peers  beside Go's net/rpc, where Go is installed
  ringway bench rpc --protocol native,grpc,jsonrpc -c 2 -l 400 -s 47

Payloads are bytes, which JSON has as base64: a third longer each way.";

pub(super) const BENCH_CALL: &str = "\
Examples:
  ringway bench call tcp://127.0.0.1:9000 ringway.bench.Echo/Say hello
  ringway bench call tcp://127.0.0.1:9000 ringway.bench.Echo/Say hello --expect hello -c 8 -p 1,16
  ringway bench call tcp://127.0.0.1:9000 market.v1.Market/Quote '{\"symbol\": \"ACME\"}' --rate 50000
  ringway bench call tls://market:9000 market.v1.Market/Quote - -H 'authorization: Bearer 1' < q
  ringway bench call grpc://127.0.0.1:50051 shop.v1.Shop/Order '{\"item\": 7}' -c 8 -p 16

A call ends with its last reply. Calls that end with a status other than OK are counted by status, \
and are not among the latencies. Use this only on servers of your own.";

pub(super) const EVENT: &str = "\
Examples:
  ringway bench event                           100 pipes, one active, 100 writes
  ringway bench event -n 100,1000,10000 -a 1,100
  ringway bench event -n 1000 -a 100 -w 1000 --peers    beside a plain loop over epoll

An iteration is over when the last byte has been read. The percentiles are those of iterations; \
the time of an operation is that of one event: a byte that is written, read and checked.";

pub(super) const CODEC: &str = "\
Examples:
  ringway bench codec                           requests, responses, errors, notifications, batches
  ringway bench codec -d 1 --repeat 9 --format json

One thread and no network: the cost of a message whose bytes are already in memory, not of a call.";

pub(super) const STREAM: &str = "\
Examples:
  ringway bench stream                          16 frames of 128 B, 100 connections, one unanswered
  ringway bench stream -w 1,8 --peers           windows of 1 and 8, beside tonic
  ringway bench stream -w 8 --protocol native,grpc
  ringway bench stream --one-way                one endless stream from the server";

pub(super) const REPORT: &str = "\
Examples:
  ringway bench rpc --format json > before.json
  ringway bench rpc --format json > after.json
  ringway report before.json after.json         which rows differ by more than the noise
  ringway report before.json --html page.html   charts of one result
  ringway bench grpc --peers --report page.html the same at once";

pub(super) const BENCH_REGISTRY: &str = "\
Examples:
  ringway bench registry -i 1 --peers              beside etcd, with the data of both on one disk
  ringway bench registry -m watch -c 1,100,1000    from a change to all its watches
  ringway bench registry --local -w 100 -d 5       a registry inside one process";

pub(super) const SERVE_MONGO: &str = "\
Examples:
  ringway serve mongo-responder --cores 0
  ringway serve mongo-responder --delay 30ms    as over a line with this round trip

It parses each command and keeps nothing. One command in 10,000 fails. When it ends, it prints how \
many it has answered, how busy it was, and how many it could answer at the most.";

pub(super) const BENCH_MONGO: &str = "\
Examples:
  ringway bench mongo                           all operations, at 10 and 100 at a time
  ringway bench mongo --op ping,find_one -c 1,10,100
  ringway bench mongo --op find_one -c 10 --peers               beside MongoDB's own driver
  ringway bench mongo --op ping -c 100 --delay 30ms             over a long line
  ringway bench mongo --mode pipeline --batch-size 64 -c 1      many commands on one connection
  ringway bench mongo --sync -c 1 --peers                       threads that block
  ringway bench mongo --op find_one --fanout 8 -c 10            eight reads at a time by each task
  ringway bench mongo --host db.internal --total 5000           a run of so many operations
  ringway bench mongo --uri mongodb://127.0.0.1 --op find_one   a server that keeps documents";

pub(super) const SERVE_REGISTRY: &str = "\
Examples:
  ringway serve registry
  ringway serve registry --data /var/lib/registry
  ringway serve registry --listen tcp://0.0.0.0:2379 --cores 0
  ringway serve registry --listen tcp://0.0.0.0:2379 --advertise-client-urls http://10.0.0.1:2379
  etcdctl put market/10.0.0.1 serving              a client of etcd, on the same machine";

pub(super) const REGISTRY: &str = "\
Examples:
  ringway registry ls                                   all services at 127.0.0.1:2379
  ringway registry ls market --at 10.0.0.1:2379,10.0.0.2:2379
  ringway registry watch market
  ringway registry put market tcp://10.0.0.1:9000 --weight 3 --zone eu-1
  ringway registry drain market tcp://10.0.0.1:9000     before its machine is taken away
  ringway registry rm market tcp://10.0.0.1:9000";
