package sqlite

import (
	"container/list"
	"context"
	"database/sql/driver"
	"strings"
)

// maxStatements bounds the compiled statements a connection keeps. Compiling costs 20-60 us, as much as running a short
// statement; the library has about thirty texts, the rest is the user's.
const maxStatements = 64

// statements keeps compiled statements of one connection, the least recently used goes first. A connection serves one
// goroutine at a time, so nothing is locked.
//
// Invariant: a statement in use (rows open on it) is neither handed out again nor closed.
type statements struct {
	byText map[string]*list.Element
	recent *list.List // of *statement; front: used last
}

type statement struct {
	text string
	stmt preparedStmt
	used bool
	gone bool // left the cache while in use; closed when given back
}

type preparedStmt interface {
	driver.Stmt
	driver.StmtExecContext
	driver.StmtQueryContext
}

func newStatements() *statements {
	return &statements{byText: map[string]*list.Element{}, recent: list.New()}
}

// take returns the compiled statement of that text for use, or nil when the text should run uncompiled: it is not of a
// kind that comes again, holds several statements, or is in use.
func (k *statements) take(ctx context.Context, c *conn, text string) (*statement, error) {
	if e, ok := k.byText[text]; ok {
		s := e.Value.(*statement)
		if s.used {
			return nil, nil
		}
		k.recent.MoveToFront(e)
		s.used = true
		return s, nil
	}
	if !worthKeeping(text) {
		return nil, nil
	}
	prepared, err := c.innerConn.PrepareContext(ctx, text)
	if err != nil {
		return nil, err
	}
	typed, ok := prepared.(preparedStmt)
	if !ok {
		return nil, prepared.Close()
	}
	s := &statement{text: text, stmt: typed, used: true}
	k.byText[text] = k.recent.PushFront(s)
	if k.recent.Len() > maxStatements {
		k.drop(k.recent.Back())
	}
	return s, nil
}

func (k *statements) giveBack(s *statement) {
	s.used = false
	if s.gone {
		_ = s.stmt.Close() // finalizing reports the error of the last run again, which its caller has had
	}
}

func (k *statements) drop(e *list.Element) {
	s := e.Value.(*statement)
	k.recent.Remove(e)
	delete(k.byText, s.text)
	s.gone = true
	if !s.used {
		_ = s.stmt.Close() // as in giveBack
	}
}

func (k *statements) close() {
	for e := k.recent.Front(); e != nil; e = k.recent.Front() {
		k.drop(e)
	}
}

// worthKeeping: texts that read or change rows, one statement each, of moderate length.
func worthKeeping(text string) bool {
	if len(text) > 4096 || strings.Contains(text, ";") {
		return false
	}
	text = strings.TrimLeft(text, " \t\r\n")
	for _, verb := range []string{"SELECT", "INSERT", "UPDATE", "DELETE", "WITH"} {
		if len(text) > len(verb) && strings.EqualFold(text[:len(verb)], verb) {
			return true
		}
	}
	return false
}
