package embedded

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"time"

	"github.com/keystrand/keystrand"
)

// remoteAdmin manages topics and groups over HTTP and JSON.
type remoteAdmin struct{ base string }

// CreateTopic makes a topic.
func (a *remoteAdmin) CreateTopic(ctx context.Context, t keystrand.TopicSpec) error {
	return a.post(ctx, "/v1/topics", "topic "+t.Name, struct {
		Name   string `json:"name"`
		Type   string `json:"type,omitempty"`
		Queues int    `json:"queues,omitempty"`
	}{t.Name, string(t.Type), t.Queues})
}

// CreateGroup makes a consumer group.
func (a *remoteAdmin) CreateGroup(ctx context.Context, g keystrand.GroupSpec) error {
	return a.post(ctx, "/v1/groups", "consumer group "+g.Name, struct {
		Name            string `json:"name"`
		Ordered         bool   `json:"ordered"`
		MaxAttempts     int    `json:"max_attempts,omitempty"`
		AtLimit         string `json:"at_limit,omitempty"`
		From            string `json:"from,omitempty"`
		OrderLevel      string `json:"order_level,omitempty"`
		PushBatch       string `json:"push_batch,omitempty"`
		PushWindow      int    `json:"push_window,omitempty"`
		MaxProcessingMs int64  `json:"max_processing_ms,omitempty"`
		BackOffMinMs    int64  `json:"back_off_min_ms,omitempty"`
		BackOffMaxMs    int64  `json:"back_off_max_ms,omitempty"`
	}{
		g.Name, g.Ordered, g.MaxAttempts, string(g.AtLimit), g.From, g.OrderLevel, g.PushBatch, g.PushWindow,
		g.MaxProcessing.Milliseconds(), g.BackOffMin.Milliseconds(), g.BackOffMax.Milliseconds(),
	})
}

const (
	adminTimeout   = 10 * time.Second
	maxAnswerBytes = 1 << 20
)

func (a *remoteAdmin) post(ctx context.Context, path, what string, ask any) error {
	if a.base == "" {
		return fmt.Errorf("create %s: the broker is managed over HTTP: set DialOptions.AdminURL: %w", what, keystrand.ErrRejected)
	}
	body, err := json.Marshal(ask)
	if err != nil {
		return fmt.Errorf("create %s: %w: %w", what, err, keystrand.ErrRejected)
	}
	ctx, cancel := context.WithTimeout(ctx, adminTimeout)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, a.base+path, bytes.NewReader(body))
	if err != nil {
		return fmt.Errorf("create %s: %w: %w", what, err, keystrand.ErrRejected)
	}
	request.Header.Set("Content-Type", "application/json")
	answer, err := http.DefaultClient.Do(request)
	if err != nil {
		return fmt.Errorf("create %s at %s: %w: %w", what, a.base, err, keystrand.ErrUnknown)
	}
	defer func() { _ = answer.Body.Close() }()
	text, err := io.ReadAll(io.LimitReader(answer.Body, maxAnswerBytes))
	if err != nil {
		return fmt.Errorf("create %s at %s: %w: %w", what, a.base, err, keystrand.ErrUnknown)
	}
	if answer.StatusCode == http.StatusOK {
		return nil
	}
	return fmt.Errorf("create %s: %w", what, problemOf(answer.StatusCode, text))
}

// problemOf reads the broker's error answer.
func problemOf(statusCode int, text []byte) error {
	var p struct {
		What  string `json:"error"`
		Class string `json:"class"`
		Code  string `json:"code"`
	}
	if json.Unmarshal(text, &p) != nil || p.What == "" {
		return fmt.Errorf("the answer is %d, not one of a keystrand broker: %w", statusCode, keystrand.ErrRejected)
	}
	if p.Code == "exists" {
		return fmt.Errorf("%s: %w", p.What, keystrand.ErrExists)
	}
	class, ok := map[string]error{
		"rejected": keystrand.ErrRejected, "retry-later": keystrand.ErrRetryLater, "superseded": keystrand.ErrSuperseded, "corrupt": keystrand.ErrCorrupt,
	}[p.Class]
	if !ok {
		class = keystrand.ErrUnknown
	}
	return fmt.Errorf("%s: %w", p.What, class)
}
