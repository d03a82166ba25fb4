package vfs

import (
	"errors"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestFaultRulesPrintAsTheyParse(t *testing.T) {
	t.Parallel()
	for _, text := range []string{
		"sync *.seg 2 EIO", "write durable 3+ ENOSPC", "write *.seg 4-6 short", "write *.seg 1 short:EIO", "syncdir * * nothing",
		"read *.seg 1 flip", "sync *.seg 1 hold", "write * p0.01/7 EROFS",
	} {
		rules, err := ParseRules(text)
		if err != nil || len(rules) != 1 {
			t.Fatalf("%q: got %v, %v", text, rules, err)
		}
		if got := rules[0].String(); got != text {
			t.Errorf("got %q, want %q", got, text)
		}
	}
	two, err := ParseRules("sync a 1 EIO; sync b 2 EIO\nwrite c * short")
	if err != nil || len(two) != 3 {
		t.Errorf("got %v, %v, want three rules", two, err)
	}
}

func TestBadFaultRulesAreRefused(t *testing.T) {
	t.Parallel()
	for _, text := range []string{"sync a", "jump a 1 EIO", "sync [ 1 EIO", "sync a 0 EIO", "sync a 3-2 EIO", "sync a p2/1 EIO", "sync a x EIO", "sync a 1 EWHAT"} {
		if rules, err := ParseRules(text); err == nil {
			t.Errorf("%q: got %v, want an error", text, rules)
		}
	}
}

func TestFaultsStrikeAsTheRuleSaysAndAreCounted(t *testing.T) {
	t.Parallel()
	c := NewCrashFS()
	f := NewFaults(c, MustParseRules("write a 2 EIO; write a 3 short; write a 4 short:ENOSPC; write a 5 nothing; read a 2 flip; create b * EMFILE"))
	file := mustCreate(t, f, "a")
	mustWrite(t, file, []byte("0000"), 0)
	if n, err := file.WriteAt([]byte("1111"), 0); n != 0 || !errors.Is(err, syscall.EIO) {
		t.Errorf("got %d, %v, want EIO", n, err)
	}
	if n, err := file.WriteAt([]byte("2222"), 0); n != 2 || err != nil {
		t.Errorf("got %d, %v, want a short write", n, err)
	}
	if n, err := file.WriteAt([]byte("3333"), 0); n != 2 || !errors.Is(err, syscall.ENOSPC) {
		t.Errorf("got %d, %v, want a short write with ENOSPC", n, err)
	}
	if n, err := file.WriteAt([]byte("4444"), 0); n != 4 || err != nil {
		t.Errorf("got %d, %v, want a success", n, err)
	}
	b := make([]byte, 4)
	for i, want := range []string{"3300", "3310", "3300"} {
		if _, err := file.ReadAt(b, 0); err != nil || string(b) != want {
			t.Errorf("read %d: got %q, %v, want %q", i, b, err, want)
		}
	}
	if _, err := f.Create("b"); !errors.Is(err, syscall.EMFILE) {
		t.Errorf("got %v, want EMFILE", err)
	}
	if diff := cmp.Diff(f.Struck(), []int64{1, 1, 1, 1, 1, 1}); diff != "" {
		t.Errorf("strikes (-got +want):\n%s", diff)
	}
}
