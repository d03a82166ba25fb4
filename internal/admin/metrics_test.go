package admin

import (
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/keystrand/keystrand"
)

func newRecorder() *httptest.ResponseRecorder { return httptest.NewRecorder() }

func TestMetricsTellOfTopicsQueuesAndGroupsOnly(t *testing.T) {
	t.Parallel()
	f := newFake()
	f.topics["orders"] = keystrand.TopicSpec{Name: "orders", Type: keystrand.TopicFIFO, Queues: 2}
	f.groups["billing"] = keystrand.GroupSpec{Name: "billing", Ordered: true}
	f.parked[Strand{ConsumerGroup: "billing", Topic: "orders", MessageGroup: "order-1001"}] = true
	w := ask(t, f, "GET", "/metrics", "", nil)
	text := w.Body.String()
	for _, want := range []string{
		"keystrand_ready 1", `keystrand_topic_messages{topic="orders"} 3`, `keystrand_queue_next_offset{queue="1",topic="orders"} 0`,
		`keystrand_group_unfinished_messages{consumer_group="billing",topic="orders"} 2`,
		`keystrand_group_strands{consumer_group="billing",status="parked",topic="orders"} 1`, "go_goroutines",
	} {
		if !strings.Contains(text, want) {
			t.Errorf("missing: %s", want)
		}
	}
	if strings.Contains(text, "order-1001") || strings.Contains(text, "message_group") {
		t.Error("a message group is named")
	}
}
