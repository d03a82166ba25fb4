package vfs

import (
	"fmt"
	"math"
	"path"
	"strconv"
	"strings"
	"syscall"
)

// Rule is one line: operation, path pattern, which calls, effect.
//
//	sync *.seg 2 EIO            the second sync of a segment fails
//	write durable 3+ ENOSPC     from the third on
//	write *.seg 4-6 short       half is written, no error; short:EIO: half is written, with one
//	syncdir * * nothing         always succeeds and does nothing
//	read *.seg 1 flip           one bit of what is read is wrong; of a write: of what reaches the file
//	sync *.seg 1 hold           waits until Release
//	write * p0.01/7 EIO         with probability 0.01, seed 7
type Rule struct {
	// Op is create, open, remove, rename, mkdir, list, stat, syncdir, lock, free, read, write, sync or truncate.
	Op string
	// Path is a pattern of path.Match, for the whole path or its last part.
	Path string
	// First and Last are the calls that strike, counted from 1 over operations that match Op and Path.
	First, Last int64
	// Chance, when above 0, is used instead, with Seed.
	Chance float64
	Seed   uint64
	Effect Effect
}

// Effect is what happens instead.
type Effect struct {
	Errno   syscall.Errno
	Short   bool
	Nothing bool
	Flip    bool
	Hold    bool
}

var errnoNames = map[string]syscall.Errno{
	"EIO": syscall.EIO, "ENOSPC": syscall.ENOSPC, "EROFS": syscall.EROFS, "EMFILE": syscall.EMFILE, "EACCES": syscall.EACCES,
	"EDQUOT": syscall.EDQUOT, "ENOENT": syscall.ENOENT,
}

func (e Effect) String() string {
	name := ""
	for n, errno := range errnoNames {
		if errno == e.Errno {
			name = n
		}
	}
	switch {
	case e.Short && name != "":
		return "short:" + name
	case e.Short:
		return "short"
	case e.Nothing:
		return "nothing"
	case e.Flip:
		return "flip"
	case e.Hold:
		return "hold"
	}
	return name
}

func (r Rule) when() string {
	switch {
	case r.Chance > 0:
		return fmt.Sprintf("p%s/%d", strconv.FormatFloat(r.Chance, 'g', -1, 64), r.Seed)
	case r.First == 1 && r.Last == math.MaxInt64:
		return "*"
	case r.Last == math.MaxInt64:
		return fmt.Sprintf("%d+", r.First)
	case r.First == r.Last:
		return strconv.FormatInt(r.First, 10)
	}
	return fmt.Sprintf("%d-%d", r.First, r.Last)
}

// ParseRules reads rules, one a line or separated by semicolons; the printed form of a Rule parses to the same rule.
func ParseRules(text string) ([]Rule, error) {
	var rules []Rule
	for _, line := range strings.FieldsFunc(text, func(r rune) bool { return r == '\n' || r == ';' }) {
		fields := strings.Fields(line)
		if len(fields) == 0 {
			continue
		}
		if len(fields) != 4 {
			return nil, fmt.Errorf("fault rule %q: want operation, path, calls, effect", line)
		}
		r := Rule{Op: fields[0], Path: fields[1]}
		if !strings.Contains(" create open remove rename mkdir list stat syncdir lock free read write sync truncate ", " "+r.Op+" ") {
			return nil, fmt.Errorf("fault rule %q: unknown operation %q", line, r.Op)
		}
		if _, err := path.Match(r.Path, ""); err != nil {
			return nil, fmt.Errorf("fault rule %q: path pattern: %w", line, err)
		}
		if err := r.parseWhen(fields[2]); err != nil {
			return nil, fmt.Errorf("fault rule %q: calls %q: %w", line, fields[2], err)
		}
		if err := r.Effect.parse(fields[3]); err != nil {
			return nil, fmt.Errorf("fault rule %q: %w", line, err)
		}
		rules = append(rules, r)
	}
	return rules, nil
}

// MustParseRules is for rules written in a test.
func MustParseRules(text string) []Rule {
	rules, err := ParseRules(text)
	if err != nil {
		panic(err)
	}
	return rules
}

func (r *Rule) parseWhen(s string) error {
	var err error
	if s == "*" {
		r.First, r.Last = 1, math.MaxInt64
		return nil
	}
	if chance, ok := strings.CutPrefix(s, "p"); ok {
		chance, seed, _ := strings.Cut(chance, "/")
		if r.Chance, err = strconv.ParseFloat(chance, 64); err != nil {
			return err
		}
		if r.Chance <= 0 || r.Chance > 1 {
			return fmt.Errorf("a probability is above 0 and at most 1")
		}
		r.Seed, err = strconv.ParseUint(seed, 10, 64)
		return err
	}
	if from, ok := strings.CutSuffix(s, "+"); ok {
		r.Last = math.MaxInt64
		r.First, err = strconv.ParseInt(from, 10, 64)
	} else {
		from, to, ranged := strings.Cut(s, "-")
		if r.First, err = strconv.ParseInt(from, 10, 64); err != nil {
			return err
		}
		r.Last = r.First
		if ranged {
			r.Last, err = strconv.ParseInt(to, 10, 64)
		}
	}
	if err == nil && (r.First < 1 || r.Last < r.First) {
		err = fmt.Errorf("calls count from 1 and upwards")
	}
	return err
}

func (e *Effect) parse(s string) error {
	switch s {
	case "short":
		e.Short = true
		return nil
	case "nothing":
		e.Nothing = true
		return nil
	case "flip":
		e.Flip = true
		return nil
	case "hold":
		e.Hold = true
		return nil
	}
	name, short := strings.CutPrefix(s, "short:")
	errno, ok := errnoNames[name]
	if !ok {
		return fmt.Errorf("unknown effect %q", s)
	}
	e.Errno, e.Short = errno, short
	return nil
}
