package store

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strings"
	"sync"

	"github.com/keystrand/keystrand"
	"github.com/keystrand/keystrand/internal/task"
	"github.com/keystrand/keystrand/internal/vfs"
)

const entriesName = "entries"

// checkedEntries is how many of the last entries Open checks; older ones are checked when they are read.
const checkedEntries = 1 << 20

// OpenIndex opens the index of one topic, in a directory of its own under dir. Entries beyond the last checkpoint are
// not there: the owner replays the log from CheckpointPosition. An index that is damaged is emptied; Rebuilt tells why.
func OpenIndex(disk vfs.FS, dir string, topicID uint32) (*Index, error) {
	return openIndex(disk, dir, topicID, defaultIndexLimits)
}

func openIndex(disk vfs.FS, dir string, topicID uint32, limits indexLimits) (*Index, error) {
	x := &Index{
		limits: limits,
		disk:   disk, dir: fmt.Sprintf("%s/%08x", dir, topicID), topic: topicID, queues: map[int32]queueTail{},
		// The index's goroutines live from OpenIndex to Close, not as long as any call.
		tasks: task.NewGroup(context.Background()),
	}
	x.flushed = sync.NewCond(&x.mu)
	x.table = table{disk: disk, dir: x.dir, topic: topicID, mem: newMemTable()}
	if err := disk.MkdirAll(x.dir); err != nil {
		return nil, fmt.Errorf("open the index of topic %d: %w", topicID, err)
	}
	why := x.load()
	if why != nil && !isDamage(why) {
		return nil, errors.Join(fmt.Errorf("open the index of topic %d: %w", topicID, why), x.closeFiles())
	}
	if why != nil {
		if !errors.Is(why, errNoManifest) {
			x.rebuilt = why.Error()
		}
		if err := x.empty(); err != nil {
			return nil, fmt.Errorf("empty the index of topic %d, which is damaged (%w): %w", topicID, why, err)
		}
	}
	return x, nil
}

// Rebuilt tells why Open found the index damaged and emptied it, or is empty.
func (x *Index) Rebuilt() string { return x.rebuilt }

var errNoManifest = errors.New("there is no checkpoint")

func isDamage(err error) bool {
	for _, known := range []error{errNoManifest, errManifest, errRun, errEntry, keystrand.ErrCorrupt, fs.ErrNotExist} {
		if errors.Is(err, known) {
			return true
		}
	}
	return false
}

// load takes up what the manifest names.
func (x *Index) load() error {
	b, err := readFile(x.disk, x.dir+"/"+manifestName, 1<<30)
	if errors.Is(err, fs.ErrNotExist) {
		return errNoManifest
	}
	if err != nil {
		return err
	}
	m, err := decodeManifest(b, x.topic)
	if err != nil {
		return err
	}
	file, err := x.disk.Open(x.dir + "/" + entriesName)
	if err != nil {
		return err
	}
	x.pages = newPages(file, (m.count+pageEntries-1)/pageEntries, x.limits.pages)
	if err := x.checkEntries(m); err != nil {
		return err
	}
	for _, id := range m.runs {
		if err := x.loadRun(id); err != nil {
			return fmt.Errorf("%s: %w", runName(id), err)
		}
	}
	for _, p := range m.pairs {
		x.table.mem.put(p)
	}
	x.key, x.count, x.last, x.queues, x.table.nextID = m.key, m.count, m.last, m.queues, m.nextID
	x.putBelow = m.count - 1
	x.onDisk = *m
	x.onDisk.queues = nil
	return x.removeOthers(m.runs)
}

func (x *Index) loadRun(id uint64) error {
	file, err := x.disk.Open(x.dir + "/" + runName(id))
	if err != nil {
		return err
	}
	r, err := openRun(file, x.topic, id)
	if err != nil {
		return closeAfter(file, err)
	}
	x.table.runs = append(x.table.runs, r)
	return nil
}

// checkEntries reads the last entries below the manifest's count.
func (x *Index) checkEntries(m *manifest) error {
	size, err := x.pages.file.Size()
	if err != nil {
		return err
	}
	if size < x.pages.count*pageBytes {
		return fmt.Errorf("the file %s has %d bytes, %d entries need %d: %w", entriesName, size, m.count, x.pages.count*pageBytes, keystrand.ErrCorrupt)
	}
	first := max(m.count-checkedEntries, 0) / pageEntries
	buf := make([]byte, windowBytes)
	var last Position
	for page := first; page < x.pages.count; {
		n := min(int64(len(buf)/pageBytes), x.pages.count-page)
		if err := readFull(x.pages.file, buf[:n*pageBytes], page*pageBytes); err != nil {
			return err
		}
		for i := range min(n*pageEntries, m.count-page*pageEntries) {
			number := page*pageEntries + i
			e, err := getEntry(buf[i*entryBytes:], x.topic, number)
			if err != nil || e.Position <= last {
				return fmt.Errorf("entry %d: %w", number, errEntry)
			}
			last = e.Position
		}
		page += n
	}
	if last != m.last {
		return fmt.Errorf("the last entry is of position %v, the manifest says %v: %w", last, m.last, keystrand.ErrCorrupt)
	}
	return nil
}

// removeOthers removes the files that no manifest names: of work that a crash cut short.
func (x *Index) removeOthers(runs []uint64) error {
	names, err := x.disk.List(x.dir)
	if err != nil {
		return err
	}
	others := slices.DeleteFunc(names, func(name string) bool {
		kept := slices.ContainsFunc(runs, func(id uint64) bool { return name == runName(id) })
		return kept || !strings.HasSuffix(name, runExt) && !strings.HasSuffix(name, ".tmp")
	})
	if len(others) == 0 {
		return nil
	}
	// The manifest that is seen need not be durable yet: the one before it may need these runs.
	if err := x.disk.SyncDir(x.dir); err != nil {
		return err
	}
	for _, name := range others {
		if err := x.disk.Remove(x.dir + "/" + name); err != nil {
			return err
		}
	}
	return nil
}

// empty begins again with nothing, under a new key for the ids. The old manifest goes first: what it names must not be
// believed beside new entries.
func (x *Index) empty() error {
	if err := x.closeFiles(); err != nil {
		return err
	}
	if err := x.disk.Remove(x.dir + "/" + manifestName); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if err := x.disk.SyncDir(x.dir); err != nil {
		return err
	}
	if err := x.removeOthers(nil); err != nil {
		return err
	}
	var random [16]byte
	if _, err := rand.Read(random[:]); err != nil {
		return err
	}
	file, err := x.disk.Create(x.dir + "/" + entriesName)
	if err != nil {
		return err
	}
	x.pages = newPages(file, 0, x.limits.pages)
	x.table.runs, x.table.mem = nil, newMemTable()
	x.key = [2]uint64{leUint64(random[:]), leUint64(random[8:])}
	x.count, x.last, x.queues, x.putBelow = 0, 0, map[int32]queueTail{}, 0
	return nil
}

func (x *Index) closeFiles() error {
	var err error
	if x.pages != nil {
		err = x.pages.file.Close()
		x.pages = nil
	}
	for _, r := range x.table.runs {
		err = errors.Join(err, r.file.Close())
	}
	x.table.runs = nil
	return err
}

// Close makes a checkpoint, unless the index is damaged, and closes the files. It is safe twice.
func (x *Index) Close() error { return x.close(true) }

// Abandon closes the files without a checkpoint: what was appended since the last one is replayed at the next start.
func (x *Index) Abandon() error { return x.close(false) }

func (x *Index) close(checkpoint bool) error {
	x.mu.Lock()
	closed := x.closed
	bad := x.bad
	x.mu.Unlock()
	if closed {
		return nil
	}
	var err error
	if checkpoint && bad == nil {
		_, err = x.Checkpoint()
	}
	x.mu.Lock()
	x.closed = true
	x.mu.Unlock()
	err = errors.Join(err, x.tasks.Stop())
	x.upkeep.Lock()
	defer x.upkeep.Unlock()
	x.mu.Lock()
	defer x.mu.Unlock()
	return errors.Join(err, x.closeFiles())
}

// Remove deletes the index's files; the topic is gone. Nothing may be called after it.
func (x *Index) Remove() error {
	err := x.Abandon()
	names, e := x.disk.List(x.dir)
	err = errors.Join(err, e)
	for _, name := range names {
		err = errors.Join(err, x.disk.Remove(x.dir+"/"+name))
	}
	err = errors.Join(err, x.disk.SyncDir(x.dir), x.disk.Remove(x.dir))
	if err != nil {
		return fmt.Errorf("remove the index of topic %d: %w", x.topic, err)
	}
	return nil
}
