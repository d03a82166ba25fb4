package admin

import (
	"net/http"
	"strconv"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"
)

// metrics declares every metric of this package. They tell of topics, queues and consumer groups, never of a message
// group: there may be millions, and their names are business data.
type metrics struct {
	registry *prometheus.Registry
	requests *prometheus.CounterVec
	backend  Backend
}

var (
	descReady      = prometheus.NewDesc("keystrand_ready", "1 while the broker takes messages, else 0.", nil, nil)
	descMessages   = prometheus.NewDesc("keystrand_topic_messages", "Messages stored in the topic.", []string{"topic"}, nil)
	descNextOffset = prometheus.NewDesc("keystrand_queue_next_offset", "Offset that the next message of the queue gets.", []string{"topic", "queue"}, nil)
	descUnfinished = prometheus.NewDesc("keystrand_group_unfinished_messages", "Messages that the consumer group has not finished, parked ones included.", []string{"consumer_group", "topic"}, nil)
	descStrands    = prometheus.NewDesc("keystrand_group_strands", "Strands of the consumer group in memory, by status.", []string{"consumer_group", "topic", "status"}, nil)
	descDead       = prometheus.NewDesc("keystrand_group_dead_lettered_messages_total", "Messages moved to the consumer group's dead-letter topic.", []string{"consumer_group", "topic"}, nil)
	descWaiting    = prometheus.NewDesc("keystrand_group_waiting_receives", "Receives that wait for a message.", []string{"consumer_group", "topic"}, nil)
)

func newMetrics(backend Backend, version string, registry *prometheus.Registry) *metrics {
	m := &metrics{registry: registry, backend: backend}
	m.requests = prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "keystrand_http_requests_total", Help: "Requests served by the HTTP API, by route and status code.",
	}, []string{"route", "code"})
	build := prometheus.NewGauge(prometheus.GaugeOpts{Name: "keystrand_build_info", Help: "Always 1; the version is a label.", ConstLabels: prometheus.Labels{"version": version}})
	build.Set(1)
	registry.MustRegister(m, m.requests, build, collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	return m
}

func (m *metrics) handler() http.Handler {
	return promhttp.HandlerFor(m.registry, promhttp.HandlerOpts{MaxRequestsInFlight: 4})
}

// counted counts the answers of one route.
func (m *metrics) counted(route string, next http.HandlerFunc) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		seen := &statusWriter{ResponseWriter: w, status: http.StatusOK}
		next(seen, r)
		m.requests.WithLabelValues(route, strconv.Itoa(seen.status)).Inc()
	})
}

// statusWriter remembers the status code.
type statusWriter struct {
	http.ResponseWriter
	status int
}

func (w *statusWriter) WriteHeader(status int) {
	w.status = status
	w.ResponseWriter.WriteHeader(status)
}

// Unwrap lets http.ResponseController find the connection.
func (w *statusWriter) Unwrap() http.ResponseWriter { return w.ResponseWriter }

// Describe is part of prometheus.Collector.
func (m *metrics) Describe(out chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{descReady, descMessages, descNextOffset, descUnfinished, descStrands, descDead, descWaiting} {
		out <- d
	}
}

// Collect reads the backend; what it tells is as old as the scrape.
func (m *metrics) Collect(out chan<- prometheus.Metric) {
	gauge := func(d *prometheus.Desc, value int64, labels ...string) {
		out <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, float64(value), labels...)
	}
	ready := int64(0)
	if m.backend.Err() == nil {
		ready = 1
	}
	gauge(descReady, ready)
	for _, t := range m.backend.Topics() {
		gauge(descMessages, t.Messages, t.Name)
		for queue, next := range t.Offsets {
			gauge(descNextOffset, next, t.Name, strconv.Itoa(queue))
		}
	}
	for _, g := range m.backend.Groups() {
		for _, t := range g.Topics {
			gauge(descUnfinished, t.Unfinished, g.Spec.Name, t.Topic)
			gauge(descStrands, t.Ready, g.Spec.Name, t.Topic, "ready")
			gauge(descStrands, t.Leased, g.Spec.Name, t.Topic, "leased")
			gauge(descStrands, t.BackingOff, g.Spec.Name, t.Topic, "backing-off")
			gauge(descStrands, t.Parked, g.Spec.Name, t.Topic, "parked")
			gauge(descWaiting, int64(t.WaitingReceives), g.Spec.Name, t.Topic)
			out <- prometheus.MustNewConstMetric(descDead, prometheus.CounterValue, float64(t.DeadLettered), g.Spec.Name, t.Topic)
		}
	}
}
