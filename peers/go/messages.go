package main

import "encoding/binary"

// Messages are made as in ringway-peers (message.rs): a header with sequence (u64), connection (u32) and length
// (u32), little endian, and a window into one pattern at an offset that depends on the request.
const (
	headerBytes    = 16
	bodyOffsets    = 512
	bodyOffsetStep = 8
)

type messages struct {
	size    int
	pattern []byte
}

func newMessages(size int) messages {
	return messages{size, pseudoRandom(max(size-headerBytes, 0) + bodyOffsets*bodyOffsetStep)}
}

// Writes a request over `message`; one shorter than a header is the front of it.
func (it messages) fill(message []byte, connection uint32, sequence uint64) {
	var header [headerBytes]byte
	binary.LittleEndian.PutUint64(header[:], sequence)
	binary.LittleEndian.PutUint32(header[8:], connection)
	binary.LittleEndian.PutUint32(header[12:], uint32(it.size))
	body := message[copy(message, header[:]):]
	offset := (sequence*17 + uint64(connection)*131) % bodyOffsets * bodyOffsetStep
	copy(body, it.pattern[offset:])
}

// Returns the xorshift64* sequence from a fixed seed: the same bytes in each run.
func pseudoRandom(length int) []byte {
	state, random := uint64(0x9E3779B97F4A7C15), make([]byte, length)
	for i := range random {
		state ^= state >> 12
		state ^= state << 25
		state ^= state >> 27
		random[i] = byte(state * 0x2545F4914F6CDD1D >> 56)
	}
	return random
}
