// Package workload makes the messages of the benchmarks: bodies from a pool, keys in turn from a shuffled start.
package workload

import (
	"bytes"
	"math/rand/v2"
	"strconv"
	"strings"

	"github.com/keystrand/keystrand"
	"github.com/keystrand/keystrand/internal/history"
)

// poolBodies is how many different bodies there are; half of each body's bytes repeat, so that it compresses to about half.
const poolBodies = 1000

// Bodies is the pool. The bodies are read only.
type Bodies struct {
	bodies [][]byte
	sums   []uint64
	byHead map[[8]byte]int // by the first bytes, which are random
}

// NewBodies makes the pool for bodies of size bytes.
func NewBodies(size int, seed uint64) *Bodies {
	rng := rand.New(rand.NewPCG(seed, 1))
	p := &Bodies{bodies: make([][]byte, poolBodies), sums: make([]uint64, poolBodies), byHead: make(map[[8]byte]int, poolBodies)}
	for i := range p.bodies {
		body := make([]byte, size)
		for j := range body[:size/2] {
			body[j] = byte(rng.Uint32())
		}
		for j := range body[size/2:] {
			body[size/2+j] = byte(i)
		}
		p.bodies[i], p.sums[i] = body, history.Sum(body)
		p.byHead[headOf(body)] = i
	}
	return p
}

func headOf(body []byte) (head [8]byte) {
	copy(head[:], body)
	return head
}

// Sum is history.Sum, without adding up what is byte for byte a body of the pool: that takes a tenth of the time.
func (p *Bodies) Sum(body []byte) uint64 {
	if i, ok := p.byHead[headOf(body)]; ok && bytes.Equal(body, p.bodies[i]) {
		return p.sums[i]
	}
	return history.Sum(body)
}

// Body is the n-th body, the pool over and over, with its sum.
func (p *Bodies) Body(n int) ([]byte, uint64) { return p.bodies[n%poolBodies], p.sums[n%poolBodies] }

// Keys names k message groups in a shuffled order.
func Keys(k int, seed uint64) []string {
	keys := make([]string, k)
	for i := range keys {
		keys[i] = "key-" + strconv.Itoa(i)
	}
	rand.New(rand.NewPCG(seed, 2)).Shuffle(k, func(i, j int) { keys[i], keys[j] = keys[j], keys[i] })
	return keys
}

// KeyNumber is the number in a name that Keys made; 0 for any other.
func KeyNumber(key string) int {
	n, err := strconv.Atoi(strings.TrimPrefix(key, "key-"))
	if err != nil {
		return 0
	}
	return n
}

// Source makes the messages of one producer, key after key.
type Source struct {
	Topic  string
	Bodies *Bodies
	Keys   []string
	Number uint32 // of the producer, in the ids of the history; from 1
	made   int
}

// Next is the next message and its description for the history.
func (s *Source) Next() (keystrand.Message, history.Message) {
	i := s.made
	s.made++
	key := s.Keys[i%len(s.Keys)]
	id := history.ID{Producer: s.Number, Counter: uint32(i/len(s.Keys)) + 1}
	body, sum := s.Bodies.Body(i)
	return keystrand.Message{Topic: s.Topic, MessageGroup: key, Body: body, Properties: map[string]string{history.PropertyID: id.String()}},
		history.Message{Topic: s.Topic, Key: key, ID: id, Sum: sum}
}
