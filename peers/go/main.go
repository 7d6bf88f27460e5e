// The JSON-RPC of Go's standard library (net/rpc and net/rpc/jsonrpc), server and client, to measure Ringway
// against. Flags, messages and output are those of ringway-peers.
//
//	go build -o ringway-peers-go .
//	./ringway-peers-go serve go-rpc --listen tcp://127.0.0.1:7001 --core 0
//	./ringway-peers-go client rpc --peer go-rpc --addr tcp://127.0.0.1:7001 -c 100 -l 4 -s 47 -d 2 --core 1
package main

import (
	"flag"
	"fmt"
	"os"
	"strings"
	"time"
)

const peerName = "go-rpc"

func main() {
	code, err := run(os.Args[1:])
	if err != nil {
		fmt.Fprintln(os.Stderr, "ringway-peers-go:", err)
	}
	os.Exit(code)
}

// Returns the status of the process: 1 after errors or mismatches, 2 if nothing could begin.
func run(words []string) (int, error) {
	switch {
	case begins(words, "serve", peerName):
		return runServer(words[2:])
	case begins(words, "client", "rpc"):
		return runClient(words[2:])
	}
	return 2, fmt.Errorf("usage: serve go-rpc --listen ADDRESS, or client rpc --addr ADDRESS [options]")
}

func runServer(words []string) (int, error) {
	flags := flag.NewFlagSet("serve go-rpc", flag.ContinueOnError)
	listen := flags.String("listen", "tcp://127.0.0.1:0", "tcp://IP:PORT or unix://PATH")
	core := flags.Int("core", -1, "run on this core only")
	if err := flags.Parse(words); err != nil {
		return 2, err
	}
	if err := pin(*core); err != nil {
		return 2, err
	}
	if err := serve(*listen); err != nil {
		return 2, err
	}
	return 0, nil
}

func runClient(words []string) (int, error) {
	load, err := parseLoad(words)
	if err != nil {
		return 2, err
	}
	if err := pin(load.core); err != nil {
		return 2, err
	}
	result, err := call(load)
	if err != nil {
		return 2, err
	}
	fmt.Println(result.json())
	if result.errors+result.mismatches > 0 {
		return 1, nil
	}
	return 0, nil
}

// The options of a client.
type load struct {
	address      string
	connections  int
	depth        int
	messageBytes int
	duration     time.Duration
	warmup       time.Duration
	core         int
	tellsPhases  bool
}

// Bounds of a client's load, the same as in ringway-peers.
const (
	connectionsMax  = 28_000
	depthMax        = 16 << 10
	messageBytesMax = 16 << 20
	secondsMax      = 3600
)

func parseLoad(words []string) (load, error) {
	var it load
	var seconds, warmup float64
	flags := flag.NewFlagSet("client rpc", flag.ContinueOnError)
	peer := flags.String("peer", peerName, "what the server speaks")
	method := flags.String("m", "unary", "the kind of call")
	flags.StringVar(&it.address, "addr", "", "the server to measure")
	flags.IntVar(&it.connections, "c", 1, "connections")
	flags.IntVar(&it.depth, "l", 1, "calls in flight on each connection")
	flags.IntVar(&it.messageBytes, "s", 16<<10, "bytes of a message")
	flags.Float64Var(&seconds, "d", 5, "measured seconds")
	flags.Float64Var(&warmup, "warmup", .5, "seconds before the measurement")
	flags.IntVar(&it.core, "core", -1, "run on this core only")
	flags.BoolVar(&it.tellsPhases, "phases", false, "print `measuring` and `measured`")
	if err := flags.Parse(words); err != nil {
		return it, err
	}
	for _, bounded := range []struct {
		name       string
		value, max int
	}{{"-c", it.connections, connectionsMax}, {"-l", it.depth, depthMax}, {"-s", it.messageBytes, messageBytesMax}} {
		if bounded.value < 1 || bounded.value > bounded.max {
			return it, fmt.Errorf("%s must be 1 to %d, not %d", bounded.name, bounded.max, bounded.value)
		}
	}
	for _, span := range []float64{seconds, warmup} {
		if !(span >= 0 && span <= secondsMax) {
			return it, fmt.Errorf("a time must be 0 to %d seconds, not %v", secondsMax, span)
		}
	}
	if *peer != peerName || *method != "unary" {
		return it, fmt.Errorf("this program makes unary calls of %s alone", peerName)
	}
	if flags.NArg() > 0 || it.address == "" {
		return it, fmt.Errorf("a client needs --addr, and no other words")
	}
	it.duration = time.Duration(seconds * float64(time.Second))
	it.warmup = time.Duration(warmup * float64(time.Second))
	return it, nil
}

func begins(words []string, first, second string) bool {
	return len(words) >= 2 && words[0] == first && words[1] == second
}

// Returns network and address of tcp://IP:PORT or unix://PATH.
func place(address string) (string, string, error) {
	network, at, found := strings.Cut(address, "://")
	if !found || network != "tcp" && network != "unix" || at == "" {
		return "", "", fmt.Errorf("%q is no address: tcp://IP:PORT or unix://PATH", address)
	}
	return network, at, nil
}
