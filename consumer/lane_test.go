package consumer

import (
	"fmt"
	"testing"

	"pgregory.net/rapid"

	"github.com/keystrand/keystrand"
)

// The lanes against a plain list per group: each group in its order, one at a time, never more than the workers, and
// nothing stuck.
func TestAnyHistoryRunsEachGroupInOrderOneAtATime(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		workers := rapid.IntRange(1, 4).Draw(t, "workers")
		s := newLanes(workers)
		want := map[string][]*item{}
		runs := map[string]*item{}
		var out []*item
		added := 0
		start := func() {
			for i := s.next(); i != nil; i = s.next() {
				g := i.delivery.MessageGroup
				if runs[g] != nil || want[g][0] != i {
					t.Fatalf("group %s: started %s out of turn", g, i.delivery.ID)
				}
				runs[g], want[g] = i, want[g][1:]
				out = append(out, i)
			}
			if len(out) > workers {
				t.Fatalf("%d run on %d workers", len(out), workers)
			}
		}
		finish := func(n int) {
			i := out[n]
			out = append(out[:n:n], out[n+1:]...)
			delete(runs, i.delivery.MessageGroup)
			s.done(i)
		}
		t.Repeat(map[string]func(*rapid.T){
			"add": func(t *rapid.T) {
				g := rapid.SampledFrom([]string{"a", "b", "c", "d", "e"}).Draw(t, "group")
				added++
				i := &item{delivery: keystrand.Delivery{Message: keystrand.Message{MessageGroup: g, ID: fmt.Sprint(added)}}}
				s.add(i)
				want[g] = append(want[g], i)
			},
			"start": func(*rapid.T) { start() },
			"finish": func(t *rapid.T) {
				if len(out) > 0 {
					finish(rapid.IntRange(0, len(out)-1).Draw(t, "which"))
				}
			},
			"drop": func(t *rapid.T) {
				g := rapid.SampledFrom([]string{"a", "b", "c", "d", "e"}).Draw(t, "group")
				if n := len(want[g]); n > 0 {
					k := rapid.IntRange(0, n-1).Draw(t, "which")
					s.drop(want[g][k])
					want[g] = append(want[g][:k:k], want[g][k+1:]...)
				}
			},
		})
		for range added + 1 {
			start()
			if len(out) == 0 {
				break
			}
			finish(0)
		}
		for g, left := range want {
			if len(left) > 0 {
				t.Fatalf("group %s: %d items are stuck", g, len(left))
			}
		}
		if s.count != 0 || s.running != 0 || len(s.byGroup) != 0 || s.ready.len() != 0 {
			t.Fatalf("left over: %+v", s)
		}
	})
}

func TestDeliveriesWithoutAGroupRunAtTheSameTime(t *testing.T) {
	t.Parallel()
	s := newLanes(10)
	for range 3 {
		s.add(&item{})
	}
	for range 3 {
		if s.next() == nil {
			t.Fatal("one waits for another")
		}
	}
}

func TestReadyLanesTakeTurns(t *testing.T) { // K08
	t.Parallel()
	s := newLanes(1)
	add := func(g string) {
		s.add(&item{delivery: keystrand.Delivery{Message: keystrand.Message{MessageGroup: g}}})
	}
	for range 3 {
		add("hot")
	}
	add("cold")
	text := ""
	for i := s.next(); i != nil; i = s.next() {
		text += i.delivery.MessageGroup + " "
		s.done(i)
	}
	if text != "hot cold hot hot " {
		t.Errorf("got %s", text)
	}
}

func TestScheduleKeepsItsLinks(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		s := schedule{line: byRenewal}
		var model []*item
		t.Repeat(map[string]func(*rapid.T){
			"push": func(*rapid.T) {
				i := &item{}
				s.push(i)
				model = append(model, i)
			},
			"remove": func(t *rapid.T) {
				if len(model) > 0 {
					k := rapid.IntRange(0, len(model)-1).Draw(t, "which")
					s.remove(model[k])
					s.remove(model[k]) // twice is harmless
					model = append(model[:k:k], model[k+1:]...)
				}
			},
			"": func(t *rapid.T) {
				i := s.head
				for k, want := range model {
					if i != want {
						t.Fatalf("place %d holds another item", k)
					}
					i = i.links[byRenewal].next
				}
				if i != nil || (len(model) > 0 && s.tail != model[len(model)-1]) || (len(model) == 0 && s.tail != nil) {
					t.Fatal("the list does not end where it should")
				}
			},
		})
	})
}
