package server_test

import (
	"context"
	"strings"
	"testing"
	"time"

	v2 "github.com/apache/rocketmq-clients/golang/v5/protocol/v2"
	"github.com/google/go-cmp/cmp"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/testing/protocmp"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/keystrand/keystrand"
)

// Numbers such as C04 are those of the conformance list in docs/protocol-grpc.md.

// C03: a route query for an unknown topic is 40402.
func TestC03UnknownTopicHasNoRoute(t *testing.T) {
	t.Parallel()
	c := start(t, nil).dial(t, "c")
	answer, err := c.QueryRoute(c.ctx(t, callTime), &v2.QueryRouteRequest{Topic: resource("missing")})
	if err != nil || answer.GetStatus().GetCode() != v2.Code_TOPIC_NOT_FOUND {
		t.Fatalf("got %v, %v", answer, err)
	}
}

// C04: every call without a client id is 40017, so is one with a blank id. The walk is over the service's own description,
// so that a new call cannot be forgotten.
func TestC04EveryCallNeedsAClientID(t *testing.T) {
	t.Parallel()
	e := serve(t, newDouble(), nil)
	c := e.dial(t, "")
	for _, ctx := range []context.Context{context.Background(), c.ctx(t, callTime)} {
		ctx, cancel := context.WithTimeout(ctx, callTime)
		defer cancel()
		for _, method := range v2.MessagingService_ServiceDesc.Methods {
			answer := unaryAnswer(method.MethodName)
			if err := c.conn.Invoke(ctx, "/apache.rocketmq.v2.MessagingService/"+method.MethodName, &v2.HeartbeatRequest{}, answer); err != nil {
				t.Fatalf("%s: %v", method.MethodName, err)
			}
			if got := answer.(interface{ GetStatus() *v2.Status }).GetStatus().GetCode(); got != v2.Code_CLIENT_ID_REQUIRED { //nolint:forcetypeassert // all have it
				t.Errorf("%s: got %v, want 40017", method.MethodName, got)
			}
		}
		for i := range v2.MessagingService_ServiceDesc.Streams {
			desc := &v2.MessagingService_ServiceDesc.Streams[i]
			if got := firstStatus(ctx, t, c.conn, desc); got != v2.Code_CLIENT_ID_REQUIRED {
				t.Errorf("%s: got %v, want 40017", desc.StreamName, got)
			}
		}
	}
}

// unaryAnswer makes the response type of a call by its name.
func unaryAnswer(method string) proto.Message {
	service := v2.File_apache_rocketmq_v2_service_proto.Services().ByName("MessagingService")
	name := service.Methods().ByName(protoName(method)).Output().FullName()
	return newByName(string(name))
}

func firstStatus(ctx context.Context, t *testing.T, conn *grpc.ClientConn, desc *grpc.StreamDesc) v2.Code {
	t.Helper()
	stream, err := conn.NewStream(ctx, desc, "/apache.rocketmq.v2.MessagingService/"+desc.StreamName)
	if err != nil {
		t.Fatal(err)
	}
	if desc.ClientStreams {
		answer := &v2.TelemetryCommand{}
		if err := stream.RecvMsg(answer); err != nil {
			t.Fatal(err)
		}
		if err := stream.RecvMsg(answer); status.Code(err) != codes.InvalidArgument {
			t.Errorf("%s: ended with %v, want InvalidArgument", desc.StreamName, err)
		}
		return answer.GetStatus().GetCode()
	}
	if err := stream.SendMsg(&v2.HeartbeatRequest{}); err != nil {
		t.Fatal(err)
	}
	answer := newByName(string(v2.File_apache_rocketmq_v2_service_proto.Services().ByName("MessagingService").Methods().ByName(protoName(desc.StreamName)).Output().FullName()))
	if err := stream.RecvMsg(answer); err != nil {
		t.Fatal(err)
	}
	return answer.(interface{ GetStatus() *v2.Status }).GetStatus().GetCode() //nolint:forcetypeassert // all have it
}

// session opens a telemetry stream.
func (r *raw) session(t testing.TB) v2.MessagingService_TelemetryClient {
	t.Helper()
	stream, err := r.Telemetry(r.ctx(t, time.Minute))
	if err != nil {
		t.Fatal(err)
	}
	return stream
}

// settle sends Settings and returns their answer.
func settle(t testing.TB, stream v2.MessagingService_TelemetryClient, s *v2.Settings) *v2.Settings {
	t.Helper()
	if err := stream.Send(&v2.TelemetryCommand{Command: &v2.TelemetryCommand_Settings{Settings: s}}); err != nil {
		t.Fatal(err)
	}
	answer, err := stream.Recv()
	if err != nil {
		t.Fatal(err)
	}
	if answer.GetStatus().GetCode() != v2.Code_OK {
		t.Fatalf("got %v, want OK", answer.GetStatus())
	}
	return answer.GetSettings()
}

func producerSettings() *v2.Settings {
	return &v2.Settings{
		ClientType: v2.ClientType_PRODUCER.Enum(), RequestTimeout: durationpb.New(3 * time.Second), UserAgent: &v2.UA{Version: "5.1.4", Hostname: "h"},
		PubSub: &v2.Settings_Publishing{Publishing: &v2.Publishing{Topics: []*v2.Resource{resource("orders")}}},
	}
}

func consumerSettings(kind v2.ClientType, group string, topics ...string) *v2.Settings {
	sub := &v2.Subscription{Group: resource(group)}
	for _, topic := range topics {
		sub.Subscriptions = append(sub.Subscriptions, &v2.SubscriptionEntry{Topic: resource(topic), Expression: &v2.FilterExpression{Type: v2.FilterType_TAG, Expression: "*"}})
	}
	return &v2.Settings{ClientType: kind.Enum(), RequestTimeout: durationpb.New(3 * time.Second), PubSub: &v2.Settings_Subscription{Subscription: sub}}
}

// C05, C06, C08: the first Settings are answered with OK, the same arm, what the client said and what producers need; so is
// every later one on the same stream.
func TestC05C06C08ProducerSettingsAreAnsweredEachTime(t *testing.T) {
	t.Parallel()
	stream := start(t, nil).dial(t, "p").session(t)
	for range 3 {
		got := settle(t, stream, producerSettings())
		if got.GetPublishing() == nil || got.GetClientType() != v2.ClientType_PRODUCER || got.GetRequestTimeout().AsDuration() != 3*time.Second || got.GetUserAgent().GetVersion() != "5.1.4" {
			t.Errorf("not echoed: %v", got)
		}
		if got.GetBackoffPolicy().GetExponentialBackoff() == nil || got.GetPublishing().GetMaxBodySize() != 4<<20 || !got.GetPublishing().GetValidateMessageType() {
			t.Errorf("a producer cannot work with %v", got)
		}
	}
}

// C07, with our number of attempts: a FIFO group's push client hears fifo, batch 32, a poll of 20 s, one attempt. The group did not exist.
func TestC07FIFOPushSettings(t *testing.T) {
	t.Parallel()
	stream := start(t, nil).dial(t, "c").session(t)
	got := settle(t, stream, consumerSettings(v2.ClientType_PUSH_CONSUMER, "new-group", "notes", "orders"))
	sub := got.GetSubscription()
	if !sub.GetFifo() || sub.GetReceiveBatchSize() != 32 || sub.GetLongPollingTimeout().AsDuration() != 20*time.Second || got.GetBackoffPolicy().GetMaxAttempts() != 1 {
		t.Errorf("got %v", got)
	}
	if b := got.GetBackoffPolicy().GetExponentialBackoff(); b.GetInitial().GetSeconds() < 1 || b.GetInitial().GetNanos() != 0 || b.GetMultiplier() != 2 {
		t.Errorf("got back-off %v, want whole seconds", b)
	}
}

// C55: on a FIFO topic a group that was made unordered stays so, and its clients hear it.
func TestC55UnorderedGroupOnAFIFOTopic(t *testing.T) {
	t.Parallel()
	e := start(t, nil)
	if err := e.core.CreateGroup(t.Context(), keystrand.GroupSpec{Name: "plain", MaxAttempts: 5}); err != nil {
		t.Fatal(err)
	}
	got := settle(t, e.dial(t, "c").session(t), consumerSettings(v2.ClientType_PUSH_CONSUMER, "plain", "orders"))
	if got.GetSubscription().GetFifo() || got.GetBackoffPolicy().GetMaxAttempts() != 5 {
		t.Errorf("got %v, want fifo false and 5 attempts", got)
	}
}

// Without auto-create an unknown group's Settings are answered all the same, since some clients wait without a timeout.
func TestSettingsOfAnUnknownGroupAreAnswered(t *testing.T) {
	t.Parallel()
	stream := serve(t, newDouble(), nil).dial(t, "c").session(t)
	for topic, fifo := range map[string]bool{"orders": true, "notes": false, "missing": false} {
		got := settle(t, stream, consumerSettings(v2.ClientType_SIMPLE_CONSUMER, "unknown", topic))
		if got.GetSubscription().GetFifo() != fifo || got.GetBackoffPolicy().GetMaxAttempts() < 1 {
			t.Errorf("%s: got %v, want fifo %v", topic, got, fifo)
		}
	}
}

func TestSettingsThatMeanNothingEndTheStream(t *testing.T) {
	t.Parallel()
	e := serve(t, newDouble(), nil)
	for name, s := range map[string]*v2.Settings{
		"neither arm": {ClientType: v2.ClientType_PRODUCER.Enum()},
		"bad group":   consumerSettings(v2.ClientType_PUSH_CONSUMER, "a.b", "orders"),
		"bad topic":   consumerSettings(v2.ClientType_PUSH_CONSUMER, "g", "a.b"),
	} {
		stream := e.dial(t, "c").session(t)
		if err := stream.Send(&v2.TelemetryCommand{Command: &v2.TelemetryCommand_Settings{Settings: s}}); err != nil {
			t.Fatal(err)
		}
		if _, err := stream.Recv(); status.Code(err) != codes.InvalidArgument {
			t.Errorf("%s: got %v, want InvalidArgument", name, err)
		}
	}
}

// Commands other than Settings are taken without an answer, and the stream goes on.
func TestOtherTelemetryCommandsAreIgnored(t *testing.T) {
	t.Parallel()
	stream := serve(t, newDouble(), nil).dial(t, "c").session(t)
	if err := stream.Send(&v2.TelemetryCommand{Command: &v2.TelemetryCommand_ThreadStackTrace{ThreadStackTrace: &v2.ThreadStackTrace{}}}); err != nil {
		t.Fatal(err)
	}
	if err := stream.Send(&v2.TelemetryCommand{}); err != nil {
		t.Fatal(err)
	}
	settle(t, stream, producerSettings())
}

// C09: calls do not depend on a telemetry stream.
func TestC09CallsGoOnWithoutTelemetry(t *testing.T) {
	t.Parallel()
	e := start(t, nil)
	c := e.dial(t, "c")
	ctx, cancel := context.WithCancel(c.ctx(t, callTime))
	stream, err := c.Telemetry(ctx)
	if err != nil {
		t.Fatal(err)
	}
	settle(t, stream, consumerSettings(v2.ClientType_PUSH_CONSUMER, "g", "orders"))
	cancel()
	c.send(t, "orders", "A", "1")
	if got := c.take(t, poll{group: "g", topic: "orders", push: true, wait: 5 * time.Second}); c.ack(t, "g", got) != v2.Code_OK {
		t.Error("not acked")
	}
}

// C11: heartbeats need no Settings from before, NotifyClientTermination is OK.
func TestC11HeartbeatAndTermination(t *testing.T) {
	t.Parallel()
	c := serve(t, newDouble(), nil).dial(t, "c")
	for name, x := range map[string]struct {
		in   *v2.HeartbeatRequest
		want v2.Code
	}{
		"producer":            {&v2.HeartbeatRequest{ClientType: v2.ClientType_PRODUCER}, 20000},
		"push":                {&v2.HeartbeatRequest{ClientType: v2.ClientType_PUSH_CONSUMER, Group: resource("g")}, 20000},
		"simple":              {&v2.HeartbeatRequest{ClientType: v2.ClientType_SIMPLE_CONSUMER, Group: resource("g")}, 20000},
		"push without group":  {&v2.HeartbeatRequest{ClientType: v2.ClientType_PUSH_CONSUMER}, 40003},
		"push with bad group": {&v2.HeartbeatRequest{ClientType: v2.ClientType_PUSH_CONSUMER, Group: resource("a/b")}, 40003},
		"no kind":             {&v2.HeartbeatRequest{}, 40015},
		"lite":                {&v2.HeartbeatRequest{ClientType: v2.ClientType_LITE_PUSH_CONSUMER, Group: resource("g")}, 40015},
	} {
		answer, err := c.Heartbeat(c.ctx(t, callTime), x.in)
		if err != nil || answer.GetStatus().GetCode() != x.want {
			t.Errorf("%s: got %v, %v; want %d", name, answer, err, x.want)
		}
	}
	for _, in := range []*v2.NotifyClientTerminationRequest{{}, {Group: resource("")}, {Group: resource("g")}} {
		answer, err := c.NotifyClientTermination(c.ctx(t, callTime), in)
		if err != nil || answer.GetStatus().GetCode() != v2.Code_OK {
			t.Errorf("got %v, %v; want OK", answer, err)
		}
	}
}

// C12: routes and assignments hold the endpoints that the client dialled, and are the same each time.
func TestC12RoutesAndAssignmentsEchoEndpoints(t *testing.T) {
	t.Parallel()
	c := start(t, nil).dial(t, "c")
	dialled := &v2.Endpoints{Scheme: v2.AddressScheme_DOMAIN_NAME, Addresses: []*v2.Address{{Host: "some.tunnel", Port: 1234}}}
	route := func() *v2.QueryRouteResponse {
		answer, err := c.QueryRoute(c.ctx(t, callTime), &v2.QueryRouteRequest{Topic: resource("wide"), Endpoints: dialled})
		if err != nil || answer.GetStatus().GetCode() != v2.Code_OK {
			t.Fatalf("got %v, %v", answer, err)
		}
		return answer
	}
	assignment := func() *v2.QueryAssignmentResponse {
		answer, err := c.QueryAssignment(c.ctx(t, callTime), &v2.QueryAssignmentRequest{Topic: resource("wide"), Group: resource("g"), Endpoints: dialled})
		if err != nil || answer.GetStatus().GetCode() != v2.Code_OK {
			t.Fatalf("got %v, %v", answer, err)
		}
		return answer
	}
	if got := len(route().GetMessageQueues()); got != 16 {
		t.Errorf("got %d queues, want 16", got)
	}
	for i, q := range route().GetMessageQueues() {
		if q.GetId() != int32(i) || q.GetBroker().GetId() != 0 || q.GetBroker().GetName() == "" || !proto.Equal(q.GetBroker().GetEndpoints(), dialled) ||
			q.GetPermission() != v2.Permission_READ_WRITE || !cmp.Equal(q.GetAcceptMessageTypes(), []v2.MessageType{v2.MessageType_FIFO}) {
			t.Errorf("queue %d: got %v", i, q)
		}
	}
	if got := len(assignment().GetAssignments()); got != 8 {
		t.Errorf("got %d assignments, want 8", got)
	}
	if diff := cmp.Diff(route(), route(), protocmp.Transform()); diff != "" {
		t.Errorf("two routes differ:\n%s", diff)
	}
	if diff := cmp.Diff(assignment(), assignment(), protocmp.Transform()); diff != "" {
		t.Errorf("two assignments differ:\n%s", diff)
	}
}

func TestAssignmentsOfUnknownThings(t *testing.T) {
	t.Parallel()
	c := serve(t, newDouble(), nil).dial(t, "c")
	for _, x := range []struct {
		topic, group string
		want         v2.Code
	}{{"missing", "g", 40402}, {"orders", "g", 40403}, {"a.b", "g", 40002}, {"orders", strings.Repeat("g", 121), 40003}} {
		answer, err := c.QueryAssignment(c.ctx(t, callTime), &v2.QueryAssignmentRequest{Topic: resource(x.topic), Group: resource(x.group)})
		if err != nil || answer.GetStatus().GetCode() != x.want {
			t.Errorf("%s %s: got %v, %v; want %d", x.topic, x.group, answer, err, x.want)
		}
	}
}

// What is not supported yet says so in its status; a call that the service does not have is Unimplemented.
func TestUnsupportedCallsSaySo(t *testing.T) {
	t.Parallel()
	c := serve(t, newDouble(), nil).dial(t, "c")
	ctx := c.ctx(t, callTime)
	for _, method := range []string{"EndTransaction", "RecallMessage", "SyncLiteSubscription", "UpdateOffset", "GetOffset", "QueryOffset"} {
		answer := unaryAnswer(method)
		err := c.conn.Invoke(ctx, "/apache.rocketmq.v2.MessagingService/"+method, &v2.HeartbeatRequest{}, answer)
		got := answer.(interface{ GetStatus() *v2.Status }).GetStatus() //nolint:forcetypeassert // all have it
		if err != nil || got.GetCode() != v2.Code_NOT_IMPLEMENTED || !strings.Contains(got.GetMessage(), "not supported yet") {
			t.Errorf("%s: got %v, %v", method, got, err)
		}
	}
	stream, err := c.PullMessage(ctx, &v2.PullMessageRequest{})
	if err != nil {
		t.Fatal(err)
	}
	if answer, err := stream.Recv(); err != nil || answer.GetStatus().GetCode() != v2.Code_NOT_IMPLEMENTED {
		t.Errorf("PullMessage: got %v, %v", answer, err)
	}
	if err := c.conn.Invoke(ctx, "/apache.rocketmq.v2.MessagingService/Missing", &v2.HeartbeatRequest{}, &v2.HeartbeatResponse{}); status.Code(err) != codes.Unimplemented {
		t.Errorf("unknown call: got %v, want Unimplemented", err)
	}
}
