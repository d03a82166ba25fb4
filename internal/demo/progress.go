package demo

import (
	"context"
	"fmt"
	"io"
	"sync"
	"time"
)

// progress tells people what happens, on standard error: one line that is redrawn on a terminal, else a line every two seconds.
type progress struct {
	terminal bool
	began    time.Time

	mu    sync.Mutex // guards below; held while writing, so that lines stay whole
	out   io.Writer
	drawn bool
}

func newProgress(o Options) *progress {
	return &progress{terminal: o.Terminal, began: time.Now(), out: o.Stderr}
}

// say writes a line that stays.
func (p *progress) say(format string, args ...any) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.clear()
	p.print("%6.1fs  %s\n", time.Since(p.began).Seconds(), fmt.Sprintf(format, args...))
}

func (p *progress) clear() {
	if p.drawn {
		p.print("\r\x1b[K")
		p.drawn = false
	}
}

// print writes to the terminal; when nobody reads there is nothing better to do than to go on.
func (p *progress) print(format string, args ...any) { _, _ = fmt.Fprintf(p.out, format, args...) }

// run shows the counts until ctx ends.
func (p *progress) run(ctx context.Context, line func() string) error {
	every := 2 * time.Second
	if p.terminal {
		every = 200 * time.Millisecond
	}
	ticker := time.NewTicker(every)
	defer ticker.Stop()
	for {
		select {
		case <-ticker.C:
		case <-ctx.Done():
			p.mu.Lock()
			p.clear()
			p.mu.Unlock()
			return nil
		}
		if !p.terminal {
			p.say("%s", line())
			continue
		}
		p.mu.Lock()
		p.print("\r\x1b[K%6.1fs  %s", time.Since(p.began).Seconds(), line())
		p.drawn = true
		p.mu.Unlock()
	}
}
