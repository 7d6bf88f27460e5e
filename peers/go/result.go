package main

import (
	"encoding/json"
	"math/bits"
	"time"
)

// What a client has measured.
type result struct {
	messageBytes       int
	messages           uint64
	latencies          histogram
	elapsed, cpu       time.Duration
	errors, mismatches uint64
}

// Returns the object that ringway-peers prints.
func (it *result) json() string {
	messages := float64(it.messages)
	rate := ratio(messages, it.elapsed.Seconds())
	fields := map[string]any{
		"rate":                 rate,
		"messages":             it.messages,
		"seconds":              it.elapsed.Seconds(),
		"goodput_mib_s":        rate * float64(it.messageBytes) / (1 << 20),
		"p50_us":               it.latencies.percentile(.5),
		"p90_us":               it.latencies.percentile(.9),
		"p99_us":               it.latencies.percentile(.99),
		"p999_us":              it.latencies.percentile(.999),
		"max_us":               it.latencies.longest(),
		"errors":               it.errors,
		"mismatches":           it.mismatches,
		"client_cpu_us_per_op": nil,
	}
	if it.messages > 0 {
		fields["client_cpu_us_per_op"] = ratio(float64(it.cpu.Nanoseconds())/1e3, messages)
	}
	text, err := json.Marshal(fields)
	if err != nil {
		panic(err) // all are numbers
	}
	return string(text)
}

// Latencies in nanoseconds: exact below 2,048, and in 1,024 steps between two powers of two above.
type histogram struct {
	counts [(stepBits+1)<<stepBits + (maxBits-stepBits-1)<<stepBits]uint32
	count  uint64
	max    uint64
}

const (
	stepBits = 10
	// 68 s; longer ones count as this.
	maxBits = 36
	// Samples above a percentile that is told.
	samplesAboveMin = 10
)

func (it *histogram) record(latency time.Duration) {
	ns := min(uint64(max(latency, 0)), 1<<maxBits-1)
	it.counts[slot(ns)]++
	it.count++
	it.max = max(it.max, ns)
}

func slot(ns uint64) int {
	shift := max(bits.Len64(ns)-stepBits-1, 0)
	return shift<<stepBits + int(ns>>shift)
}

// Returns the microseconds that a share of all latencies does not exceed, or nil if too few samples are above.
func (it *histogram) percentile(share float64) any {
	if float64(it.count)*(1-share) < samplesAboveMin {
		return nil
	}
	due := uint64(share * float64(it.count))
	for slot, seen := 0, uint64(0); slot < len(it.counts); slot++ {
		seen += uint64(it.counts[slot])
		if seen > due {
			return float64(upperEdge(slot)) / 1e3
		}
	}
	return it.longest()
}

func upperEdge(slot int) uint64 {
	shift := max(slot>>stepBits-1, 0)
	return uint64(slot-shift<<stepBits+1)<<shift - 1
}

func (it *histogram) longest() any {
	if it.count == 0 {
		return nil
	}
	return float64(it.max) / 1e3
}

func ratio(numerator, denominator float64) float64 {
	if denominator <= 0 {
		return 0
	}
	return numerator / denominator
}
