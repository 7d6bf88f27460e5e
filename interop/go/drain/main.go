// Calls servers without a pause while somebody restarts them; no call may fail.
//
// The arguments are the servers' addresses. A line on standard input waits for that many further
// calls and is answered with a line. At the end of standard input the calls end: the status is 0
// if all were answered, and their number is the last line.
package main

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"log"
	"os"
	"strconv"
	"sync"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	testpb "google.golang.org/grpc/interop/grpc_testing"
	"google.golang.org/grpc/resolver"
	"google.golang.org/grpc/resolver/manual"
)

const (
	callers    = 40
	bodyBytes  = 100
	callLimit  = 60 * time.Second
	roundRobin = `{"loadBalancingConfig": [{"round_robin": {}}]}`
)

func main() {
	channel := connect(os.Args[1:])
	defer channel.Close()
	load := &load{client: testpb.NewTestServiceClient(channel)}
	load.changed.L = &load.mutex
	var running sync.WaitGroup
	for range callers {
		running.Go(load.callAllTheTime)
	}
	lines := bufio.NewScanner(os.Stdin)
	for lines.Scan() {
		more, err := strconv.Atoi(lines.Text())
		if err != nil {
			log.Fatalf("no number of calls: %v", err)
		}
		load.wait(more)
		fmt.Println("done")
	}
	load.stop()
	running.Wait()
	if load.failed != nil {
		log.Fatalf("after %d calls: %v", load.done, load.failed)
	}
	fmt.Println(load.done)
}

// connect makes a channel that takes turns between the addresses.
func connect(addresses []string) *grpc.ClientConn {
	var state resolver.State
	for _, address := range addresses {
		state.Addresses = append(state.Addresses, resolver.Address{Addr: address})
	}
	resolver := manual.NewBuilderWithScheme("servers")
	resolver.InitialState(state)
	channel, err := grpc.NewClient("servers:///all",
		grpc.WithResolvers(resolver),
		grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithDefaultServiceConfig(roundRobin),
		// Nothing is repeated but what was certainly not executed.
		grpc.WithDisableRetry(),
		grpc.WithDefaultCallOptions(grpc.WaitForReady(true)))
	if err != nil {
		log.Fatalf("no channel: %v", err)
	}
	return channel
}

// load is the state that all callers share.
type load struct {
	client  testpb.TestServiceClient
	mutex   sync.Mutex
	changed sync.Cond
	done    int
	stops   bool
	failed  error
}

func (load *load) callAllTheTime() {
	body := bytes.Repeat([]byte{7}, bodyBytes)
	for load.goesOn() {
		load.ended(load.call(body))
	}
}

func (load *load) call(body []byte) error {
	ctx, cancel := context.WithTimeout(context.Background(), callLimit)
	defer cancel()
	reply, err := load.client.UnaryCall(ctx, &testpb.SimpleRequest{
		ResponseSize: bodyBytes,
		Payload:      &testpb.Payload{Body: body},
	})
	if err == nil && len(reply.GetPayload().GetBody()) != bodyBytes {
		return fmt.Errorf("%d bytes came back", len(reply.GetPayload().GetBody()))
	}
	return err
}

func (load *load) goesOn() bool {
	load.mutex.Lock()
	defer load.mutex.Unlock()
	return !load.stops && load.failed == nil
}

func (load *load) ended(err error) {
	load.mutex.Lock()
	defer load.mutex.Unlock()
	if err == nil {
		load.done++
	} else if load.failed == nil {
		load.failed = err
	}
	load.changed.Broadcast()
}

// wait returns when so many more calls have been answered, or one has failed.
func (load *load) wait(more int) {
	load.mutex.Lock()
	defer load.mutex.Unlock()
	for enough := load.done + more; load.done < enough && load.failed == nil; {
		load.changed.Wait()
	}
}

func (load *load) stop() {
	load.mutex.Lock()
	defer load.mutex.Unlock()
	load.stops = true
}
