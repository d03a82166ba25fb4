package server_test

import (
	"bytes"
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	v2 "github.com/apache/rocketmq-clients/golang/v5/protocol/v2"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/keystrand/keystrand"
)

// C13: the receipt echoes the id that the producer gave, and the consumer sees it.
func TestC13MessageIDsAreEchoed(t *testing.T) {
	t.Parallel()
	c := start(t, nil).dial(t, "c")
	m := newMessage("orders", "A", "1")
	id := m.GetSystemProperties().GetMessageId()
	answer, err := c.SendMessage(c.ctx(t, callTime), &v2.SendMessageRequest{Messages: []*v2.Message{m}})
	if err != nil || answer.GetEntries()[0].GetMessageId() != id {
		t.Fatalf("got %v, %v; want id %s", answer, err, id)
	}
	if got := c.take(t, poll{group: "g", topic: "orders", lease: time.Minute, wait: 5 * time.Second}); got.GetSystemProperties().GetMessageId() != id {
		t.Errorf("received %v, want id %s", got, id)
	}
}

// C14: a body of exactly 4 MiB passes byte by byte, over TLS and plaintext; one byte more is 41301.
func TestC14LargestBody(t *testing.T) {
	t.Parallel()
	e := start(t, nil)
	want := make([]byte, 4<<20)
	for i := range want {
		want[i] = byte(i * 7 >> 3)
	}
	for i, c := range []*raw{e.dial(t, "plain"), e.dialTLS(t, "tls")} {
		m := newMessage("orders", fmt.Sprint("large-", i), "")
		m.Body = want
		if code := c.sendCode(t, m); code != v2.Code_OK {
			t.Fatalf("4 MiB: got %v", code)
		}
		got := c.take(t, poll{group: "g", topic: "orders", lease: time.Minute, wait: 5 * time.Second})
		if !bytes.Equal(got.GetBody(), want) {
			t.Error("4 MiB: another body came back")
		}
		m = newMessage("orders", "A", "")
		m.Body = append(want, 0)
		if code := c.sendCode(t, m); code != v2.Code_MESSAGE_BODY_TOO_LARGE {
			t.Errorf("4 MiB + 1: got %v, want 41301", code)
		}
	}
}

// C15 to C21: what is refused, with its code, at the top and in each entry.
func TestC15ToC21RefusedSends(t *testing.T) {
	t.Parallel()
	c := start(t, nil).dial(t, "c")
	fifo := func(change func(*v2.Message)) []*v2.Message {
		m := newMessage("orders", "A", "x")
		change(m)
		return []*v2.Message{m}
	}
	properties := func(n int, value string) func(*v2.Message) {
		return func(m *v2.Message) {
			m.UserProperties = map[string]string{}
			for i := range n {
				m.UserProperties[fmt.Sprint("p", i)] = value
			}
		}
	}
	for name, x := range map[string]struct {
		in   []*v2.Message
		want v2.Code
	}{
		"C15 empty body":             {fifo(func(m *v2.Message) { m.Body = nil }), 41302},
		"C15 no messages":            {nil, 40016},
		"C15 two topics":             {[]*v2.Message{newMessage("orders", "A", "x"), newMessage("one-queue", "A", "x")}, 40016},
		"C16 129 properties":         {fifo(properties(129, "v")), 43101},
		"C16 17 KiB of properties":   {fifo(properties(17, strings.Repeat("x", 1024))), 43101},
		"C17 property KEYS":          {fifo(func(m *v2.Message) { m.UserProperties = map[string]string{"KEYS": "x"} }), 40007},
		"C17 newline in a property":  {fifo(func(m *v2.Message) { m.UserProperties = map[string]string{"p": "a\nb"} }), 40007},
		"C17 the token":              {fifo(func(m *v2.Message) { m.UserProperties = map[string]string{keystrand.PropertyToken: "1"} }), 40007},
		"C18 tag with a bar":         {fifo(func(m *v2.Message) { m.SystemProperties.Tag = new("a|b") }), 40004},
		"C18 blank key":              {fifo(func(m *v2.Message) { m.SystemProperties.Keys = []string{" "} }), 40005},
		"C18 blank id":               {fifo(func(m *v2.Message) { m.SystemProperties.MessageId = "" }), 40009},
		"C19 group of 63 bytes":      {[]*v2.Message{newMessage("orders", strings.Repeat("€", 21), "x")}, 20000},
		"C19 group of 64 bytes":      {[]*v2.Message{newMessage("orders", strings.Repeat("€", 21)+"x", "x")}, 40006},
		"C20 FIFO to a normal topic": {[]*v2.Message{newMessage("notes", "A", "x")}, 40014},
		"C20 normal to a FIFO topic": {[]*v2.Message{newMessage("orders", "", "x")}, 40014},
		"C20 a delayed message":      {fifo(func(m *v2.Message) { m.SystemProperties.DeliveryTimestamp = timestamppb.Now() }), 40014},
		"C21 topic of 128 bytes":     {[]*v2.Message{newMessage(strings.Repeat("t", 128), "A", "x")}, 40002},
		"C21 topic with a dot":       {[]*v2.Message{newMessage("a.b", "A", "x")}, 40002},
		"unknown topic":              {[]*v2.Message{newMessage("missing", "A", "x")}, 40402},
		"system topic":               {[]*v2.Message{newMessage("rmq_sys_x", "A", "x")}, 40002},
		"two of one topic":           {[]*v2.Message{newMessage("orders", "A", "x"), newMessage("orders", "B", "y")}, 20000},
	} {
		if got := c.sendCode(t, x.in...); got != x.want {
			t.Errorf("%s: got %v, want %d", name, got, x.want)
		}
	}
}

// A request of several messages is all or nothing: one fault, and none is stored.
func TestARefusedBatchStoresNothing(t *testing.T) {
	t.Parallel()
	c := start(t, nil).dial(t, "c")
	bad := newMessage("orders", "A", "2")
	bad.SystemProperties.Tag = new("a|b")
	if code := c.sendCode(t, newMessage("orders", "A", "1"), bad); code != v2.Code_ILLEGAL_MESSAGE_TAG {
		t.Fatalf("got %v, want 40004", code)
	}
	c.none(t, poll{group: "g", topic: "orders", lease: time.Minute, wait: 200 * time.Millisecond})
}

// C23: what a producer attaches comes back; the token is added.
func TestC23PropertiesRoundTrip(t *testing.T) {
	t.Parallel()
	c := start(t, nil).dial(t, "c")
	m := newMessage("orders", "A", "x")
	born := time.Now().Add(-time.Hour).Truncate(time.Millisecond)
	m.SystemProperties.Tag, m.SystemProperties.Keys, m.SystemProperties.BornTimestamp = new("paid"), []string{"k1", "k2"}, timestamppb.New(born)
	m.UserProperties = map[string]string{"event_id": "e1", "größe": "ü"}
	if code := c.sendCode(t, m); code != v2.Code_OK {
		t.Fatal(code)
	}
	got := c.take(t, poll{group: "g", topic: "orders", lease: time.Minute, wait: 5 * time.Second})
	system, user := got.GetSystemProperties(), got.GetUserProperties()
	if system.GetTag() != "paid" || strings.Join(system.GetKeys(), ",") != "k1,k2" || !system.GetBornTimestamp().AsTime().Equal(born) || system.GetMessageGroup() != "A" {
		t.Errorf("got %v", system)
	}
	if user["event_id"] != "e1" || user["größe"] != "ü" || user[keystrand.PropertyToken] == "" || len(user[keystrand.PropertyBroker]) != 16 {
		t.Errorf("got %v", user)
	}
}

// C24: all messages of a group land in one queue, whatever queue the client wrote down.
func TestC24OneGroupOneQueue(t *testing.T) {
	t.Parallel()
	c := start(t, nil).dial(t, "c")
	queues := map[string]int32{}
	for i := range 60 {
		group := fmt.Sprint("group-", i%6)
		m := newMessage("orders", group, fmt.Sprint(i))
		m.SystemProperties.QueueId = int32(i % 4)
		if code := c.sendCode(t, m); code != v2.Code_OK {
			t.Fatal(code)
		}
		got := c.take(t, poll{group: "g", topic: "orders", lease: time.Minute, wait: 5 * time.Second})
		if known, ok := queues[group]; ok && known != got.GetSystemProperties().GetQueueId() {
			t.Fatalf("%s: queue %d after %d", group, got.GetSystemProperties().GetQueueId(), known)
		}
		queues[group] = got.GetSystemProperties().GetQueueId()
		c.ack(t, "g", got)
	}
}

// A failure below reaches the client with the code that tells it what to do.
func TestSendsThatFailBelow(t *testing.T) {
	t.Parallel()
	d := newDouble()
	var fault error
	d.send = func(context.Context, string, []keystrand.Message) ([]keystrand.Receipt, error) { return nil, fault }
	c := serve(t, d, nil).dial(t, "c")
	for err, want := range map[error]v2.Code{
		keystrand.ErrRetryLater: 42900, keystrand.ErrReadOnly: 50002, keystrand.ErrUnknown: 50401, keystrand.ErrClosed: 42900, keystrand.ErrCorrupt: 50001,
	} {
		fault = err
		if got := c.sendCode(t, newMessage("orders", "A", "x")); got != want {
			t.Errorf("%v: got %v, want %d", err, got, want)
		}
	}
}
