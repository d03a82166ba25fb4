package state

import (
	"encoding/hex"
	"errors"
	"flag"
	"fmt"
	"os"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/keystrand/keystrand"
)

var update = flag.Bool("update", false, "write golden files anew")

// samples has one record of each kind with every field set.
func samples() []Record {
	message := Message{
		Topic: 3, Queue: 5, Offset: 1 << 40, Entry: 7, StoredMs: 1_700_000_000_123, BornMs: 1_700_000_000_001, GroupHash: 0xfeedfacecafebeef,
		TagHash: TagHash("Paid"), ID: "4B01", Group: "order-1001", Tag: "Paid", Keys: []string{"k1", "k2"},
		Props: map[string]string{"b": "2", "a": "1"}, BornHost: "10.0.0.1:5000", Body: []byte("body"),
	}
	spec, _ := CompleteGroup(keystrand.GroupSpec{Name: "g", Ordered: true})
	return []Record{
		&message,
		&Boot{Epoch: 9, WallMs: 1_700_000_000_000, Clean: true},
		&Topic{ID: 3, Name: "orders", Type: keystrand.TopicFIFO, Queues: 8},
		&Group{ID: 7, Spec: spec},
		&Subscribe{Group: 7, Topic: 3, Expression: "a || b", Start: 11, Cursor: 12},
		&Grant{Group: 7, Topic: 3, Strand: 1 << 60, Entry: 300, Count: 1, Attempt: 2, LeaseMs: 30_000, Token: 9<<40 | 17, ClientID: "c1", AutoRenew: true},
		&Finish{Group: 7, Topic: 3, Strand: 1 << 60, Entry: 300, Token: 9<<40 | 17, Reason: "skip"},
		&Fail{Group: 7, Topic: 3, Strand: 1 << 60, Entry: 300, Token: 9<<40 | 17, Attempt: 2, DelayMs: 2000, Reason: "boom"},
		&Park{Group: 7, Topic: 3, Strand: 1 << 60, Entry: 300, Reason: "boom"},
		&Resume{Group: 7, Topic: 3, Strand: 1 << 60, Entry: 300},
		&DeadLetter{Group: 7, Topic: 3, Strand: 1 << 60, Entry: 300, Token: 9<<40 | 17, Attempt: 16, Reason: "boom", Copy: message},
		&Lease{Group: 7, Topic: 3, Strand: 1 << 60, Entry: 300, Token: 9<<40 | 17, LeaseMs: 60_000},
		&Release{Group: 7, Topic: 3, Strand: 1 << 60, Entry: 300, Token: 9<<40 | 17, Counted: true},
	}
}

// TestRecordBytesStayAsTheyAre holds the format against testdata/records.golden: a change there is a change of the format
// on disk and needs a new version byte.
func TestRecordBytesStayAsTheyAre(t *testing.T) {
	t.Parallel()
	var b strings.Builder
	for _, r := range samples() {
		fmt.Fprintf(&b, "%d %T\n%s", r.Kind(), r, hex.Dump(Encode(nil, r)))
	}
	const file = "testdata/records.golden"
	if *update {
		if err := os.WriteFile(file, []byte(b.String()), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(b.String(), string(want)); diff != "" {
		t.Errorf("got (-), want (+):\n%s", diff)
	}
}

func TestEveryKindComesBackAsItWas(t *testing.T) {
	t.Parallel()
	kinds := map[Kind]bool{}
	for _, r := range samples() {
		kinds[r.Kind()] = true
		back, err := Decode(r.Kind(), Encode([]byte("before"), r)[6:])
		if err != nil {
			t.Fatalf("%T: %v", r, err)
		}
		if diff := cmp.Diff(back, r); diff != "" {
			t.Errorf("%T: got (-), want (+):\n%s", r, diff)
		}
	}
	for k := KindMessage; k <= KindRelease; k++ {
		if !kinds[k] {
			t.Errorf("kind %d has no sample", k)
		}
	}
}

func TestRandomRecordsComeBackAsTheyWere(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		r := drawRecord(t)
		body := Encode(nil, r)
		back, err := Decode(r.Kind(), body)
		if err != nil {
			t.Fatalf("%+v: %v", r, err)
		}
		if diff := cmp.Diff(back, r); diff != "" {
			t.Fatalf("got (-), want (+):\n%s", diff)
		}
		if n := rapid.IntRange(0, len(body)-1).Draw(t, "cut"); n < len(body) {
			if got, err := Decode(r.Kind(), body[:n]); err == nil {
				t.Fatalf("%d of %d bytes were read as %+v", n, len(body), got)
			}
		}
	})
}

func drawRecord(t *rapid.T) Record {
	text := rapid.String()
	message := func() Message {
		m := Message{
			Topic: TopicID(rapid.Uint32().Draw(t, "topic")), Queue: rapid.Int32().Draw(t, "queue"), Offset: rapid.Int64().Draw(t, "offset"),
			Entry: rapid.Int64().Draw(t, "entry"), GroupHash: rapid.Uint64().Draw(t, "hash"), ID: text.Draw(t, "id"), Group: text.Draw(t, "group"),
			Tag: text.Draw(t, "tag"), BornHost: text.Draw(t, "host"),
		}
		if keys := rapid.SliceOfN(text, 0, 3).Draw(t, "keys"); len(keys) > 0 {
			m.Keys = keys
		}
		if props := rapid.MapOfN(text, text, 0, 3).Draw(t, "props"); len(props) > 0 {
			m.Props = props
		}
		if body := rapid.SliceOfN(rapid.Byte(), 0, 20).Draw(t, "body"); len(body) > 0 {
			m.Body = body
		}
		return m
	}
	g, tp, key := GroupID(rapid.Uint32().Draw(t, "g")), TopicID(rapid.Uint32().Draw(t, "t")), StrandKey(rapid.Uint64().Draw(t, "strand"))
	entry, token, number := rapid.Int64().Draw(t, "entry"), rapid.Uint64().Draw(t, "token"), rapid.Int32().Draw(t, "number")
	switch rapid.IntRange(0, 7).Draw(t, "kind") {
	case 0:
		m := message()
		return &m
	case 1:
		return &DeadLetter{Group: g, Topic: tp, Strand: key, Entry: entry, Token: token, Attempt: number, Reason: text.Draw(t, "reason"), Copy: message()}
	case 2:
		return &Grant{Group: g, Topic: tp, Strand: key, Entry: entry, Token: token, Count: number, Attempt: number, LeaseMs: entry, ClientID: text.Draw(t, "client"), AutoRenew: rapid.Bool().Draw(t, "auto")}
	case 3:
		return &Fail{Group: g, Topic: tp, Strand: key, Entry: entry, Token: token, Attempt: number, DelayMs: entry, Reason: text.Draw(t, "reason")}
	case 4:
		return &Release{Group: g, Topic: tp, Strand: key, Entry: entry, Token: token, Counted: rapid.Bool().Draw(t, "counted")}
	case 5:
		return &Subscribe{Group: g, Topic: tp, Expression: text.Draw(t, "filter"), Start: entry, Cursor: int64(number)}
	case 6:
		return &Group{ID: g, Spec: keystrand.GroupSpec{Name: text.Draw(t, "name"), MaxAttempts: int(number), BackOffMax: time.Duration(entry)}}
	default:
		return &Boot{Epoch: uint32(token), WallMs: entry, Clean: rapid.Bool().Draw(t, "clean")}
	}
}

func TestDamagedBodiesAreRefused(t *testing.T) {
	t.Parallel()
	grant := Encode(nil, samples()[5])
	with := func(at int, v byte) []byte {
		b := append([]byte(nil), grant...)
		b[at] = v
		return b
	}
	for name, c := range map[string]struct {
		kind Kind
		body []byte
	}{
		"empty":                   {KindGrant, nil},
		"later version":           {KindGrant, with(0, 2)},
		"unknown kind":            {99, grant},
		"kind zero":               {0, grant},
		"bytes left over":         {KindGrant, append(append([]byte(nil), grant...), 0)},
		"varint longer than need": {KindGrant, append([]byte{1, 0x87, 0x00}, grant[2:]...)},
		"flag of 2":               {KindRelease, append(Encode(nil, &Release{})[:len(Encode(nil, &Release{}))-1], 2)},
		"text over the end":       {KindPark, append(Encode(nil, &Park{})[:len(Encode(nil, &Park{}))-1], 0xff, 0xff, 0xff, 0xff, 0x0f)},
		"properties out of order": {KindMessage, swapProps(t)},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got, err := Decode(c.kind, c.body)
			if !errors.Is(err, keystrand.ErrCorrupt) {
				t.Errorf("got %+v, %v, want ErrCorrupt", got, err)
			}
		})
	}
}

// swapProps is a message whose two properties stand in the wrong order.
func swapProps(t *testing.T) []byte {
	body := string(Encode(nil, &Message{Props: map[string]string{"a": "1", "b": "2"}}))
	const right, wrong = "\x01a\x011\x01b\x012", "\x01b\x012\x01a\x011"
	if !strings.Contains(body, right) {
		t.Fatal("the layout has changed")
	}
	return []byte(strings.Replace(body, right, wrong, 1))
}

func TestLengthsAreCheckedBeforeMemoryIsTaken(t *testing.T) {
	// Not parallel: it measures.
	huge := []byte{0xff, 0xff, 0xff, 0xff, 0x7f} // about 34 billion
	head := Encode(nil, &Message{})[:messageHead]
	bodies := map[string][]byte{
		"keys":  append(append([]byte(nil), head...), append([]byte{0, 0, 0, 0}, huge...)...),
		"props": append(append([]byte(nil), head...), append([]byte{0, 0, 0, 0, 0}, huge...)...),
		"body":  append(append([]byte(nil), head...), append([]byte{0, 0, 0, 0, 0, 0}, huge...)...),
	}
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	for name, body := range bodies {
		if _, err := Decode(KindMessage, body); !errors.Is(err, keystrand.ErrCorrupt) {
			t.Errorf("%s: %v, want ErrCorrupt", name, err)
		}
	}
	runtime.ReadMemStats(&after)
	if n := after.TotalAlloc - before.TotalAlloc; n > 1<<20 {
		t.Errorf("%d bytes were allocated", n)
	}
}

func TestPatchedPlacesAreReadBack(t *testing.T) {
	t.Parallel()
	m := samples()[0].(*Message)
	body := Encode(nil, m)
	PatchMessage(body, 2, 33, 44, 55)
	want := *m
	want.Queue, want.Offset, want.Entry, want.StoredMs = 2, 33, 44, 55
	got, err := DecodeMessage(KindMessage, body)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(got, want); diff != "" {
		t.Errorf("got (-), want (+):\n%s", diff)
	}
}

func TestMessageOfADeadLetterIsItsCopy(t *testing.T) {
	t.Parallel()
	d := samples()[10].(*DeadLetter)
	body := Encode(nil, d)
	got, err := DecodeMessage(KindDeadLetter, body)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(got, d.Copy); diff != "" {
		t.Errorf("got (-), want (+):\n%s", diff)
	}
	place, err := DecodePlace(KindDeadLetter, body)
	if err != nil || place.ID != d.Copy.ID || place.GroupHash != d.Copy.GroupHash || place.Body != nil {
		t.Errorf("place is %+v, %v", place, err)
	}
	if _, err := DecodeMessage(KindGrant, Encode(nil, samples()[5])); !errors.Is(err, keystrand.ErrCorrupt) {
		t.Errorf("message of a grant: %v, want ErrCorrupt", err)
	}
}

func FuzzDecodeRecord(f *testing.F) {
	for _, r := range samples() {
		f.Add(uint8(r.Kind()), Encode(nil, r))
	}
	f.Fuzz(func(t *testing.T, kind uint8, body []byte) {
		r, err := Decode(Kind(kind), body)
		if err != nil {
			if !errors.Is(err, keystrand.ErrCorrupt) {
				t.Fatalf("%v is not ErrCorrupt", err)
			}
			return
		}
		if diff := cmp.Diff(Encode(nil, r), body); diff != "" {
			t.Fatalf("encoded again (-) and read (+):\n%s", diff)
		}
	})
}

func BenchmarkEncodeGrant(b *testing.B) {
	r := samples()[5]
	buf := make([]byte, 0, 128)
	b.ReportAllocs()
	for b.Loop() {
		buf = Encode(buf[:0], r)
	}
	b.ReportMetric(float64(len(buf)), "bytes")
}
