package test

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	v2 "github.com/apache/rocketmq-clients/golang/v5/protocol/v2"

	"github.com/keystrand/keystrand/internal/history"
	"github.com/keystrand/keystrand/test/internal/sdk"
)

const (
	javaTopic = "java"
	javaKeys  = 60 // message groups beside the failing one
	// javaChain is how long a client that retries by itself stays with a failing message, at least.
	javaChain = 8 * time.Second
	// javaDelay is what the other groups may take with the failing message in front of all of them. It is far above what they
	// need, and far below javaChain.
	javaDelay = 3 * time.Second
)

// Goal: a push client that behaves as the Java SDK does, which runs an answer as one chain and retries a failed message
// within it, delays no other message group: an answer to a FIFO push client holds one message.
// Method: the failing message is the oldest, so that it heads the first answer; the client either obeys the Settings, which
// allow one attempt, or retries four times by itself, 2 s apart. The contrast, with push-batch many: the chain delays others.
func TestAClientThatRunsAnAnswerAsOneChainDelaysNoOtherGroup(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name     string
		batch    string
		attempts int
		chained  bool
	}{
		{"obeys the Settings", "one", 0, false},
		{"retries by itself", "one", 5, false},
		{"retries by itself, many messages an answer", "many", 5, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			r := startJavaRun(t, c.batch, c.attempts)
			slowest, chain := r.waitAll(t)
			t.Logf("the others took up to %v, the chain of the failing message %v", slowest, chain)
			switch {
			case c.attempts > 0 && chain < javaChain:
				t.Errorf("the failing message was given up after %v: this client did not retry by itself", chain)
			case !c.chained && slowest > javaDelay:
				t.Errorf("another group waited %v, want at most %v", slowest, javaDelay)
			case c.chained && slowest < javaChain:
				t.Errorf("no other group waited for the chain (%v): the client does not do what this test is about", slowest)
			}
			r.judge(t)
		})
	}
}

// javaRun is one client with one failing message group among others.
type javaRun struct {
	broker *brokerProcess
	tap    *sdk.Tap
	began  time.Time

	mu      sync.Mutex // guards all below
	handled map[string]time.Time
	failing []time.Time // attempts of the failing message, local ones too
	cured   bool
}

func startJavaRun(t *testing.T, batch string, attempts int) *javaRun {
	t.Helper()
	r := &javaRun{handled: map[string]time.Time{}}
	r.broker = startBroker(t, "--data", t.TempDir(), "--topic", javaTopic+":fifo:8")
	r.broker.keystrand(t, "group", "create", "chained", "--ordered", "--push-batch", batch, "--max-attempts", "100", "--back-off", "1s,1s")
	r.tap = sdk.NewTap(t, r.broker.GRPCAddr)
	r.tap.Main().Subscribe("chained", javaTopic, true, "earliest")
	producer := sdk.NewProducer(t, r.broker.GRPCAddr, javaTopic)
	for n := 1; n <= 2; n++ {
		for _, key := range append([]string{"failing"}, javaOthers()...) {
			if err := sdk.Send(t.Context(), producer, javaTopic, key, n); err != nil {
				t.Fatal(err)
			}
		}
	}
	r.began = time.Now()
	(&sdk.JavaLike{Group: "chained", Topic: javaTopic, Attempts: attempts, RetryAfter: javaChain / 4, Handle: r.handle}).Start(t, r.tap)
	return r
}

func javaOthers() (keys []string) {
	for k := range javaKeys {
		keys = append(keys, fmt.Sprintf("user-%02d", k))
	}
	return keys
}

func (r *javaRun) handle(_ context.Context, m *v2.Message) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	name := string(m.GetBody())
	if name == "failing/1" && !r.cured {
		r.failing = append(r.failing, time.Now())
		return false
	}
	r.handled[name] = time.Now()
	return true
}

// waitAll waits until all other groups are done, then mends the failing one, and tells how long the slowest of the others
// took and how long the failing message was tried.
func (r *javaRun) waitAll(t *testing.T) (slowest, chain time.Duration) {
	t.Helper()
	r.await(t, 2*javaKeys, 5)
	r.mu.Lock()
	for _, at := range r.handled {
		slowest = max(slowest, at.Sub(r.began))
	}
	chain = r.failing[len(r.failing)-1].Sub(r.failing[0])
	r.cured = true
	r.mu.Unlock()
	r.await(t, 2*javaKeys+2, 0)
	return slowest, chain
}

// await waits for so many messages handled and so many attempts of the failing one.
func (r *javaRun) await(t *testing.T, handled, failed int) {
	t.Helper()
	sdk.Eventually(t, 40*time.Second, fmt.Sprintf("%d messages handled, %d attempts failed", handled, failed), func() bool {
		r.mu.Lock()
		defer r.mu.Unlock()
		return len(r.handled) >= handled && len(r.failing) >= failed
	})
}

func (r *javaRun) judge(t *testing.T) {
	t.Helper()
	r.tap.Main().DrainBegin()
	sdk.Eventually(t, 10*time.Second, "everything acked", func() bool { return unfinished(t, r.broker, "chained") == 0 })
	r.tap.Main().DrainEnd()
	r.broker.keystrand(t, "group", "create", "read-back")
	r.tap.NoteReadBack(t, javaTopic, sdk.ReadAll(t, r.broker.GRPCAddr, "read-back", javaTopic, messagesOf(t, r.broker, javaTopic)))
	r.tap.CheckJudged(t, history.Options{})
}
