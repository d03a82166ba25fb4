package sequencer_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/keystrand/keystrand"
	"github.com/keystrand/keystrand/internal/sequencer"
	"github.com/keystrand/keystrand/internal/store"
	"github.com/keystrand/keystrand/internal/vfs"
)

// Crash enumeration (faults.md section 5, layer 2). One script of operations runs on a disk that knows what a power loss
// would leave; before every file operation that changes something, images of the disk are taken with 0, 50 and 100 % of
// the unsynced blocks. Each image is opened, judged against what the script's callers had been told by then, and drained.
// While an image is opened, it crashes again at an operation drawn from the seed, and that image is judged likewise.
//
// The script runs under synctest: time is virtual, so leases and back-offs cost nothing.
// CRASH_STRIDE takes images at every n-th changing file operation only (default 8, with -short 16; make sim-crash: 1),
// CRASH_SEED (default 1) draws the script and what the crashes keep.
var crashSeed = number("CRASH_SEED", 1)

func number(name string, standard uint64) uint64 {
	text, set := os.LookupEnv(name)
	if !set {
		return standard
	}
	n, err := strconv.ParseUint(text, 10, 64)
	if err != nil || n == 0 {
		panic(fmt.Sprintf("%s=%q: want a number above 0", name, text))
	}
	return n
}

const (
	crashTopic  = "orders"
	crashGroups = 6 // message groups
)

// told is one thing that callers knew. The judge looks at those from before an image.
type told struct {
	what   string // see the constants
	id     string // message id, or the name of a topic, group or strand
	group  string // consumer group, or message group of a send
	queue  int32
	offset keystrand.Offset
	token  uint64
	n      int // attempt
}

const (
	sendInvoked = "send invoked"
	sendOK      = "send ok"
	delivered   = "delivered"
	ackInvoked  = "ack invoked"
	ackOK       = "ack ok"
	ackRefused  = "ack refused"
	failInvoked = "fail invoked"
	failOK      = "fail ok"
	parkInvoked = "park invoked"
	parkOK      = "park ok"
	resumed     = "resume invoked"
	topicOK     = "topic ok"
	groupOK     = "group ok"
)

// story collects what was told, in order.
type story struct {
	mu    sync.Mutex // guards tells
	tells []told
}

func (s *story) tell(t told) {
	s.mu.Lock()
	s.tells = append(s.tells, t)
	s.mu.Unlock()
}

func (s *story) len() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.tells)
}

// image is a disk after a crash. What was answered counts up to tells, taken before the image; what was asked counts up to
// asked, taken after it: the script goes on while another goroutine's file operation is about to happen.
type image struct {
	disk         *vfs.CrashFS
	tells, asked int
	what         string
}

func crashOptions(disk vfs.FS, skipSync bool) sequencer.Options {
	return sequencer.Options{
		FS: disk, Dir: "/data", RestartHold: -1, SnapshotEvery: time.Hour,
		Store: store.Options{FirstSegmentBytes: 8 << 10, SegmentBytes: 16 << 10, FreeFloorBytes: 1, SkipSync: skipSync},
	}
}

// script is the deterministic series of operations.
type script struct {
	*sequencer.Sequencer
	story *story
	rnd   *rand.Rand
	ctx   context.Context
	next  [crashGroups]int
	held  map[string][]keystrand.Delivery // by consumer group
	ops   map[string]int
}

func (x *script) run(operations int) error {
	if err := x.admin(); err != nil {
		return err
	}
	for range operations {
		var err error
		var name string
		switch p := x.rnd.IntN(100); {
		case p < 30:
			name, err = "batch send", x.send()
		case p < 50:
			name, err = "receive", x.receive()
		case p < 70:
			name, err = "ack", x.ack()
		case p < 84:
			name, err = "failure", x.fail()
		case p < 88:
			name, err = "park", x.park()
		case p < 92:
			name, err = "resume", x.resume()
		case p < 95:
			name, err = "snapshot", x.Snapshot(x.ctx)
		case p < 97:
			name, err = "topic", x.topic()
		default:
			name, err = "lease change", x.change()
		}
		if err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
		x.ops[name]++
	}
	return nil
}

func (x *script) admin() error {
	if err := x.CreateTopic(x.ctx, keystrand.TopicSpec{Name: crashTopic, Type: keystrand.TopicFIFO, Queues: 3}); err != nil {
		return err
	}
	x.story.tell(told{what: topicOK, id: crashTopic})
	for name, limit := range map[string]keystrand.AtLimit{"dead": keystrand.AtLimitDeadLetter, "park": keystrand.AtLimitPark} {
		if err := x.CreateGroup(x.ctx, keystrand.GroupSpec{Name: name, Ordered: true, MaxAttempts: 2, AtLimit: limit, BackOffMin: time.Second, BackOffMax: time.Second}); err != nil {
			return err
		}
		x.story.tell(told{what: groupOK, id: name})
	}
	return nil
}

func (x *script) topic() error {
	name := fmt.Sprintf("more-%d", x.ops["topic"])
	if err := x.CreateTopic(x.ctx, keystrand.TopicSpec{Name: name, Type: keystrand.TopicNormal, Queues: 1}); err != nil {
		return err
	}
	x.story.tell(told{what: topicOK, id: name})
	return nil
}

func messageBody(id string) []byte { return []byte(strings.Repeat(id+" ", 40)) }

func (x *script) send() error {
	var batch []keystrand.Message
	for range 1 + x.rnd.IntN(4) {
		g := x.rnd.IntN(crashGroups)
		x.next[g]++
		id := fmt.Sprintf("%d-%d", g, x.next[g])
		batch = append(batch, keystrand.Message{ID: id, MessageGroup: groupName(g), Body: messageBody(id)})
		x.story.tell(told{what: sendInvoked, id: id, group: groupName(g)})
	}
	receipts, err := x.Send(x.ctx, crashTopic, batch, "")
	if err != nil {
		return err
	}
	for i, r := range receipts {
		x.story.tell(told{what: sendOK, id: r.MessageID, group: batch[i].MessageGroup, queue: r.Queue, offset: r.Offset})
	}
	return nil
}

func groupName(g int) string { return fmt.Sprintf("order-%d", g) }

func (x *script) consumerGroup() string { return [2]string{"dead", "park"}[x.rnd.IntN(2)] }

func (x *script) receive() error {
	g := x.consumerGroup()
	got, err := x.Receive(x.ctx, sequencer.Receive{Group: g, Topic: crashTopic, Max: 1 + x.rnd.IntN(4), Wait: 2 * time.Second, Lease: 20 * time.Second, ClientID: "script"})
	if err != nil {
		return err
	}
	for _, d := range got {
		x.story.tell(told{what: delivered, id: d.ID, group: g, token: d.Token.Value, n: d.Attempt})
	}
	x.held[g] = append(x.held[g], got...)
	return nil
}

// take removes a held delivery.
func (x *script) take() (string, *keystrand.Delivery) {
	g := x.consumerGroup()
	if len(x.held[g]) == 0 {
		return g, nil
	}
	i := x.rnd.IntN(len(x.held[g]))
	d := x.held[g][i]
	x.held[g] = append(x.held[g][:i:i], x.held[g][i+1:]...)
	return g, &d
}

// settled ignores what an ended lease makes of a late act.
func settled(err error) (ok bool, _ error) {
	if errors.Is(err, keystrand.ErrLeaseExpired) {
		return false, nil
	}
	return err == nil, err
}

func (x *script) ack() error {
	g, d := x.take()
	if d == nil {
		return nil
	}
	x.story.tell(told{what: ackInvoked, id: d.ID, group: g})
	ok, err := settled(x.Ack(x.ctx, g, crashTopic, d.ReceiptHandle)[0])
	switch {
	case ok:
		x.story.tell(told{what: ackOK, id: d.ID, group: g})
	case err == nil:
		x.story.tell(told{what: ackRefused, id: d.ID, group: g})
	}
	return err
}

func (x *script) fail() error {
	g, d := x.take()
	if d == nil {
		return nil
	}
	x.story.tell(told{what: failInvoked, id: d.ID, group: g, n: d.Attempt})
	ok, err := settled(x.Fail(x.ctx, g, crashTopic, d.ReceiptHandle, "made to fail"))
	if ok {
		x.story.tell(told{what: failOK, id: d.ID, group: g, n: d.Attempt})
	}
	return err
}

func (x *script) change() error {
	g, d := x.take()
	if d == nil {
		return nil
	}
	_, err := x.ChangeInvisible(x.ctx, g, crashTopic, d.ReceiptHandle, time.Duration(1+x.rnd.IntN(40))*time.Second)
	if ok, err := settled(err); err != nil || !ok {
		return err
	}
	x.held[g] = append(x.held[g], *d)
	return nil
}

func (x *script) park() error {
	g, key := x.consumerGroup(), groupName(x.rnd.IntN(crashGroups))
	x.story.tell(told{what: parkInvoked, id: key, group: g})
	err := x.Park(x.ctx, g, crashTopic, key, "script")
	if errors.Is(err, keystrand.ErrRejected) {
		return nil // nothing of it is there to park
	}
	if err == nil {
		x.story.tell(told{what: parkOK, id: key, group: g})
	}
	return err
}

func (x *script) resume() error {
	g, key := x.consumerGroup(), groupName(x.rnd.IntN(crashGroups))
	x.story.tell(told{what: resumed, id: key, group: g})
	if err := x.Resume(x.ctx, g, crashTopic, key); !errors.Is(err, keystrand.ErrRejected) {
		return err
	}
	return nil
}

// enumerate runs the script on a fresh disk and returns the images and the story.
func enumerate(t *testing.T, operations, stride int, change func(*sequencer.Options), mend func(*sequencer.Sequencer)) (images []image, s *story, ops map[string]int) {
	s = &story{}
	synctest.Test(t, func(t *testing.T) {
		disk := vfs.NewCrashFS()
		disk.SetFree(1 << 40)
		var mu sync.Mutex // guards images: operations come from the loop, the flusher and the snapshot
		disk.SetHook(func(op vfs.Op) error {
			if !op.Changes || op.N%int64(stride) != 0 {
				return nil
			}
			told := s.len() // before the image: what is told later may be lost in it
			for _, p := range []float64{0, 0.5, 1} {
				im := image{disk: disk.Crash(p, crashSeed+uint64(op.N)), tells: told, what: fmt.Sprintf("crash before operation %v with %.0f %% of what is unsynced", op, 100*p)}
				im.asked = s.len()
				mu.Lock()
				images = append(images, im)
				mu.Unlock()
			}
			return nil
		})
		o := crashOptions(disk, false)
		if change != nil {
			change(&o)
		}
		q, err := sequencer.Open(o)
		if err != nil {
			t.Fatal(err)
		}
		if mend != nil {
			mend(q)
		}
		stop := runLoop(q)
		x := &script{Sequencer: q, story: s, rnd: rand.New(rand.NewPCG(crashSeed, 0)), ctx: t.Context(), held: map[string][]keystrand.Delivery{}, ops: map[string]int{}}
		err = x.run(operations)
		if err := errors.Join(err, stop(), q.Close()); err != nil {
			t.Fatal(err)
		}
		ops = x.ops
	})
	return images, s, ops
}

func runLoop(q *sequencer.Sequencer) (stop func() error) {
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- q.Run(ctx) }()
	return func() error { cancel(); return <-done }
}

// judge opens an image, checks it against what was told, drains it and checks the deliveries. It returns what is wrong,
// and an image of a second crash in the middle of the recovery.
func judge(t *testing.T, im image, s *story, skipSync bool) (wrong []string, second image) {
	synctest.Test(t, func(t *testing.T) {
		rnd := rand.New(rand.NewPCG(crashSeed, uint64(im.tells)))
		at, seen := 1+rnd.IntN(12), 0
		var mu sync.Mutex // guards rnd, seen, second: the log prepares segments in the background
		im.disk.SetFree(1 << 40)
		im.disk.SetHook(func(op vfs.Op) error {
			mu.Lock()
			defer mu.Unlock()
			if op.Changes {
				if seen++; seen == at {
					second = image{im.disk.Crash([]float64{0, 0.5, 1}[rnd.IntN(3)], rnd.Uint64()), im.tells, im.asked, im.what + ", then again in the recovery before " + op.String()}
				}
			}
			return nil
		})
		q, err := sequencer.Open(crashOptions(im.disk, skipSync))
		if err != nil {
			wrong = append(wrong, fmt.Sprintf("the data does not open: %v", err))
			return
		}
		im.disk.SetHook(nil)
		stop := runLoop(q)
		v := newVerifier(t.Context(), q, s.tells[:im.tells], s.tells[:im.asked])
		v.check()
		wrong = v.wrong
		if err := errors.Join(stop(), q.Close()); err != nil {
			wrong = append(wrong, fmt.Sprintf("close: %v", err))
		}
	})
	return wrong, second
}

func stride() int {
	if testing.Short() {
		return int(number("CRASH_STRIDE", 16))
	}
	return int(number("CRASH_STRIDE", 8))
}

func TestCrashAtEveryFileOperationKeepsAllPromises(t *testing.T) {
	images, s, ops := enumerate(t, 220, stride(), nil, nil)
	counts := map[string]int{}
	failures := 0
	for _, im := range images {
		for again := 0; im.disk != nil && again < 3; again++ { // the image, a crash in its recovery, one in that one's recovery
			wrong, second := judge(t, im, s, false)
			counts[fmt.Sprintf("images after %d crashes", again+1)]++
			if len(wrong) > 0 {
				t.Errorf("seed %d: %s:\n  %s", crashSeed, im.what, strings.Join(wrong, "\n  "))
				if failures++; failures == 5 {
					t.Fatal("five images are wrong; stopping")
				}
			}
			im = second
		}
	}
	segments := 0
	for _, name := range must(images[len(images)-1].disk.List("/data")) {
		if strings.HasSuffix(name, ".seg") {
			segments++
		}
	}
	fmt.Fprintf(os.Stderr, "crash enumeration: seed %d, %d operations %v, %d things told, %d segments, an image at every %d. changing file operation, %v\n",
		crashSeed, total(ops), ops, len(s.tells), segments, stride(), counts)
}

func must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}

func total(m map[string]int) (n int) {
	for _, v := range m {
		n += v
	}
	return n
}

// caught counts the images that are wrong, of a build that is broken on purpose.
func caught(t *testing.T, images []image, s *story, skipSync bool) (bad int, sample string) {
	for _, im := range images {
		wrong, _ := judge(t, im, s, skipSync)
		if len(wrong) > 0 {
			if bad++; sample == "" {
				sample = im.what + ": " + wrong[0]
			}
		}
	}
	return bad, sample
}

func TestBrokerWithoutSyncIsCaught(t *testing.T) {
	images, s, _ := enumerate(t, 60, 8, func(o *sequencer.Options) { o.Store.SkipSync = true }, nil)
	bad, sample := caught(t, images, s, true)
	if bad == 0 {
		t.Fatalf("none of %d images of a broker that never syncs is wrong: the enumeration sees nothing", len(images))
	}
	t.Logf("%d of %d images are wrong, the first: %s", bad, len(images), sample)
}

func TestBrokerThatForgetsAcksIsCaught(t *testing.T) {
	images, s, _ := enumerate(t, 60, 8, nil, sequencer.DropFinishes)
	bad, sample := caught(t, images, s, false)
	if bad == 0 {
		t.Fatalf("none of %d images of a broker that forgets acks is wrong: the enumeration sees nothing", len(images))
	}
	t.Logf("%d of %d images are wrong, the first: %s", bad, len(images), sample)
}
