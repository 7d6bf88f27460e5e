package main

import (
	"bytes"
	"fmt"
	"net"
	"net/rpc"
	"net/rpc/jsonrpc"
	"os"
	"sync"
	"sync/atomic"
	"syscall"
	"time"
)

// Time for replies after the last request was sent.
const drainMax = 5 * time.Second

// What all callers of a run share.
type tally struct {
	// Whether a call is followed by the next.
	issuing atomic.Bool
	// Whether replies are counted.
	recording atomic.Bool
	// When they began to be. What is called from then on is timed, be its reply in the drain.
	began   time.Time
	lock    sync.Mutex
	result  result
	running int
}

// Connects all, and then has `depth` callers on each connection make one call after the other.
func call(load load) (result, error) {
	network, at, err := place(load.address)
	if err != nil {
		return result{}, err
	}
	clients := make([]*rpc.Client, load.connections)
	for i := range clients {
		connection, err := net.Dial(network, at)
		if err != nil {
			return result{}, err
		}
		clients[i] = jsonrpc.NewClient(connection)
	}
	callers := load.connections * load.depth
	tally := &tally{running: callers}
	tally.issuing.Store(true)
	messages := newMessages(load.messageBytes)
	var group sync.WaitGroup
	group.Add(callers)
	for connection, client := range clients {
		for slot := 0; slot < load.depth; slot++ {
			go func() {
				defer group.Done()
				tally.callInTurn(client, messages, uint32(connection), uint64(slot), uint64(load.depth))
			}()
		}
	}
	allEnded := make(chan struct{})
	go func() {
		group.Wait()
		close(allEnded)
	}()
	return tally.phases(load, allEnded), nil
}

// Warms up, measures and drains. Calls that have no reply then are errors.
func (it *tally) phases(load load, allEnded <-chan struct{}) result {
	tell := func(phase string) {
		if load.tellsPhases {
			fmt.Println(phase)
		}
	}
	wait(load.warmup, allEnded)
	tell("measuring")
	cpuBefore, begin := cpuTime(), time.Now()
	it.begin(begin)
	wait(load.duration, allEnded)
	elapsed, cpu := time.Since(begin), cpuTime()-cpuBefore
	it.recording.Store(false)
	tell("measured")
	it.issuing.Store(false)
	wait(drainMax, allEnded)

	it.lock.Lock()
	defer it.lock.Unlock()
	it.result.errors += uint64(it.running)
	it.result.messageBytes, it.result.elapsed, it.result.cpu = load.messageBytes, elapsed, cpu
	return it.result
}

// Waits for the time, or for the end of all callers if that comes first.
func wait(span time.Duration, allEnded <-chan struct{}) {
	select {
	case <-time.After(span):
	case <-allEnded:
	}
}

func (it *tally) callInTurn(client *rpc.Client, messages messages, connection uint32, sequence, step uint64) {
	defer it.ended()
	message, reply := make([]byte, messages.size), []byte(nil)
	for begun := time.Now(); it.issuing.Load(); sequence += step {
		messages.fill(message, connection, sequence)
		reply = reply[:0]
		err := client.Call("Echo.Say", message, &reply)
		now := time.Now()
		if err != nil {
			it.failed(err)
			return
		}
		it.replied(bytes.Equal(message, reply), begun, now)
		begun = now
	}
}

func (it *tally) ended() {
	it.lock.Lock()
	defer it.lock.Unlock()
	it.running--
}

func (it *tally) begin(now time.Time) {
	it.lock.Lock()
	defer it.lock.Unlock()
	it.began = now
	it.recording.Store(true)
}

func (it *tally) replied(isIntact bool, begun, now time.Time) {
	it.lock.Lock()
	defer it.lock.Unlock()
	if !isIntact {
		it.result.mismatches++
		return
	}
	if it.recording.Load() {
		it.result.messages++
	}
	if !it.began.IsZero() && !begun.Before(it.began) {
		it.result.latencies.record(now.Sub(begun))
	}
}

// The first failure is told, since the result has numbers only.
func (it *tally) failed(err error) {
	it.lock.Lock()
	defer it.lock.Unlock()
	if it.result.errors == 0 {
		fmt.Fprintln(os.Stderr, "ringway-peers-go:", err)
	}
	it.result.errors++
}

// Returns the user and system time of this process.
func cpuTime() time.Duration {
	var usage syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &usage); err != nil {
		return 0
	}
	return time.Duration(usage.Utime.Nano() + usage.Stime.Nano())
}
