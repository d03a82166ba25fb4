package admin

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/keystrand/keystrand"
)

// ask runs one request through the whole handler, as a well-behaved local client sends it, after change has had its way.
func ask(t *testing.T, f *fakeBackend, method, path, body string, change func(*http.Request)) *httptest.ResponseRecorder {
	t.Helper()
	r := httptest.NewRequest(method, path, strings.NewReader(body))
	r.Host = "127.0.0.1:8088"
	if method != http.MethodGet {
		r.Header.Set("Content-Type", "application/json")
	}
	if change != nil {
		change(r)
	}
	w := httptest.NewRecorder()
	NewHandler(Options{Backend: f}, "127.0.0.1:8088").ServeHTTP(w, r)
	return w
}

func TestSEC01AnAddressThatOthersCanReachIsRefused(t *testing.T) {
	t.Parallel()
	for addr, fine := range map[string]bool{
		"127.0.0.1:8088": true, "127.9.9.9:0": true, "[::1]:8088": true, "localhost:0": true, "[::ffff:127.0.0.1]:1": true,
		"0.0.0.0:8088": false, ":8088": false, "[::]:8088": false, "10.0.0.1:8088": false, "broker.example:8088": false,
		"localhost.example:1": false, "127.0.0.1": false, "": false, "1270.0.1:8088": false, "127.0.0.1:": false, "127.0.0.1:99999": false, "localhost:http": false,
	} {
		if err := CheckLoopback(addr); (err == nil) != fine {
			t.Errorf("%q: got %v, want fine=%v", addr, err, fine)
		}
	}
	if _, err := Open(Options{Backend: newFake(), Addr: "0.0.0.0:0"}); err == nil {
		t.Error("Open listens on every address")
	}
}

func TestSEC72AForeignHostNameIsRefused(t *testing.T) {
	t.Parallel()
	for host, fine := range map[string]bool{
		"127.0.0.1:8088": true, "127.0.0.1": true, "localhost:9999": true, "LOCALHOST:8088": true, "[::1]:8088": true,
		"evil.example": false, "evil.example:8088": false, "127.0.0.1.evil.example:8088": false, "localhost.evil.example": false, "": false, "0.0.0.0:8088": false,
	} {
		for _, path := range []string{"/healthz", "/v1/topics", "/metrics"} {
			w := ask(t, newFake(), "GET", path, "", func(r *http.Request) { r.Host = host })
			if (w.Code == http.StatusOK) != fine {
				t.Errorf("%s with host %q: got %d, want fine=%v", path, host, w.Code, fine)
			}
		}
	}
}

func TestSEC71AChangeFromAnotherSiteIsRefused(t *testing.T) {
	t.Parallel()
	cases := []struct {
		name   string
		header map[string]string
		fine   bool
	}{
		{"no browser", nil, true},
		{"typed by the user", map[string]string{"Sec-Fetch-Site": "none"}, true},
		{"own page", map[string]string{"Sec-Fetch-Site": "same-origin", "Origin": "http://127.0.0.1:8088"}, true},
		{"own page of an old browser", map[string]string{"Origin": "http://127.0.0.1:8088"}, true},
		{"another site", map[string]string{"Sec-Fetch-Site": "cross-site"}, false},
		{"another port of this machine", map[string]string{"Sec-Fetch-Site": "same-site"}, false},
		{"another site, old browser", map[string]string{"Origin": "http://evil.example"}, false},
		{"another port, old browser", map[string]string{"Origin": "http://127.0.0.1:3000"}, false},
		{"no origin of its own", map[string]string{"Origin": "null"}, false},
	}
	for _, c := range cases {
		for _, path := range []string{"/v1/topics", "/v1/groups", "/v1/park", "/v1/resume", "/v1/send", "/v1/receive", "/v1/ack"} {
			f := newFake()
			w := ask(t, f, "POST", path, "{}", func(r *http.Request) {
				for name, value := range c.header {
					r.Header.Set(name, value)
				}
			})
			if (w.Code != http.StatusForbidden) != c.fine {
				t.Errorf("%s, %s: got %d", c.name, path, w.Code)
			}
			if !c.fine && f.changeCount() > 0 {
				t.Errorf("%s, %s: something was changed", c.name, path)
			}
		}
	}
}

func TestSEC71GetChangesNothing(t *testing.T) {
	t.Parallel()
	f := newFake()
	f.topics["orders"] = keystrand.TopicSpec{Name: "orders", Type: keystrand.TopicFIFO, Queues: 2}
	f.groups["billing"] = keystrand.GroupSpec{Name: "billing", Ordered: true}
	crawl := func() (all string) {
		for _, path := range []string{"/healthz", "/readyz", "/v1/topics", "/v1/topics/orders", "/v1/groups", "/v1/groups/billing", "/v1/groups/billing/lag", "/v1/explain?group=billing&topic=orders&key=a"} {
			w := ask(t, f, "GET", path, "", nil)
			if w.Code != http.StatusOK {
				t.Errorf("GET %s: %d %s", path, w.Code, w.Body)
			}
			all += w.Body.String()
		}
		return all
	}
	if first, second := crawl(), crawl(); first != second || f.changeCount() != 0 {
		t.Errorf("the second crawl differs or something was changed (%d changes):\n%s\n%s", f.changeCount(), first, second)
	}
	for _, path := range []string{"/v1/park", "/v1/resume", "/v1/send", "/v1/receive", "/v1/ack"} {
		for _, method := range []string{"GET", "HEAD"} {
			if w := ask(t, f, method, path, "{}", nil); w.Code != http.StatusMethodNotAllowed {
				t.Errorf("%s %s: got %d, want 405", method, path, w.Code)
			}
		}
	}
}

func TestAChangeMustSayThatItIsJSON(t *testing.T) {
	t.Parallel()
	for kind, fine := range map[string]bool{
		"application/json": true, "application/json; charset=utf-8": true, "application/json; charset=latin1": false,
		"": false, "text/plain": false, "application/x-www-form-urlencoded": false, "multipart/form-data; boundary=x": false, "application/json/x": false,
	} {
		w := ask(t, newFake(), "POST", "/v1/topics", `{"name":"orders"}`, func(r *http.Request) { r.Header.Set("Content-Type", kind) })
		if (w.Code == http.StatusOK) != fine {
			t.Errorf("%q: got %d", kind, w.Code)
		}
	}
}

func TestARequestThatIsNotTheObjectOfItsPathIsRefused(t *testing.T) {
	t.Parallel()
	for name, body := range map[string]string{
		"unknown field": `{"name":"orders","queus":3}`, "second value": `{"name":"orders"}{}`, "list": `[]`, "empty": ``, "cut": `{"name":"ord`,
		"wrong type": `{"name":3}`, "too deep": strings.Repeat(`{"name":`, 20000), "too large": `{"name":"` + strings.Repeat("a", maxRequestBytes) + `"}`,
	} {
		f := newFake()
		w := ask(t, f, "POST", "/v1/topics", body, nil)
		if w.Code != http.StatusBadRequest && w.Code != http.StatusRequestEntityTooLarge {
			t.Errorf("%s: got %d", name, w.Code)
		}
		if f.changeCount() > 0 {
			t.Errorf("%s: something was changed", name)
		}
	}
}

// What is wrong with a request is said in the words of JSON and of the API, with the place.
func TestARefusalNamesTheField(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ method, path, body, want string }{
		{"POST", "/v1/send", ``, "it is empty"},
		{"POST", "/v1/send", `{"topic":`, "ends too early"},
		{"POST", "/v1/send", `[]`, "it is an array, not an object"},
		{"POST", "/v1/send", `{"topic":3}`, "topic is a number, not a string"},
		{"POST", "/v1/send", `{"topic":"t","body":true}`, "body is true or false, not a string"},
		{"POST", "/v1/send", `{"topic":"t","body_base64":"!"}`, "body_base64 is not base64"},
		{"POST", "/v1/send", `{"topic":"t","body_base64":7}`, "body_base64 is a number, not a string"},
		{"POST", "/v1/send", `{"topic":"t","keys":{}}`, "keys is an object, not an array"},
		{"POST", "/v1/send", `{"topic":"t","properties":{"a":1}}`, "is a number, not a string"},
		{"POST", "/v1/send", `{"topik":"t"}`, `unknown field \"topik\"`},
		{"POST", "/v1/receive", `{"max":1.5}`, "max is 1.5, not a whole number"},
		{"POST", "/v1/receive", `{"consumer_group":"g","topic":"t","max":33}`, "give 1 to 32"},
		{"POST", "/v1/receive", `{"consumer_group":"g","topic":"t","wait_ms":40000}`, "give 0 to 30000"},
		{"POST", "/v1/send?topic=t", `{}`, "query parameter \\\"topic\\\" is not known"},
		{"GET", "/v1/explain?group=g&key=k", ``, "query parameter topic is missing"},
		{"GET", "/v1/explain?group=g&topic=t&topic=u&key=k", ``, "topic is given twice"},
		{"GET", "/v1/explain?group=g&topic=t&key=k&kye=k", ``, "kye"},
		{"GET", "/v1/topics?%zz", ``, "percent-encoded"},
	} {
		w := ask(t, newFake(), c.method, c.path, c.body, nil)
		text := w.Body.String()
		if w.Code != http.StatusBadRequest || !strings.Contains(text, c.want) {
			t.Errorf("%s %s %s: got %d %s, want %s", c.method, c.path, c.body, w.Code, text, c.want)
		}
		for _, leak := range []string{"Go ", "struct", "admin.", "int64", "uint8", "EOF"} {
			if strings.Contains(text, leak) {
				t.Errorf("%s %s: %q is Go's: %s", c.path, c.body, leak, text)
			}
		}
	}
}

func TestAnUnknownPathOrMethodIsAnsweredAsJSON(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		method, path, allow string
		code                int
	}{
		{"GET", "/nothing", "", 404}, {"DELETE", "/v1/nothing", "", 404}, {"POST", "/", "", 404}, {"GET", "/v1/topics/a/b", "", 404},
		{"DELETE", "/v1/topics/orders", "GET, HEAD", 405}, {"PUT", "/v1/topics", "GET, HEAD, POST", 405}, {"GET", "/v1/send", "POST", 405}, {"OPTIONS", "/v1/ack", "POST", 405},
	} {
		w := ask(t, newFake(), c.method, c.path, "", func(r *http.Request) { r.Header.Del("Content-Type") })
		var problem Problem
		err := json.Unmarshal(w.Body.Bytes(), &problem)
		if w.Code != c.code || w.Header().Get("Allow") != c.allow || err != nil || problem.Class != "rejected" || problem.DoThis == "" || w.Header().Get("Content-Type") != "application/json" {
			t.Errorf("%s %s: got %d %q %s, %v", c.method, c.path, w.Code, w.Header().Get("Allow"), w.Body, err)
		}
	}
}

func TestSEC30HostileNamesAreRefusedOnEveryWayIn(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"..", "../../etc", "a/b", `a\b`, "a\x00b", "a\nb", "", strings.Repeat("a", 256), "ö", "a b", "."} {
		text, err := json.Marshal(name)
		if err != nil {
			t.Fatal(err)
		}
		for path, body := range map[string]string{
			"/v1/topics": `{"name":%s}`, "/v1/groups": `{"name":%s}`, "/v1/send": `{"topic":%s,"body":"x"}`,
			"/v1/receive": `{"consumer_group":%s,"topic":"orders"}`, "/v1/ack": `{"consumer_group":"g","topic":%s,"receipt_handles":["x"]}`,
			"/v1/park": `{"consumer_group":"g","topic":%s,"message_group":"k"}`, "/v1/resume": `{"consumer_group":%s,"topic":"t","message_group":"k"}`,
		} {
			f := newFake()
			if w := ask(t, f, "POST", path, fmt.Sprintf(body, text), nil); w.Code != http.StatusBadRequest || f.changeCount() > 0 {
				t.Errorf("%s with %q: got %d, %d changes", path, name, w.Code, f.changeCount())
			}
		}
	}
}

func TestSEC09ErrorsTellNoPath(t *testing.T) {
	t.Parallel()
	secret := "/var/lib/secret-place"
	cause := &fs.PathError{Op: "write", Path: secret + "/000001.log", Err: errors.New("input/output error")}
	for name, fail := range map[string]error{
		"read-only":    fmt.Errorf("append to %s: %w: %w", secret, keystrand.ErrReadOnly, cause),
		"corrupt":      fmt.Errorf("segment %s: %w", secret, keystrand.ErrCorrupt),
		"unclassed":    cause,
		"retry later":  fmt.Errorf("%s: %w", secret, keystrand.ErrRetryLater),
		"unknown":      fmt.Errorf("%s: %w", secret, keystrand.ErrUnknown),
		"rejected too": fmt.Errorf("%w: %w", keystrand.ErrRejected, cause),
	} {
		f := newFake()
		f.fail = fail
		var log bytes.Buffer
		r := httptest.NewRequest("POST", "/v1/topics", strings.NewReader(`{"name":"orders"}`))
		r.Host = "localhost"
		r.Header.Set("Content-Type", "application/json")
		w := httptest.NewRecorder()
		NewHandler(Options{Backend: f, Logger: slog.New(slog.NewTextHandler(&log, nil))}, "127.0.0.1:1").ServeHTTP(w, r)
		if strings.Contains(w.Body.String(), "secret") || w.Code < 400 {
			t.Errorf("%s: answer %d tells %s", name, w.Code, w.Body)
		}
		if w.Code >= 500 && !strings.Contains(log.String(), secret) {
			t.Errorf("%s: the log does not tell the place: %s", name, &log)
		}
	}
}

func TestSEC08HealthTellsUpOrDownOnly(t *testing.T) {
	t.Parallel()
	f := newFake()
	f.topics["orders"] = keystrand.TopicSpec{Name: "orders", Type: keystrand.TopicFIFO, Queues: 2}
	f.down = errors.New("disk is gone at /var/lib/x")
	if w := ask(t, f, "GET", "/healthz", "", nil); w.Code != http.StatusOK || w.Body.String() != "up\n" {
		t.Errorf("healthz: %d %q", w.Code, w.Body)
	}
	if w := ask(t, f, "GET", "/readyz", "", nil); w.Code != http.StatusServiceUnavailable || w.Body.String() != "down\n" {
		t.Errorf("readyz of a broken broker: %d %q", w.Code, w.Body)
	}
	f.down = nil
	if w := ask(t, f, "GET", "/readyz", "", nil); w.Code != http.StatusOK || w.Body.String() != "up\n" {
		t.Errorf("readyz: %d %q", w.Code, w.Body)
	}
}

func TestAnswersCarryTheHeadersThatKeepBrowsersAway(t *testing.T) {
	t.Parallel()
	for _, path := range []string{"/healthz", "/v1/topics", "/v1/topics/none", "/nothing"} {
		w := ask(t, newFake(), "GET", path, "", nil)
		for name, want := range map[string]string{"X-Content-Type-Options": "nosniff", "Cache-Control": "no-store", "Cross-Origin-Resource-Policy": "same-origin", "Access-Control-Allow-Origin": ""} {
			if got := w.Header().Get(name); got != want {
				t.Errorf("%s: %s is %q, want %q", path, name, got, want)
			}
		}
	}
}

func TestSEC07ThereIsNoProfilingRoute(t *testing.T) {
	t.Parallel()
	for _, path := range []string{"/debug/pprof/", "/debug/pprof/heap", "/debug/vars", "/debug/requests", "/failpoints"} {
		if w := ask(t, newFake(), "GET", path, "", nil); w.Code != http.StatusNotFound {
			t.Errorf("%s: got %d", path, w.Code)
		}
	}
}

// SEC-50: a panic while one request is served ends that request only.
func TestSEC50APanicEndsOneRequest(t *testing.T) {
	t.Parallel()
	f := newFake()
	f.groups["billing"] = keystrand.GroupSpec{Name: "billing"}
	client, _ := serving(t, f)
	f.panics = true
	_, err := client.Receive(t.Context(), Receive{ConsumerGroup: "billing", Topic: "orders"})
	var problem *Problem
	if !errors.As(err, &problem) || problem.Status != http.StatusInternalServerError || problem.Request == "" || strings.Contains(err.Error(), "secret") {
		t.Errorf("got %v", err)
	}
	if _, err := client.Topics(t.Context()); err != nil {
		t.Errorf("the next request: %v", err)
	}
}

// SEC-46: a client that sends its request drop by drop is cut.
func TestSEC46AClientThatNeverEndsItsHeaderIsCut(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("waits for the header timeout, 5 s")
	}
	_, s := serving(t, newFake())
	conn, err := net.Dial("tcp", s.Addr())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	if err := conn.SetDeadline(time.Now().Add(readHeaderTimeout + 5*time.Second)); err != nil {
		t.Fatal(err)
	}
	if _, err := conn.Write([]byte("GET /healthz HTTP/1.1\r\nHost: 127.0.0.1\r\nX-Slow: ")); err != nil {
		t.Fatal(err)
	}
	text, err := io.ReadAll(conn)
	if err != nil || strings.Contains(string(text), "200") {
		t.Errorf("got %q, %v; want the connection closed", text, err)
	}
}

// FuzzRequests sends any bytes to any path: no panic, and an answer that is JSON whenever it says so.
func FuzzRequests(f *testing.F) {
	for _, path := range []string{"/v1/topics", "/v1/groups", "/v1/send", "/v1/receive", "/v1/ack", "/v1/park", "/v1/resume", "/v1/explain", "/v1/topics/%zz", "/healthz"} {
		f.Add("POST", path, `{"name":"orders","topic":"orders","consumer_group":"g","message_group":"k","receipt_handles":["h"],"body":"x"}`)
		f.Add("GET", path+"?group=g&topic=t&key=k", ``)
	}
	f.Add("POST", "/v1/send", `{"topic":"orders","body_base64":"/wA="}`)
	backend := newFake()
	backend.panicOnMisuse = true
	handler := NewHandler(Options{Backend: backend}, "127.0.0.1:8088")
	f.Fuzz(func(t *testing.T, method, path, body string) {
		target, err := url.ParseRequestURI(path)
		if err != nil || method == "" {
			return
		}
		r := &http.Request{
			Method: method, URL: target, Host: "127.0.0.1:8088", Header: http.Header{"Content-Type": {"application/json"}},
			Body: io.NopCloser(strings.NewReader(body)), ProtoMajor: 1, ProtoMinor: 1,
		}
		w := httptest.NewRecorder()
		handler.ServeHTTP(w, r)
		if w.Code == http.StatusInternalServerError {
			t.Errorf("%s %s with %q: %s", method, path, body, w.Body)
		}
		if w.Header().Get("Content-Type") == "application/json" && !json.Valid(w.Body.Bytes()) {
			t.Errorf("%s %s: not JSON: %q", method, path, w.Body)
		}
	})
}
