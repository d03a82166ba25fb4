package workload

import (
	"testing"

	"github.com/keystrand/keystrand/internal/history"
)

func TestTheSumOfABodyIsThatOfTheJudge(t *testing.T) {
	t.Parallel()
	p := NewBodies(1024, 7)
	body, sum := p.Body(1234)
	changed := append([]byte(nil), body...)
	changed[1000]++
	for name, b := range map[string][]byte{"of the pool": body, "one byte changed": changed, "empty": nil, "short": {1, 2}} {
		if got, want := p.Sum(b), history.Sum(b); got != want {
			t.Errorf("%s: %x, want %x", name, got, want)
		}
	}
	if sum != history.Sum(body) {
		t.Errorf("the pool's sum %x, want %x", sum, history.Sum(body))
	}
}

func TestASourceCountsEachKeyOnItsOwn(t *testing.T) {
	t.Parallel()
	s := Source{Topic: "t", Bodies: NewBodies(16, 1), Keys: Keys(3, 1), Number: 2}
	next := map[string]uint32{}
	for i := range 10 {
		m, r := s.Next()
		next[m.MessageGroup]++
		if m.MessageGroup != s.Keys[i%3] {
			t.Fatalf("message %d has key %s, want %s", i, m.MessageGroup, s.Keys[i%3])
		}
		if want := (history.ID{Producer: 2, Counter: next[m.MessageGroup]}); r.ID != want || m.Properties[history.PropertyID] != want.String() {
			t.Fatalf("key %s: id %v, property %q, want %v", m.MessageGroup, r.ID, m.Properties[history.PropertyID], want)
		}
	}
}
