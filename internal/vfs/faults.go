package vfs

import (
	"fmt"
	"io/fs"
	"math/rand/v2"
	"path"
	"sync"
)

// Faults wraps a file system and makes operations fail by rule. The rules parse from and print as text, so a failing run
// is repeated by one line; Struck proves that they fired.
type Faults struct {
	inner FS

	mu    sync.Mutex // guards the fields below
	rules []Rule
	calls []int64 // per rule: operations that matched operation and path
	hits  []int64 // per rule: how often it struck
	rand  []*rand.Rand
	held  chan struct{}
}

var _ FS = (*Faults)(nil)

// NewFaults wraps inner.
func NewFaults(inner FS, rules []Rule) *Faults {
	f := &Faults{inner: inner, held: make(chan struct{})}
	f.SetRules(rules)
	return f
}

// SetRules replaces the rules; counts begin at zero.
func (f *Faults) SetRules(rules []Rule) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.rules = rules
	f.calls, f.hits = make([]int64, len(rules)), make([]int64, len(rules))
	f.rand = make([]*rand.Rand, len(rules))
	for i, r := range rules {
		f.rand[i] = rand.New(rand.NewPCG(r.Seed, uint64(i)))
	}
}

// Struck is how often each rule struck, in their order.
func (f *Faults) Struck() []int64 {
	f.mu.Lock()
	defer f.mu.Unlock()
	return append([]int64(nil), f.hits...)
}

// Release lets go on everything that a rule with effect hold stopped, now and later.
func (f *Faults) Release() {
	f.mu.Lock()
	defer f.mu.Unlock()
	select {
	case <-f.held:
	default:
		close(f.held)
	}
}

// strike returns the effect of the first rule that strikes now, or none.
func (f *Faults) strike(op, name string) Effect {
	f.mu.Lock()
	var effect Effect
	for i, r := range f.rules {
		if r.Op != op || !r.matches(name) {
			continue
		}
		f.calls[i]++
		if effect == (Effect{}) && r.strikes(f.calls[i], f.rand[i]) {
			f.hits[i]++
			effect = r.Effect
		}
	}
	held := f.held
	f.mu.Unlock()
	if effect.Hold {
		<-held
	}
	return effect
}

func (e Effect) error(op, name string) error {
	if e.Errno == 0 {
		return nil
	}
	return &fs.PathError{Op: op, Path: name, Err: e.Errno}
}

// simple runs an operation that can only fail or be left out.
func (f *Faults) simple(op, name string, do func() error) error {
	e := f.strike(op, name)
	if e.Errno != 0 || e.Nothing {
		return e.error(op, name)
	}
	return do()
}

// Create implements FS.
func (f *Faults) Create(name string) (File, error) { return f.open("create", name, f.inner.Create) }

// Open implements FS.
func (f *Faults) Open(name string) (File, error) { return f.open("open", name, f.inner.Open) }

func (f *Faults) open(op, name string, do func(string) (File, error)) (File, error) {
	if err := f.strike(op, name).error(op, name); err != nil {
		return nil, err
	}
	file, err := do(name)
	if err != nil {
		return nil, err
	}
	return &faultFile{f, file, name}, nil
}

// Remove implements FS.
func (f *Faults) Remove(name string) error {
	return f.simple("remove", name, func() error { return f.inner.Remove(name) })
}

// Rename implements FS; the rule's path is the new name.
func (f *Faults) Rename(from, to string) error {
	return f.simple("rename", to, func() error { return f.inner.Rename(from, to) })
}

// MkdirAll implements FS.
func (f *Faults) MkdirAll(name string) error {
	return f.simple("mkdir", name, func() error { return f.inner.MkdirAll(name) })
}

// List implements FS.
func (f *Faults) List(name string) ([]string, error) {
	if err := f.strike("list", name).error("list", name); err != nil {
		return nil, err
	}
	return f.inner.List(name)
}

// Stat implements FS.
func (f *Faults) Stat(name string) (fs.FileInfo, error) {
	if err := f.strike("stat", name).error("stat", name); err != nil {
		return nil, err
	}
	return f.inner.Stat(name)
}

// SyncDir implements FS.
func (f *Faults) SyncDir(name string) error {
	return f.simple("syncdir", name, func() error { return f.inner.SyncDir(name) })
}

// Lock implements FS.
func (f *Faults) Lock(name string) (Unlocker, error) {
	if err := f.strike("lock", name).error("lock", name); err != nil {
		return nil, err
	}
	return f.inner.Lock(name)
}

// Free implements FS.
func (f *Faults) Free(name string) (int64, error) {
	e := f.strike("free", name)
	if err := e.error("free", name); err != nil || e.Nothing {
		return 0, err
	}
	return f.inner.Free(name)
}

type faultFile struct {
	f     *Faults
	inner File
	name  string
}

// ReadAt with effect flip answers with the lowest bit of the middle byte changed.
func (f *faultFile) ReadAt(p []byte, off int64) (int, error) {
	e := f.f.strike("read", f.name)
	if err := e.error("read", f.name); err != nil {
		return 0, err
	}
	n, err := f.inner.ReadAt(p, off)
	if e.Flip && n > 0 {
		p[n/2] ^= 1
	}
	return n, err
}

// WriteAt with effect short writes the first half only.
func (f *faultFile) WriteAt(p []byte, off int64) (int, error) {
	e := f.f.strike("write", f.name)
	if e.Nothing {
		return len(p), nil
	}
	if e.Short {
		n, err := f.inner.WriteAt(p[:len(p)/2], off)
		if err == nil {
			err = e.error("write", f.name)
		}
		return n, err
	}
	if err := e.error("write", f.name); err != nil {
		return 0, err
	}
	if e.Flip && len(p) > 0 {
		changed := append([]byte(nil), p...)
		changed[len(p)/2] ^= 1
		return f.inner.WriteAt(changed, off)
	}
	return f.inner.WriteAt(p, off)
}

// Sync that fails leaves the file as a real system does: its pages clean and its data lost.
func (f *faultFile) Sync() error {
	e := f.f.strike("sync", f.name)
	if err := e.error("sync", f.name); err != nil {
		if loser, ok := f.inner.(interface{ LoseUnsynced() }); ok {
			loser.LoseUnsynced()
		}
		return err
	}
	if e.Nothing {
		return nil
	}
	return f.inner.Sync()
}

func (f *faultFile) Truncate(size int64) error {
	return f.f.simple("truncate", f.name, func() error { return f.inner.Truncate(size) })
}

func (f *faultFile) Size() (int64, error) {
	if err := f.f.strike("stat", f.name).error("stat", f.name); err != nil {
		return 0, err
	}
	return f.inner.Size()
}

func (f *faultFile) Close() error { return f.inner.Close() }

// LoseUnsynced passes on, for a Faults around a Faults.
func (f *faultFile) LoseUnsynced() {
	if loser, ok := f.inner.(interface{ LoseUnsynced() }); ok {
		loser.LoseUnsynced()
	}
}

// matches compares the pattern with the whole path, or with its last part when the pattern has no slash.
func (r Rule) matches(name string) bool {
	if ok, _ := path.Match(r.Path, name); ok {
		return true
	}
	ok, _ := path.Match(r.Path, path.Base(name))
	return ok
}

func (r Rule) strikes(call int64, random *rand.Rand) bool {
	if r.Chance > 0 {
		return random.Float64() < r.Chance
	}
	return call >= r.First && call <= r.Last
}

func (r Rule) String() string {
	return fmt.Sprintf("%s %s %s %s", r.Op, r.Path, r.when(), r.Effect)
}
