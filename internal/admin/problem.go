package admin

import (
	"context"
	"errors"
	"io/fs"
	"net/http"
	"os"
	"strings"

	"github.com/keystrand/keystrand"
)

// Problem is an error as JSON. Class is one of the five classes of package keystrand, Code the exact error where there is
// one. It is also the error that Client returns: errors.Is finds the class and the exact error in it.
type Problem struct {
	What    string `json:"error"`
	Class   string `json:"class"`
	Code    string `json:"code,omitempty"`
	DoThis  string `json:"what_to_do"`
	Status  int    `json:"-"`
	Request string `json:"request_id,omitempty"`
}

// Error says what happened and what to do; a text that gives advice of its own, after a semicolon, needs no second one.
func (p *Problem) Error() string {
	if p.DoThis == "" || strings.Contains(p.What, "; ") {
		return p.What
	}
	return p.What + "; " + p.DoThis
}

// Unwrap gives the exact error or the class.
func (p *Problem) Unwrap() error {
	for _, row := range problemTable {
		if row.code == p.Code && row.class == p.Class {
			return row.err
		}
	}
	return nil
}

// problemTable maps our errors to HTTP and back; the exact ones stand above their classes, the first that fits is taken.
var problemTable = []struct {
	err    error
	class  string
	code   string
	status int
	do     string
}{
	{keystrand.ErrTopicNotFound, "rejected", "topic-not-found", http.StatusNotFound, "create it first: keystrand topic create NAME --type fifo --queues 8"},
	{keystrand.ErrGroupNotFound, "rejected", "group-not-found", http.StatusNotFound, "create it first: keystrand group create NAME --ordered"},
	{keystrand.ErrExists, "rejected", "exists", http.StatusConflict, "use its settings or another name"},
	{keystrand.ErrMessageType, "rejected", "message-type", http.StatusBadRequest, "give a message group on a fifo topic and none on a normal one"},
	{keystrand.ErrTooLarge, "rejected", "too-large", http.StatusRequestEntityTooLarge, "stay within the bound"},
	{keystrand.ErrBadHandle, "rejected", "bad-handle", http.StatusBadRequest, "use a receipt handle of this broker, consumer group and topic"},
	{keystrand.ErrLeaseExpired, "superseded", "lease-expired", http.StatusConflict, "change nothing more for this delivery: the message went, or goes, out again"},
	{keystrand.ErrReadOnly, "retry-later", "read-only", http.StatusServiceUnavailable, "look at the broker's log, make room or mend the disk, and start the broker again"},
	{keystrand.ErrLocked, "retry-later", "locked", http.StatusServiceUnavailable, "stop the other broker, or give another data directory"},
	{keystrand.ErrClosed, "retry-later", "closed", http.StatusServiceUnavailable, "retry when the broker runs again"},
	{keystrand.ErrRejected, "rejected", "", http.StatusBadRequest, "change the request; the same one will fail again"},
	{keystrand.ErrSuperseded, "superseded", "", http.StatusConflict, "someone else moved on: change nothing more"},
	{keystrand.ErrUnknown, "unknown", "", http.StatusInternalServerError, "repeat with the same message_id"},
	{keystrand.ErrCorrupt, "corrupt", "", http.StatusInternalServerError, "look at the broker's log for the place; nothing was delivered from it"},
	{keystrand.ErrRetryLater, "retry-later", "", http.StatusServiceUnavailable, "retry in a moment"},
	{context.DeadlineExceeded, "unknown", "deadline", http.StatusGatewayTimeout, "repeat with the same message_id"},
	{context.Canceled, "unknown", "canceled", http.StatusServiceUnavailable, "repeat with the same message_id"},
}

// problemOf turns an error into what a peer may read: no path, no internal text. The full error is the log's.
func problemOf(err error) *Problem {
	for _, row := range problemTable {
		if !errors.Is(err, row.err) {
			continue
		}
		p := &Problem{What: row.err.Error(), Class: row.class, Code: row.code, DoThis: row.do, Status: row.status}
		// A caller's own mistake is told in full: its text is made of what the caller sent. The rest may name files or the
		// insides of the store (SEC-09).
		if (row.class == "rejected" || row.class == "superseded") && !namesFile(err) {
			p.What = err.Error()
		}
		return p
	}
	return &Problem{What: "internal error", Class: "unknown", DoThis: "look for the request id in the broker's log", Status: http.StatusInternalServerError}
}

func namesFile(err error) bool {
	var path *fs.PathError
	var link *os.LinkError
	return errors.As(err, &path) || errors.As(err, &link)
}

// rejected is a refusal of this package itself.
func rejected(status int, what, do string) *Problem {
	return &Problem{What: what, Class: "rejected", DoThis: do, Status: status}
}
