package demo

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/keystrand/keystrand/internal/admin"
	"github.com/keystrand/keystrand/internal/history"
)

// judge ends the children, reads everything back and has the histories judged.
func (r *run) judge(ctx context.Context) (*Result, error) {
	began := time.Now()
	explanation := r.explainPoison(ctx)
	r.progress.say("the processes end; the log and the tables are read back")
	if err := r.clearStage(); err != nil {
		r.problem(err)
	}
	if err := r.readBack(ctx); err != nil {
		return nil, err
	}
	files, err := historyFiles(r.dir)
	if err != nil {
		return nil, err
	}
	seen, err := look(files)
	if err != nil {
		return nil, err
	}
	r.proveFromHistory(seen)
	if r.healed, err = r.countHealed(ctx, seen); err != nil {
		return nil, err
	}
	if err := r.recorder.Close(); err != nil {
		return nil, err
	}
	report, err := history.Check(files, history.Options{})
	if err != nil {
		return nil, err
	}
	applied, err := count(ctx, r.db, appliedQuery)
	if err != nil {
		return nil, err
	}
	if r.options.History != "" {
		if err := mergeTo(r.options.History, files); err != nil {
			return nil, err
		}
	}
	r.progress.say("judged in %.1fs: %s", time.Since(began).Seconds(), report.Verdict)
	return r.result(report, seen, applied, explanation), nil
}

func historyFiles(dir string) ([]string, error) {
	files, err := filepath.Glob(filepath.Join(historyDir(dir), "*.jsonl"))
	if err != nil || len(files) == 0 {
		return nil, fmt.Errorf("no histories in %s: %w", historyDir(dir), errors.Join(err, os.ErrNotExist))
	}
	slices.Sort(files)
	return files, nil
}

func mergeTo(path string, files []string) (err error) {
	out, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o600)
	if err != nil {
		return fmt.Errorf("history file: %w", err)
	}
	defer func() { err = errors.Join(err, out.Close()) }()
	return history.Merge(out, files)
}

// explainPoison asks the broker why the poison order does not move, and tells the history that it is parked if it is.
func (r *run) explainPoison(ctx context.Context) *admin.Explanation {
	if r.cast.poison == "" {
		return nil
	}
	client, err := r.client()
	if err != nil {
		r.problem(err)
		return nil
	}
	defer client.Close()
	e, err := client.Explain(ctx, admin.Strand{ConsumerGroup: groupName, Topic: topicName, MessageGroup: r.cast.poison})
	if err != nil {
		r.problem(err)
		return nil
	}
	if e.Status == "parked" && e.DeliveryAttempt == maxAttempts {
		d := row(r.cast.poison, poisonVersion)
		d.Queue, d.Offset, d.Attempt = e.Queue, e.Offset, e.DeliveryAttempt
		r.worker.Park(d, e.Why)
		r.strike(faultPoison)
	}
	return &e
}

// unsureSend is a send of the relay whose outcome stayed unknown.
type unsureSend struct {
	copyOf
	t int64
}

// seen is what the histories tell beside the judge's findings.
type seen struct {
	duplicates, gapsOpened, fenced int
	parked                         map[place]bool // gaps opened: events that waited in the gap buffer
	earlyParked                    int
	unsure                         []unsureSend
	copies                         map[copyOf]int
	sentLater                      map[copyOf]int64 // when a send of it was answered ok last
}

type place struct {
	order   string
	version uint64
}

// look reads the histories once.
func look(files []string) (seen, error) {
	s := seen{parked: map[place]bool{}, copies: map[copyOf]int{}, sentLater: map[copyOf]int64{}}
	_, err := history.Read(files, func(e *history.Event) error {
		switch e.E {
		case history.End:
			s.end(e)
		case history.SendInfo:
			if e.P/history.WorkersPerProcess == relayProcess {
				s.unsure = append(s.unsure, unsureSend{copyOf{e.Key, e.ID}, e.T})
			}
		case history.SendOK:
			s.sentLater[copyOf{e.Key, e.ID}] = e.T
		case history.Log:
			s.copies[copyOf{e.Key, e.ID}]++
		}
		return nil
	})
	return s, err
}

func (s *seen) end(e *history.Event) {
	switch e.What {
	case "duplicate", "stale":
		s.duplicates++
	case "superseded":
		s.fenced++
	case "parked":
		if p := (place{e.Key, e.Version}); !s.parked[p] {
			s.parked[p] = true
			s.gapsOpened++
		}
		if e.ID.Producer == rogueProducer {
			s.earlyParked++
		}
	}
}

// proveFromHistory counts what only the whole run proves.
func (r *run) proveFromHistory(s seen) {
	for range s.earlyParked {
		r.strike(faultEarlyVersion)
	}
	for _, what := range []string{faultRequestLost, faultAnswerLost} {
		r.mu.Lock()
		at, lost := r.lossAt[what], r.lostBy[what]
		r.mu.Unlock()
		if lost && s.struckBy(what, at) {
			r.strike(what)
		}
	}
}

// struckBy finds, among the sends that became unsure when the proxy lost something, one that the relay sent again. After a
// lost answer the log holds a copy of both; after a lost request the second is the only one, unless it was duplicated later.
func (s *seen) struckBy(what string, at int64) bool {
	const within = int64(10 * time.Second)
	for _, u := range s.unsure {
		again := s.sentLater[u.copyOf] > u.t
		if u.t < at || u.t > at+within || !again {
			continue
		}
		if copies := s.copies[u.copyOf]; what == faultRequestLost && copies >= 1 || copies >= 2 {
			return true
		}
	}
	return false
}

// countHealed counts the gaps whose waiting event was applied in the end.
func (r *run) countHealed(ctx context.Context, s seen) (healed int, err error) {
	for p := range s.parked {
		n, err := count(ctx, r.db, `SELECT count(*) FROM order_log WHERE order_id = ? AND version = ?`, p.order, p.version)
		if err != nil {
			return healed, err
		}
		if n > 0 {
			healed++
		}
	}
	return healed, nil
}
