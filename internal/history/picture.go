package history

import (
	"fmt"
	"math"
	"strings"
	"time"
)

const (
	pictureColumns    = 60
	pictureDeliveries = 24 // of a key: the first ones around its first case
	picturesPerCheck  = 3
)

// Picture shows the deliveries of one key: time across, a bar for each from hand-out to its end, faults as a band above.
type Picture struct {
	Key        string        `json:"key"`
	From, To   int64         `json:"-"`
	Length     time.Duration `json:"length_ns"`
	Deliveries []Bar         `json:"deliveries"`

	bands []band
}

// Bar is one delivery.
type Bar struct {
	ID      string `json:"id"`
	Attempt uint32 `json:"attempt"`
	Process uint32 `json:"process"`
	Token   uint64 `json:"token"`
	From    int64  `json:"from"`
	To      int64  `json:"to"` // 0: still out at the end
	// End is A acked, N failed, r refused, ? unknown, or 0.
	End byte `json:"-"`
}

type band struct{ from, to int64 }

// collector gathers the deliveries of a key while the history is read again.
type collector struct {
	topic, key string
	around     int64
	bars       []Bar
	open       map[uint64]int // token -> bar
}

func (c *collector) take(e *Event) {
	if e.Key != c.key || e.Topic != c.topic {
		return
	}
	switch e.E {
	case Recv:
		if len(c.bars) == pictureDeliveries {
			if e.T > c.around && c.bars[0].From > c.around-int64(time.Second) {
				return
			}
			c.forget()
		}
		c.open[e.Token] = len(c.bars)
		c.bars = append(c.bars, Bar{ID: e.ID.String(), Attempt: e.Attempt, Process: e.P / WorkersPerProcess, Token: e.Token, From: e.T})
	case AckOK, AckFail, AckInfo, NackOK:
		i, ok := c.open[e.Token]
		if !ok {
			return
		}
		end := map[Kind]byte{AckOK: 'A', AckFail: 'r', AckInfo: '?', NackOK: 'N'}[e.E]
		c.bars[i].To, c.bars[i].End = e.T, end
	}
}

// forget drops the oldest bar.
func (c *collector) forget() {
	delete(c.open, c.bars[0].Token)
	c.bars = append(c.bars[:0], c.bars[1:]...)
	for token := range c.open {
		c.open[token]--
	}
}

func (c *collector) picture(faults []*fault, end int64) Picture {
	p := Picture{Key: c.key, Deliveries: c.bars, From: math.MaxInt64}
	for _, b := range c.bars {
		p.From, p.To = min(p.From, b.From), max(p.To, b.From, b.To)
		if b.To == 0 {
			p.To = end
		}
	}
	p.Length = time.Duration(max(p.To-p.From, 0))
	for _, f := range faults {
		if f.begin <= p.To && f.end >= p.From {
			p.bands = append(p.bands, band{max(f.begin, p.From), min(f.end, p.To)})
		}
	}
	return p
}

// lines draws the picture. Bars are drawn with the last letter of the process's number in base 36, so that one sees who had
// the message.
func (p *Picture) lines() []string {
	if len(p.Deliveries) == 0 {
		return nil
	}
	column := func(t int64) int {
		if p.To == p.From {
			return 0
		}
		return int(float64(t-p.From) / float64(p.To-p.From) * (pictureColumns - 1))
	}
	out := []string{fmt.Sprintf("key %q, %v across; = is drawn as the process, A acked, N failed, r refused, ? unknown", p.Key, p.Length.Round(time.Millisecond))}
	if len(p.bands) > 0 {
		row := []byte(strings.Repeat(" ", pictureColumns))
		for _, b := range p.bands {
			for x := column(b.from); x <= column(b.to); x++ {
				row[x] = '#'
			}
		}
		out = append(out, fmt.Sprintf("%-26s |%s|", "faults", row))
	}
	const letters = "0123456789abcdefghijklmnopqrstuvwxyz"
	for _, b := range p.Deliveries {
		row := []byte(strings.Repeat(" ", pictureColumns))
		to := b.To
		if to == 0 {
			to = p.To
		}
		for x := column(b.From); x <= column(to); x++ {
			row[x] = letters[b.Process%uint32(len(letters))]
		}
		if b.End != 0 {
			row[column(to)] = b.End
		}
		out = append(out, fmt.Sprintf("%-12s try %-2d process %-4d |%s|", b.ID, b.Attempt, b.Process, row))
	}
	return out
}
