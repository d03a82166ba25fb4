package admin

import (
	"io"
	"net/http"
)

// healthz answers as long as the process serves at all.
func (s *service) healthz(w http.ResponseWriter, _ *http.Request) { say(w, http.StatusOK, "up") }

// readyz answers 200 while messages are taken. It says no more than that, since it has no login (SEC-08); the reason is in
// the log.
func (s *service) readyz(w http.ResponseWriter, _ *http.Request) {
	if s.backend.Err() != nil {
		say(w, http.StatusServiceUnavailable, "down")
		return
	}
	say(w, http.StatusOK, "up")
}

func say(w http.ResponseWriter, status int, word string) {
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	w.WriteHeader(status)
	_, _ = io.WriteString(w, word+"\n") // whoever asked and went needs no answer
}
