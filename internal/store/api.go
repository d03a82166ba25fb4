// Package store is the one log and what is derived from it for finding messages: segments, append, group commit,
// recovery, and per topic the index with its group chain. It does not know who reads it, nor what its records mean.
package store

import "time"

// Position is the byte place of a record in the log: segment id << 32 | offset in the segment. It grows along the log.
// The first record stands above 0, so 0 means "none" or "before everything".
type Position uint64

// Kind tells records apart; the meaning belongs to package state. 0 is never a record.
type Kind uint8

// Record is one entry of the log.
type Record struct {
	Kind Kind
	Body []byte
}

// Options of a log; zero values mean the defaults.
type Options struct {
	// FirstSegmentBytes is the size of segment 1; default 1 MiB (a broker starts in milliseconds). The next ones are twice
	// as large each, up to SegmentBytes; default 64 MiB. A batch larger than a segment gets a segment of its own size.
	FirstSegmentBytes, SegmentBytes int64
	// SyncInterval 0 is `sync: always`: visible = durable. Above 0: visible = appended, and at most that much is lost on power loss.
	SyncInterval time.Duration
	// FreeFloorBytes: below it Append answers ErrNoSpace for batches that are not Reserved; default 64 MiB.
	FreeFloorBytes int64
	// OnDurable is called by the flusher after each successful sync with the new durable mark. It must not block.
	OnDurable func(Position)
	// OnFailed is called once, when a write or sync failed and the log became read-only. It must not block.
	OnFailed func(error)
	// SkipSync is for the tests that show that a build without fsync is caught. Never set in production.
	SkipSync bool
}

// Entry is one message in a topic's index, fixed size on disk. Its number is its place in the topic's order, from 0.
//
// Invariant: Prev < number; Next and QueueNext are NoEntry or > number; entry Next has Prev == number.
type Entry struct {
	Position    Position // of the record that holds the message
	SizeBytes   uint32   // of the record's body
	Queue       int32
	QueueOffset int64
	GroupHash   uint64 // 0: no message group
	TagHash     uint32 // 0: no tag
	Prev        int64  // the entry before it of the same group hash; for ungrouped messages, of the same queue
	Next        int64  // the one after it, likewise
	QueueNext   int64  // the next entry of the same queue
}

// NoEntry stands for a missing link.
const NoEntry int64 = -1

// The methods that the rest of the product calls; the implementation keeps to these signatures.
//
//	func Open(fs vfs.FS, dir string, o Options) (*Log, error)
//	    Locks dir, finds segments, verifies them from the newest known-good mark, cuts a torn tail (never below the durable
//	    mark), raises the epoch. Report() tells what was cut or is wrong.
//	func (l *Log) Replay(from Position, f func(pos Position, r Record) error) error
//	    Every record at or above from (0: all), in order. r.Body is valid during the call only.
//	func (l *Log) Append(batch []Record, reserved bool) (first []Position, end Position, err error)
//	    One caller at a time. Atomic: after a crash all of the batch is there or nothing of it. first[i] is record i;
//	    end is the mark that Durable must reach. Copies the bodies. The flusher is woken.
//	func (l *Log) Appended() / Durable() / Visible() Position        safe from any goroutine
//	func (l *Log) WaitDurable(ctx, end Position) error              safe from any goroutine
//	func (l *Log) Read(pos Position, sizeHint int) (Record, error)   safe from any goroutine; pread; CRC and place checked;
//	    keystrand.ErrCorrupt wrapped with place and reason. The body is the caller's.
//	func (l *Log) Epoch() uint32; Clean() bool (previous shutdown was clean); BrokerID() string (16 hex, made with the directory)
//	func (l *Log) HashKey() (k0, k1 uint64)                        secret SipHash key, made with the directory
//	func (l *Log) Err() error                                       why the log is read-only, or nil
//	func (l *Log) Close() error                                     syncs, marks the shutdown as clean, unlocks; safe twice
//	func (l *Log) Abandon() error                                   closes files and unlocks without marking the shutdown as clean (a failed open of the owner)
//	ErrNoSpace (wraps keystrand.ErrRetryLater): a batch that is not reserved was refused at the free-space floor; nothing was appended
//	func (l *Log) RecoveredEnd() Position                            end of the log that Open found, before anything of this life
//	func (l *Log) Report() RecoveryReport                           bytes cut, segments, problems, time
//
//	func OpenIndex(fs vfs.FS, dir string, topicID uint32) (*Index, error)
//	    One per topic; single writer (the sequencer), readers from any goroutine. Entries beyond the last Checkpoint are
//	    dropped when opened after an unclean stop; the owner replays the log from the checkpoint and appends again. A wrong
//	    check sum empties the index, so that the owner rebuilds it from the log's start.
//	func (x *Index) Append(e Entry) (number int64, err error)       sets Prev, patches Next and QueueNext of the entries before it.
//	    Idempotent on replay: an entry whose Position is already held returns its number and changes nothing.
//	func (x *Index) Entry(n int64) (Entry, error)
//	func (x *Index) Count() int64
//	func (x *Index) QueueCount(q int32) int64                       next offset of the queue
//	func (x *Index) ByQueueOffset(q int32, off int64) (int64, error)
//	func (x *Index) PutID(messageID string, n int64) error; ByID(messageID string) (candidates []int64, err error)
//	func (x *Index) Checkpoint() (Position, error); CheckpointUpTo(upTo Position) (Position, error)
//	    flush and sync; from any goroutine, does not hold up Append for the time of a sync. UpTo: the owner knows that every record
//	    below it was given to Append, so that a replay may start there although the topic's last message is far below.
//	func (x *Index) CheckpointPosition() Position                    after OpenIndex: replay must start at or below it; 0: from the log's start
//	func (x *Index) DropFrom(pos Position) error                      forgets entries at or above pos; called after OpenIndex with Log.RecoveredEnd
//	func (x *Index) Rebuilt() string                                  why OpenIndex emptied it, or ""
//	func (x *Index) Abandon() error                                   closes without a checkpoint
//	func (x *Index) Remove() error; Close() error
