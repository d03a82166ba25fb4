package demo

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"time"

	"github.com/keystrand/keystrand"
	"github.com/keystrand/keystrand/internal/admin"
	"github.com/keystrand/keystrand/internal/history"
	"github.com/keystrand/keystrand/internal/task"
)

// writerCount is how many business transactions want to write at the same time.
const writerCount = 4

// run is the parent's state.
type run struct {
	options  Options
	dir      string
	cast     cast
	db       *sql.DB
	recorder *history.Recorder
	worker   *history.Worker // of the fault plan and the end
	tasks    *task.Group     // children's readers and proxies
	writers  *writers
	progress *progress

	relayProxy, clientProxy *proxy
	engine                  keystrand.Engine
	rogue                   keystrand.Producer
	relay                   *process
	kills                   atomic.Int64
	healed                  int
	holds                   chan heldBy
	outcomes                chan note

	mu        sync.Mutex // guards below
	broker    *process   // changed by the fault plan only, which the end waits for
	consumers []*process // likewise
	started   map[string]int
	stats     map[*process]stats
	strikes   map[string]int
	lossAt    map[string]int64 // when the proxy was told to lose something, on the history's clock
	lostBy    map[string]bool  // it has lost it
	problems  []string
	rogues    []rogueCopy
}

// heldBy is a consumer that stands at a hold.
type heldBy struct {
	hold    hold
	process *process
	token   uint64
}

// rogueCopy is where a send of the parent was stored.
type rogueCopy struct {
	id      history.ID
	key     string
	receipt keystrand.Receipt
}

// Run plays the demo and returns its result. An error means that it could not be played to its end; the result then has
// what is known.
func Run(ctx context.Context, o Options) (*Result, error) {
	if err := o.Validate(); err != nil {
		return nil, err
	}
	o = o.complete()
	if !canStop && !o.NoFaults {
		return nil, fmt.Errorf("demo: this system cannot stop and continue processes: use --faults off: %w", keystrand.ErrRejected)
	}
	dir, remove, err := makeDir(o.Keep)
	if err != nil {
		return nil, err
	}
	r := &run{options: o, dir: dir, cast: castOf(o), progress: newProgress(o), holds: make(chan heldBy, 64), outcomes: make(chan note, 64),
		started: map[string]int{}, stats: map[*process]stats{}, strikes: map[string]int{}, lossAt: map[string]int64{}, lostBy: map[string]bool{}}
	result, err := r.play(ctx)
	return result, errors.Join(err, remove())
}

// makeDir makes the run's directory. A kept one must be new or empty.
func makeDir(keep string) (dir string, remove func() error, err error) {
	if keep == "" {
		dir, err = os.MkdirTemp("", "keystrand-demo-")
		remove = func() error { return os.RemoveAll(dir) }
	} else {
		dir, remove = keep, func() error { return nil }
		if err = os.MkdirAll(dir, 0o700); err == nil {
			var names []os.DirEntry
			if names, err = os.ReadDir(dir); err == nil && len(names) > 0 {
				return "", nil, fmt.Errorf("--keep %s: the directory is not empty; name a new one: %w", dir, keystrand.ErrRejected)
			}
		}
	}
	if err == nil {
		dir, err = filepath.Abs(dir)
	}
	for _, sub := range []string{historyDir(dir), filepath.Join(dir, "logs")} {
		if err == nil {
			err = os.MkdirAll(sub, 0o700)
		}
	}
	if err != nil {
		return "", nil, fmt.Errorf("directory for the demo: %w", err)
	}
	return dir, remove, nil
}

// play sets the stage, plays, and judges.
func (r *run) play(ctx context.Context) (result *Result, err error) {
	r.tasks = task.NewGroup(ctx)
	defer func() { err = errors.Join(err, r.clearStage(), r.tasks.Stop()) }()
	if err := r.setUp(ctx); err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, r.db.Close()) }()
	ended := r.perform(ctx)
	if ctx.Err() != nil {
		return nil, fmt.Errorf("demo interrupted: %w", ctx.Err())
	}
	if ended != nil {
		r.problem(ended)
	}
	return r.judge(ctx)
}

func (r *run) events() int { return r.options.Orders * len(steps) }

func (r *run) problem(err error) {
	r.progress.say("problem: %v", err)
	r.mu.Lock()
	defer r.mu.Unlock()
	r.problems = append(r.problems, err.Error())
}

// strike counts a fault that was proved to have struck.
func (r *run) strike(what string) {
	r.mu.Lock()
	r.strikes[what]++
	first := r.strikes[what] == 1
	r.mu.Unlock()
	if first {
		r.worker.Mark(what)
	}
}

func (r *run) noteRogue(m keystrand.Message, receipt keystrand.Receipt) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.rogues = append(r.rogues, rogueCopy{history.FromMessage(m).ID, m.MessageGroup, receipt})
}

// live adds up the children's last counts.
func (r *run) live() stats {
	r.mu.Lock()
	defer r.mu.Unlock()
	var sum stats
	for _, s := range r.stats {
		sum.add(s)
	}
	return sum
}

// noted takes a note of a child.
func (r *run) noted(p *process, n note) {
	switch n.Kind {
	case "stats":
		r.mu.Lock()
		r.stats[p] = n.Stats
		r.mu.Unlock()
	case "hold":
		select {
		case r.holds <- heldBy{n.Hold, p, n.Token}:
		default: // more than anyone waits for: it may go on
			_ = p.say("go")
		}
	case "outcome":
		select {
		case r.outcomes <- n:
		default:
		}
	case "error":
		r.problem(fmt.Errorf("%s: %s", p.name, n.Text))
	}
}

// client calls the present broker's HTTP API.
func (r *run) client() (*admin.Client, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return admin.NewClient("http://" + r.broker.told().HTTP)
}

func (r *run) line() string {
	s := r.live()
	return fmt.Sprintf("%d of %d events written, %d sent, %d applied; duplicates %d, gaps %d, fenced %d, failed attempts %d",
		r.writers.written.Load(), r.events(), s.Sent, s.Applied, s.Duplicates, s.Gaps, s.Fenced, s.Failed)
}

// perform runs writers and fault plan until everything that can be applied is applied.
func (r *run) perform(ctx context.Context) error {
	began := time.Now()
	acts := task.NewGroup(ctx)
	acts.Go("demo.feed", func(ctx context.Context) error { return r.writers.feed(ctx, r.cast.script(r.options.Seed)) })
	for range writerCount {
		acts.Go("demo.writer", r.writers.write)
	}
	acts.Go("demo.plan", r.plan)
	show := task.NewGroup(ctx)
	show.Go("demo.progress", func(ctx context.Context) error { return r.progress.run(ctx, r.line) })
	err := acts.Wait()
	if err == nil {
		r.worker.DrainBegin()
		err = r.drain(ctx)
	}
	if err == nil {
		r.worker.DrainEnd()
	}
	err = errors.Join(err, show.Stop())
	if err == nil {
		r.progress.say("all events are accounted for after %.1fs", time.Since(began).Seconds())
	}
	return err
}
