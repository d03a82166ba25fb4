package admin

import (
	"fmt"
	"log/slog"
	"net/http"
	"runtime/debug"
	"strings"

	"github.com/prometheus/client_golang/prometheus"
)

// maxHeldReceives bounds the receives that wait at once; one more is told to retry.
const maxHeldReceives = 128

// service holds what the handlers share. Its methods are the handlers, a file for each noun.
type service struct {
	backend Backend
	logger  *slog.Logger
	held    chan struct{} // one slot for each receive that waits
	metrics *metrics
}

// NewHandler returns the whole HTTP API. bound is the listener's address; requests for other host names are refused.
func NewHandler(o Options, bound string) http.Handler {
	o = o.complete()
	s := &service{backend: o.Backend, logger: o.Logger, held: make(chan struct{}, maxHeldReceives)}
	s.metrics = newMetrics(o.Backend, o.Version, prometheus.NewRegistry())
	mux := http.NewServeMux()
	handle := func(pattern string, f http.HandlerFunc, parameters ...string) {
		if strings.Contains(pattern, "/v1/") {
			f = s.knownParameters(f, parameters)
		}
		mux.Handle(pattern, s.metrics.counted(pattern, s.contained(f)))
	}
	handle("GET /healthz", s.healthz)
	handle("GET /readyz", s.readyz)
	handle("GET /metrics", s.metrics.handler().ServeHTTP)
	handle("GET /v1/topics", s.listTopics)
	handle("POST /v1/topics", s.createTopic)
	handle("GET /v1/topics/{name}", s.describeTopic)
	handle("GET /v1/groups", s.listGroups)
	handle("POST /v1/groups", s.createGroup)
	handle("GET /v1/groups/{name}", s.describeGroup)
	handle("GET /v1/groups/{name}/lag", s.lag)
	handle("GET /v1/explain", s.explain, "group", "topic", "key")
	handle("POST /v1/park", s.park)
	handle("POST /v1/resume", s.resume)
	handle("POST /v1/send", s.send)
	handle("POST /v1/receive", s.receive)
	handle("POST /v1/ack", s.ack)
	return newGuard(routed(mux), bound)
}

// contained keeps a panic to its request: it is logged once with its stack, and the peer is told no more than a request id.
func (s *service) contained(next http.HandlerFunc) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		defer func() {
			if p := recover(); p != nil {
				s.reply(w, r, nil, fmt.Errorf("panic: %v\n%s", p, debug.Stack()))
			}
		}()
		next(w, r)
	}
}
