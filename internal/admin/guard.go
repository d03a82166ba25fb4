package admin

import (
	"fmt"
	"mime"
	"net"
	"net/http"
	"net/netip"
	"strconv"
	"strings"
)

// Bounds of one request.
const (
	maxRequestBytes     = 64 << 10 // a request that carries no message
	maxSendRequestBytes = 8 << 20  // one message: 4 MiB of body, 4/3 as base64, and its properties
	maxHeaderBytes      = 16 << 10
)

// CheckLoopback refuses an address that others than this machine can reach (SEC-01). A name must stand for loopback
// addresses only.
func CheckLoopback(addr string) error {
	host, port, err := net.SplitHostPort(addr)
	if err != nil {
		return fmt.Errorf("%q is not HOST:PORT, such as 127.0.0.1:0 for any free port", addr)
	}
	if _, err := strconv.ParseUint(port, 10, 16); err != nil {
		return fmt.Errorf("port %q of address %q is not a number from 0 to 65535; 0 is any free port", port, addr)
	}
	if strings.EqualFold(host, "localhost") {
		return nil // net/http and net dial it as loopback; a resolver that says otherwise is caught after listening
	}
	if ip, err := netip.ParseAddr(host); err == nil && ip.Unmap().IsLoopback() {
		return nil
	}
	return fmt.Errorf("address %q is not a loopback address: without access control every listener stays on this machine; use 127.0.0.1 or [::1]", addr)
}

// guard is what every request passes before its handler: it keeps browsers on other sites, and names that were bound to
// 127.0.0.1 by someone else's DNS, away from a door that has no login.
type guard struct {
	next  http.Handler
	bound string // host that the listener is bound to
	cross *http.CrossOriginProtection
}

func newGuard(next http.Handler, bound string) *guard {
	host, _, err := net.SplitHostPort(bound)
	if err != nil {
		host = bound
	}
	return &guard{next: next, bound: host, cross: http.NewCrossOriginProtection()}
}

func (g *guard) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	header := w.Header()
	header.Set("X-Content-Type-Options", "nosniff")
	header.Set("Cache-Control", "no-store")
	header.Set("Content-Security-Policy", "default-src 'none'; frame-ancestors 'none'")
	header.Set("Cross-Origin-Resource-Policy", "same-origin")
	header.Set("Referrer-Policy", "no-referrer")
	if problem := g.refusal(r); problem != nil {
		writeProblem(w, problem)
		return
	}
	g.next.ServeHTTP(w, r)
}

func (g *guard) refusal(r *http.Request) *Problem {
	if !g.knownHost(r.Host) {
		return rejected(http.StatusMisdirectedRequest, "this host name is not one of the broker's", "use http://127.0.0.1 or http://localhost with the broker's port")
	}
	if r.Method == http.MethodGet || r.Method == http.MethodHead {
		return nil
	}
	// Sec-Fetch-Site where the browser sends it, else Origin against Host; a client that is no browser sends neither.
	if err := g.cross.Check(r); err != nil {
		return rejected(http.StatusForbidden, "request from another site", "change the broker's state from its own address or from a command line")
	}
	return nil
}

// notJSON refuses a body that does not say it is JSON: a form of another site could send it without asking first.
func notJSON(r *http.Request) *Problem {
	media, parameters, err := mime.ParseMediaType(r.Header.Get("Content-Type"))
	charset, named := parameters["charset"]
	if err != nil || media != "application/json" || named && !strings.EqualFold(charset, "utf-8") {
		return rejected(http.StatusUnsupportedMediaType, "content type is not application/json", "send a JSON object with Content-Type: application/json")
	}
	return nil
}

func (g *guard) knownHost(hostport string) bool {
	host := hostport
	if h, _, err := net.SplitHostPort(hostport); err == nil {
		host = h
	}
	host = strings.TrimSuffix(strings.TrimPrefix(host, "["), "]")
	switch {
	case strings.EqualFold(host, "localhost"), host == g.bound, host == "127.0.0.1", host == "::1":
		return true
	}
	return false
}
