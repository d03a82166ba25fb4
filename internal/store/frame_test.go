package store

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/keystrand/keystrand"
	"github.com/keystrand/keystrand/internal/vfs"
	"pgregory.net/rapid"
)

// A record decodes to what was encoded, at its place, with its seed, and nowhere else.
func TestARecordIsOneOnlyAtItsPlaceAndOfItsBroker(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		want := frame{
			kind: Kind(rapid.IntRange(1, 255).Draw(t, "kind")), more: rapid.Bool().Draw(t, "more"), epoch: rapid.Uint32().Draw(t, "epoch"),
			place: Position(rapid.Uint64Range(1, 1<<60).Draw(t, "place")), durable: Position(rapid.Uint64().Draw(t, "durable")),
			body: rapid.SliceOfN(rapid.Byte(), 0, 300).Draw(t, "body"),
		}
		seed := rapid.Uint32().Draw(t, "seed")
		b := appendFrame(nil, seed, &want)
		if int64(len(b)) != want.bytes() || len(b)%8 != 0 {
			t.Fatalf("got %d bytes, want %d", len(b), want.bytes())
		}
		got, err := decodeFrame(b, seed, want.place)
		if err != nil || got.kind != want.kind || got.more != want.more || got.epoch != want.epoch || got.durable != want.durable || !bytes.Equal(got.body, want.body) {
			t.Fatalf("got %+v, %v, want %+v", got, err, want)
		}
		if _, err := decodeFrame(b, seed, want.place+8); !errors.Is(err, errWrongPlace) {
			t.Fatalf("at another place: got %v, want errWrongPlace", err)
		}
		if _, err := decodeFrame(b, seed+1, want.place); !errors.Is(err, errWrongSum) {
			t.Fatalf("of another broker: got %v, want errWrongSum", err)
		}
		bit := rapid.IntRange(0, (frameHeaderBytes+len(want.body))*8-1).Draw(t, "bit")
		b[bit/8] ^= 1 << (bit % 8)
		if _, err := decodeFrame(b, seed, want.place); err == nil {
			t.Fatalf("bit %d flipped: got a record", bit)
		}
	})
}

// The bytes on disk are fixed: this file was written by format version 1.
func TestTheRecordFormatIsTheGoldenOne(t *testing.T) {
	t.Parallel()
	got := appendFrame(nil, 0x01020304, &frame{kind: 1, more: true, epoch: 7, place: at(3, 4096), durable: at(2, 9000), body: []byte("hello strand")})
	path := filepath.Join("testdata", "record.golden")
	want, err := os.ReadFile(path)
	must(t, err)
	if !bytes.Equal(got, want) {
		t.Errorf("got\n%x, want\n%x", got, want)
	}
}

func FuzzDecodeRecord(f *testing.F) {
	const seed = 7
	place := at(1, segmentStart)
	f.Add(appendFrame(nil, seed, &frame{kind: 1, epoch: 1, place: place, body: []byte("body")}))
	f.Add(appendFrame(nil, seed, &frame{kind: 255, more: true, epoch: 1 << 31, place: place, durable: place}))
	f.Add(make([]byte, frameHeaderBytes))
	f.Add([]byte{})
	f.Fuzz(func(t *testing.T, b []byte) {
		got, err := decodeFrame(b, seed, place)
		if err != nil {
			if !isBadPlace(err) {
				t.Fatalf("got %v, want one of the reasons recovery knows", err)
			}
			return
		}
		again := appendFrame(nil, seed, &got)
		if n := frameHeaderBytes + len(got.body); !bytes.Equal(again[:29], b[:29]) || !bytes.Equal(again[32:n], b[32:n]) {
			t.Fatalf("got %x back, want %x", again, b)
		}
	})
}

// Whatever bytes stand in a segment, Open gives a log or a reason, never a panic; and a log it gives can be used.
func FuzzRecovery(f *testing.F) {
	disk := vfs.NewCrashFS()
	o := Options{FirstSegmentBytes: 8192}
	l, err := Open(disk, "d", o)
	if err != nil {
		f.Fatal(err)
	}
	var s script
	for range 3 {
		if err := s.append(l, true); err != nil {
			f.Fatal(err)
		}
	}
	valid, err := readFile(disk, segmentPath(1), 1<<20)
	if err != nil {
		f.Fatal(err)
	}
	if err := l.Close(); err != nil {
		f.Fatal(err)
	}
	base := disk.Crash(1, 1)
	f.Add(uint16(0), valid[segmentStart:6000])
	f.Add(uint16(200), []byte{0, 1, 2, 3})
	f.Fuzz(func(t *testing.T, off uint16, b []byte) {
		image := base.Crash(1, 1)
		must(t, image.Remove("d/"+markName))
		damage(t, image, segmentPath(1), func(all []byte) []byte {
			copy(all[min(segmentStart+int(off), len(all)):], b)
			return all
		})
		l, err := Open(image, "d", o)
		if err != nil {
			if !errors.Is(err, keystrand.ErrCorrupt) {
				t.Fatalf("got %v, want ErrCorrupt", err)
			}
			return
		}
		before := replayAll(t, l, 0)
		_, end, err := l.Append(one, true)
		must(t, err)
		must(t, l.WaitDurable(t.Context(), end))
		if got := replayAll(t, l, 0); len(got) != len(before)+1 {
			t.Fatalf("got %d records, want %d", len(got), len(before)+1)
		}
		closeLog(t, l)
	})
}
