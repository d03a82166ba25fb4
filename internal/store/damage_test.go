package store

import (
	"encoding/binary"
	"errors"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/keystrand/keystrand"
	"github.com/keystrand/keystrand/internal/vfs"
)

// stopped makes a log of n durable batches in one segment and returns the disk as a killed process leaves it.
func stopped(t *testing.T, n int) (*vfs.CrashFS, *script) {
	t.Helper()
	disk := vfs.NewCrashFS()
	l := openLog(t, disk, "d", Options{FirstSegmentBytes: 1 << 16})
	s := &script{}
	s.run(t, l, n, true)
	image := disk.Crash(1, 1)
	closeLog(t, l)
	return image, s
}

// refused opens a damaged log and checks that it is refused as corrupt, naming the place, and that nothing was changed.
func refused(t *testing.T, disk *vfs.CrashFS, place string) {
	t.Helper()
	before := disk.Crash(1, 1)
	l, err := Open(disk, "d", small)
	if err == nil {
		records := replayAll(t, l, 0)
		closeLog(t, l)
		t.Fatalf("got a log of %d records, want a refusal at %s", len(records), place)
	}
	if !errors.Is(err, keystrand.ErrCorrupt) || !strings.Contains(err.Error(), place) {
		t.Fatalf("got %v, want ErrCorrupt at %s", err, place)
	}
	if !strings.Contains(err.Error(), "restore") {
		t.Errorf("got %v, want it to say what to do", err)
	}
	if !before.Equal(disk) {
		t.Error("a refused log was changed")
	}
}

// withoutMark removes the durable mark, so that only the records themselves tell what was durable.
func withoutMark(t *testing.T, disk *vfs.CrashFS) {
	t.Helper()
	must(t, disk.Remove("d/"+markName))
	must(t, disk.SyncDir("d"))
}

// D11, D12, D13, D14: damage inside a record that was answered is refused at the next start, whether it is told by a later record
// or, for the last one, by the mark file.
func TestDamageBelowTheDurableMarkIsRefusedAtTheNextStart(t *testing.T) {
	t.Parallel()
	for name, hurt := range map[string]func(b []byte, at, other int){
		"D11 a bit of the body":            func(b []byte, at, _ int) { b[at+frameHeaderBytes+3] ^= 4 },
		"D12 a bit of the length":          func(b []byte, at, _ int) { b[at+4] ^= 0x10 },
		"D12 the top bit of the length":    func(b []byte, at, _ int) { b[at+7] ^= 0x80 },
		"D12 a bit of the check sum":       func(b []byte, at, _ int) { b[at] ^= 1 },
		"D12 a bit of the place":           func(b []byte, at, _ int) { b[at+8] ^= 8 },
		"D12 a bit of the epoch":           func(b []byte, at, _ int) { b[at+24] ^= 2 },
		"D12 a bit of the kind":            func(b []byte, at, _ int) { b[at+28] ^= 1 },
		"D12 the flag of the batch":        func(b []byte, at, _ int) { b[at+29] ^= flagMore },
		"D12 the format version":           func(b []byte, at, _ int) { b[at+30] = 9 },
		"D13 a block of zeros":             func(b []byte, at, _ int) { clear(b[at&^511 : at&^511+512]) },
		"D13 zeros from the record's head": func(b []byte, at, _ int) { clear(b[at : at+frameHeaderBytes]) },
		"D14 a record of another place":    func(b []byte, at, other int) { copy(b[at:at+64], b[other:other+64]) },
	} {
		for _, last := range []bool{false, true} {
			t.Run(name+map[bool]string{false: ", in the middle", true: ", in the last record"}[last], func(t *testing.T) {
				t.Parallel()
				disk, s := stopped(t, 12)
				hit := 6
				if last {
					hit = 11
				} else {
					withoutMark(t, disk)
				}
				at := s.places[hit]
				damage(t, disk, segmentPath(1), func(b []byte) []byte {
					hurt(b, int(at.offset()), int(s.places[2].offset()))
					return b
				})
				refused(t, disk, "log segment 1 offset ")
			})
		}
	}
}

// I17 over any place: one flipped bit anywhere in what was durable is refused or, where it does not matter (padding, the
// mark file's own bytes), changes nothing that is read.
func TestAnyFlippedBitIsRefusedOrHarmless(t *testing.T) {
	t.Parallel()
	disk, s := stopped(t, 12)
	end := int(s.places[11].offset()) + 400
	random := rand.New(rand.NewPCG(11, 12))
	refusals := 0
	for range 400 {
		hurt := disk.Crash(1, 1)
		bit := random.IntN(end * 8)
		damage(t, hurt, segmentPath(1), func(b []byte) []byte { b[bit/8] ^= 1 << (bit % 8); return b })
		l, err := Open(hurt, "d", small)
		if err != nil {
			if !errors.Is(err, keystrand.ErrCorrupt) && !errors.Is(err, keystrand.ErrRejected) {
				t.Fatalf("bit %d: %v", bit, err)
			}
			refusals++
			continue
		}
		if n, err := checkPrefix(replayAll(t, l, 0), 12, s.batches); err != nil {
			t.Fatalf("bit %d: %d batches: %v", bit, n, err)
		}
		closeLog(t, l)
	}
	if refusals < 100 {
		t.Errorf("got %d refusals of 400, want most of the flips in records to be seen", refusals)
	}
}

// D11 live: a reader of a running log gets an error with the place, never other bytes.
func TestDamageUnderARunningLogIsSeenByItsReader(t *testing.T) {
	t.Parallel()
	disk := vfs.NewCrashFS()
	l := openLog(t, disk, "d", Options{FirstSegmentBytes: 1 << 16})
	defer closeLog(t, l)
	var s script
	s.run(t, l, 5, true)
	f, err := disk.Open(segmentPath(1))
	must(t, err)
	_, err = writeFull(f, []byte{0xff}, s.places[2].offset()+frameHeaderBytes+1)
	must(t, err)
	if _, err := l.Read(s.places[2], 100); !errors.Is(err, keystrand.ErrCorrupt) || !strings.Contains(err.Error(), s.places[2].where()) {
		t.Errorf("got %v, want ErrCorrupt with the place", err)
	}
	if r, err := l.Read(s.places[3], 100); err != nil || text(r) != s.batches[3][0] {
		t.Errorf("got %v, want the others to be read on", err)
	}
	if err := l.Replay(0, func(Position, Record) error { return nil }); !errors.Is(err, keystrand.ErrCorrupt) {
		t.Errorf("got %v, want the replay to stop at the damage", err)
	}
}

// D20: the disk cannot read; that is an error of the disk, not a corrupt record.
func TestAReadErrorReachesTheReaderAndIsNotCalledCorrupt(t *testing.T) {
	t.Parallel()
	faults := vfs.NewFaults(vfs.NewCrashFS(), nil)
	l := openLog(t, faults, "d", small)
	defer closeLog(t, l)
	var s script
	s.run(t, l, 2, true)
	faults.SetRules(vfs.MustParseRules("read *.seg* 1 EIO"))
	if _, err := l.Read(s.places[0], 0); err == nil || errors.Is(err, keystrand.ErrCorrupt) {
		t.Errorf("got %v, want the disk's error", err)
	}
	if _, err := l.Read(s.places[0], 0); err != nil {
		t.Error(err)
	}
	if faults.Struck()[0] != 1 {
		t.Error("the fault did not strike")
	}
}

// rolled makes a log over several segments and stops it cleanly.
func rolled(t *testing.T) (*vfs.CrashFS, *script) {
	t.Helper()
	disk := vfs.NewCrashFS()
	l := openLog(t, disk, "d", small)
	s := &script{}
	s.run(t, l, 60, true)
	if l.Appended().segment() < 4 {
		t.Fatalf("got to %v, want four segments", l.Appended())
	}
	closeLog(t, l)
	return disk.Crash(0, 1), s
}

// D21, D19: a missing segment is refused, wherever it is; so is a directory without any, or without its meta file.
func TestAMissingFileIsRefused(t *testing.T) {
	t.Parallel()
	whole, _ := rolled(t)
	names, err := whole.List("d")
	must(t, err)
	last := ""
	for _, name := range names {
		if id, ok := parseSegmentName(name); ok && !emptySegment(t, whole, id) {
			last = name
		}
	}
	for _, name := range append(names, "all segments") {
		disk := whole.Crash(0, 1)
		for _, n := range names {
			if n == name || name == "all segments" && strings.HasSuffix(n, segmentExt) || name == last && n > last && strings.HasSuffix(n, segmentExt) {
				must(t, disk.Remove("d/"+n))
			}
		}
		must(t, disk.SyncDir("d"))
		switch id, isSegment := parseSegmentName(name); {
		case name == "lock", name == markName, isSegment && emptySegment(t, whole, id):
			l := openLog(t, disk, "d", small) // these are made again
			closeLog(t, l)
		case isSegment:
			refused(t, disk, segmentName(id))
		case name == "meta":
			refused(t, disk, "meta")
		default:
			refused(t, disk, "no segment")
		}
	}
}

func emptySegment(t *testing.T, disk vfs.FS, id uint32) bool {
	t.Helper()
	b, err := readFile(disk, segmentPath(id), 1<<20)
	must(t, err)
	return allZero(b[segmentStart:])
}

// A segment file that is cut, swapped with another, of another broker, or damaged in its header is refused.
func TestADamagedSegmentFileIsRefused(t *testing.T) {
	t.Parallel()
	for name, hurt := range map[string]func(b []byte) []byte{
		"cut":                 func(b []byte) []byte { return b[:len(b)-100] },
		"cut in the header":   func(b []byte) []byte { return b[:20] },
		"empty":               func([]byte) []byte { return nil },
		"longer":              func(b []byte) []byte { return append(b, 1) },
		"magic":               func(b []byte) []byte { b[0] ^= 1; return b },
		"another segment":     func(b []byte) []byte { return reheaded(b, 9, [8]byte(b[24:32])) },
		"another broker":      func(b []byte) []byte { return reheaded(b, 2, [8]byte{1}) },
		"header check sum":    func(b []byte) []byte { b[33] ^= 1; return b },
		"header block zeroed": func(b []byte) []byte { clear(b[:512]); return b },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			disk, _ := rolled(t)
			damage(t, disk, segmentPath(2), hurt)
			refused(t, disk, "log segment 2")
		})
	}
}

func reheaded(b []byte, id uint32, broker [8]byte) []byte {
	copy(b, encodeSegmentHeader(id, int64(binary.LittleEndian.Uint64(b[16:])), broker))
	return b
}

// D22: the newest segment is replaced by an older copy of itself.
func TestAnOlderCopyOfASegmentIsRefused(t *testing.T) {
	t.Parallel()
	disk := vfs.NewCrashFS()
	l := openLog(t, disk, "d", Options{FirstSegmentBytes: 1 << 16})
	var s script
	s.run(t, l, 3, true)
	old, err := readFile(disk, segmentPath(1), 1<<20)
	must(t, err)
	s.run(t, l, 3, true)
	image := disk.Crash(1, 1)
	closeLog(t, l)
	damage(t, image, segmentPath(1), func([]byte) []byte { return old })
	refused(t, image, "log segment 1 offset")
}

// D18: the meta file holds the broker's identity; a wrong byte in it is not taken for another identity.
func TestADamagedMetaFileIsRefused(t *testing.T) {
	t.Parallel()
	disk, _ := stopped(t, 1)
	size := 0
	damage(t, disk.Crash(1, 1), "d/meta", func(b []byte) []byte { size = len(b); return b })
	for i := range size + 1 {
		hurt := disk.Crash(1, 1)
		damage(t, hurt, "d/meta", func(b []byte) []byte {
			if i == size {
				return nil
			}
			b[i] ^= 1
			return b
		})
		refused(t, hurt, "meta")
	}
}

// A wrong mark file is no reason to refuse a whole log, and it never moves the mark upwards.
func TestADamagedMarkFileIsPassedOver(t *testing.T) {
	t.Parallel()
	disk, s := stopped(t, 5)
	for name, hurt := range map[string]func(b []byte) []byte{
		"zeros":     func(b []byte) []byte { clear(b); return b },
		"empty":     func([]byte) []byte { return nil },
		"bit":       func(b []byte) []byte { b[17] ^= 0x40; return b },
		"other bit": func(b []byte) []byte { b[markSlotStep+17] ^= 0x40; return b },
	} {
		t.Run(name, func(t *testing.T) {
			hurt1 := disk.Crash(1, 1)
			damage(t, hurt1, "d/"+markName, hurt)
			if got := afterCrash(t, hurt1, 5, s.batches); got != 5 {
				t.Errorf("got %d batches, want 5", got)
			}
		})
	}
}
