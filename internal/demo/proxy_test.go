package demo

import (
	"bytes"
	"context"
	"io"
	"net"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/keystrand/keystrand/internal/task"
)

// proxied starts a server that counts calls by path, and a client that reaches it over the proxy.
func proxied(t *testing.T) (p *proxy, calls *[2]atomic.Int64, call func(path string, bodyBytes int) error) {
	calls = new([2]atomic.Int64)
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	protocols := new(http.Protocols)
	protocols.SetUnencryptedHTTP2(true)
	server := &http.Server{Protocols: protocols, Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if _, err := io.Copy(io.Discard, r.Body); err != nil {
			return // the request did not arrive whole
		}
		i := 0
		if r.URL.Path == sendPath {
			i = 1
		}
		calls[i].Add(1)
	})}
	tasks := task.NewGroup(t.Context())
	tasks.Go("server", func(context.Context) error { _ = server.Serve(listener); return nil })
	if p, err = newProxy(tasks); err != nil {
		t.Fatal(err)
	}
	p.setTarget(listener.Addr().String())
	client := &http.Client{Transport: &http.Transport{Protocols: protocols}, Timeout: 10 * time.Second}
	t.Cleanup(func() {
		client.CloseIdleConnections()
		if err := server.Close(); err != nil {
			t.Error(err)
		}
		if err := tasks.Stop(); err != nil {
			t.Error(err)
		}
	})
	call = func(path string, bodyBytes int) error {
		// A request with a body and no GetBody is not repeated by the client on its own.
		request, err := http.NewRequest(http.MethodPost, "http://"+p.address()+path, io.NopCloser(strings.NewReader(strings.Repeat("x", bodyBytes))))
		if err != nil {
			t.Fatal(err)
		}
		response, err := client.Do(request)
		if err != nil {
			return err
		}
		return response.Body.Close()
	}
	return p, calls, call
}

func TestALostRequestNeverReachesTheBroker(t *testing.T) {
	t.Parallel()
	p, calls, call := proxied(t)
	p.arm(loseRequest)
	if err := call("/other", 10); err != nil {
		t.Fatalf("a call that is no send: %v", err)
	}
	if err := call(sendPath, 20_000); err == nil {
		t.Fatal("the send was answered although its request was lost")
	}
	if got := <-p.lost; got != loseRequest || calls[1].Load() != 0 {
		t.Fatalf("lost %v, the server saw %d sends; want the request lost and none seen", got, calls[1].Load())
	}
	if err := call(sendPath, 20_000); err != nil || calls[1].Load() != 1 {
		t.Fatalf("the send after it: %v, %d seen; one is lost, not two", err, calls[1].Load())
	}
}

func TestALostAnswerIsOfASendThatWasCarriedOut(t *testing.T) {
	t.Parallel()
	p, calls, call := proxied(t)
	p.arm(loseAnswer)
	if err := call("/other", 10); err != nil {
		t.Fatalf("a call that is no send: %v", err)
	}
	if err := call(sendPath, 100); err == nil {
		t.Fatal("the send was answered although its answer was lost")
	}
	if got := <-p.lost; got != loseAnswer || calls[1].Load() != 1 {
		t.Fatalf("lost %v, the server saw %d sends; want the answer lost and one seen", got, calls[1].Load())
	}
	if err := call(sendPath, 100); err != nil || calls[1].Load() != 2 {
		t.Fatalf("the send after it: %v, %d seen", err, calls[1].Load())
	}
}

func TestWithoutABrokerConnectionsEnd(t *testing.T) {
	t.Parallel()
	p, calls, call := proxied(t)
	p.setTarget("")
	if err := call("/other", 10); err == nil || calls[0].Load() != 0 {
		t.Fatalf("got %v and %d calls", err, calls[0].Load())
	}
}

func TestBytesThatAreNoHTTP2AreCarried(t *testing.T) {
	t.Parallel()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	tasks := task.NewGroup(t.Context())
	sent := bytes.Repeat([]byte("not HTTP/2 at all. "), 1000)
	received := make(chan []byte, 1)
	tasks.Go("server", func(context.Context) error {
		c, err := listener.Accept()
		if err != nil {
			return err
		}
		defer c.Close()
		got := make([]byte, len(sent))
		_, err = io.ReadFull(c, got)
		received <- got
		return err
	})
	p, err := newProxy(tasks)
	if err != nil {
		t.Fatal(err)
	}
	p.setTarget(listener.Addr().String())
	c, err := net.Dial("tcp", p.address())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := c.Write(sent); err != nil {
		t.Fatal(err)
	}
	if got := <-received; !bytes.Equal(got, sent) {
		t.Error("the bytes changed on the way")
	}
	_ = c.Close() // the peer is gone already
	if err := tasks.Stop(); err != nil {
		t.Error(err)
	}
}
