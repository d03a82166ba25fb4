package grpc

import (
	"fmt"
	"strings"
	"testing"
	"time"

	v2 "github.com/apache/rocketmq-clients/golang/v5/protocol/v2"
	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"
	"pgregory.net/rapid"

	"github.com/keystrand/keystrand"
)

// message is a valid message of a FIFO topic, then changed.
func message(change func(*v2.Message)) *v2.Message {
	m := &v2.Message{
		Topic: &v2.Resource{Name: "orders"}, Body: []byte("hello"),
		SystemProperties: &v2.SystemProperties{MessageId: "01F2F6989D2F3F5DDB0B1FA24600000000", MessageGroup: new("order-1"), MessageType: v2.MessageType_FIFO},
	}
	if change != nil {
		change(m)
	}
	return m
}

func many(n int) map[string]string {
	out := make(map[string]string, n)
	for i := range n {
		out[fmt.Sprintf("p%d", i)] = "v"
	}
	return out
}

func TestMessagesAreCheckedWithTheProtocolsCodes(t *testing.T) {
	t.Parallel()
	system := func(f func(*v2.SystemProperties)) func(*v2.Message) {
		return func(m *v2.Message) { f(m.SystemProperties) }
	}
	property := func(name, value string) func(*v2.Message) {
		return func(m *v2.Message) { m.UserProperties = map[string]string{name: value} }
	}
	group := func(g string) func(*v2.Message) {
		return system(func(s *v2.SystemProperties) { s.MessageGroup = &g })
	}
	for name, c := range map[string]struct {
		change func(*v2.Message)
		want   v2.Code // 0: accepted
	}{
		"as it is":             {nil, 0},
		"no topic":             {func(m *v2.Message) { m.Topic = nil }, 40002},
		"empty body":           {func(m *v2.Message) { m.Body = nil }, 41302},
		"body at its limit":    {func(m *v2.Message) { m.Body = make([]byte, MaxBodyBytes) }, 0},
		"body over its limit":  {func(m *v2.Message) { m.Body = make([]byte, MaxBodyBytes+1) }, 41301},
		"no system properties": {func(m *v2.Message) { m.SystemProperties = nil }, 40009},
		"blank id":             {system(func(s *v2.SystemProperties) { s.MessageId = " " }), 40009},
		"long id":              {system(func(s *v2.SystemProperties) { s.MessageId = strings.Repeat("x", 256) }), 40009},
		"128 properties":       {func(m *v2.Message) { m.UserProperties = many(128) }, 0},
		"129 properties":       {func(m *v2.Message) { m.UserProperties = many(129) }, 43101},
		"properties at 16 KiB": {property("p", strings.Repeat("x", 16<<10-1)), 0},
		"properties over it":   {property("p", strings.Repeat("x", 16<<10)), 43101},
		"tag counts too": {func(m *v2.Message) {
			property("p", strings.Repeat("x", 16<<10-1))(m)
			m.SystemProperties.Tag = new("t")
		}, 43101},
		"reserved property":                {property("KEYS", "x"), 40007},
		"reserved prefix":                  {property("TIMER_ANYTHING", "x"), 40007},
		"the token":                        {property(keystrand.PropertyToken, "1"), 40007},
		"the token's broker":               {property(keystrand.PropertyBroker, "x"), 40007},
		"blank property name":              {property(" ", "x"), 40007},
		"newline in a value":               {property("p", "a\nb"), 40007},
		"separator in a name":              {property("p\x01", "x"), 40007},
		"C1 control":                       {property("p", "a\u0085b"), 40007},
		"letters of any kind":              {property("größe", "größer ¼"), 0},
		"tag":                              {system(func(s *v2.SystemProperties) { s.Tag = new("paid") }), 0},
		"tag with a bar":                   {system(func(s *v2.SystemProperties) { s.Tag = new("a|b") }), 40004},
		"blank tag":                        {system(func(s *v2.SystemProperties) { s.Tag = new(" ") }), 40004},
		"blank key":                        {system(func(s *v2.SystemProperties) { s.Keys = []string{"a", " "} }), 40005},
		"empty key":                        {system(func(s *v2.SystemProperties) { s.Keys = []string{""} }), 40005},
		"group of 63 bytes":                {group(strings.Repeat("x", 63)), 0},
		"group of 64 bytes":                {group(strings.Repeat("x", 64)), 40006},
		"group of 22 letters and 66 bytes": {group(strings.Repeat("€", 22)), 40006},
		"blank group":                      {group("  "), 40006},
		"group with a control character":   {group("a\tb"), 40006},
		"FIFO without a group":             {group(""), 40014},
		"transaction":                      {system(func(s *v2.SystemProperties) { s.MessageType = v2.MessageType_TRANSACTION }), 40014},
		"delay":                            {system(func(s *v2.SystemProperties) { s.DeliveryTimestamp = timestamppb.Now() }), 40014},
		"priority":                         {system(func(s *v2.SystemProperties) { s.Priority = new(int32(1)) }), 40014},
		"lite topic":                       {system(func(s *v2.SystemProperties) { s.LiteTopic = new("l") }), 40014},
		"compressed":                       {system(func(s *v2.SystemProperties) { s.BodyEncoding = v2.Encoding_GZIP }), 50100},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, out, fault := Messages([]*v2.Message{message(c.change)})
			if fault.GetCode() != c.want {
				t.Fatalf("got %v, want code %d", fault, c.want)
			}
			if (out == nil) != (c.want != 0) {
				t.Fatalf("got %d messages with status %v", len(out), fault)
			}
		})
	}
}

func TestRequestsOfSeveralMessages(t *testing.T) {
	t.Parallel()
	other := message(func(m *v2.Message) { m.Topic = &v2.Resource{Name: "other"} })
	for name, c := range map[string]struct {
		in   []*v2.Message
		want v2.Code
	}{
		"none":       {nil, 40016},
		"two topics": {[]*v2.Message{message(nil), other}, 40016},
		"too many":   {make([]*v2.Message, MaxSendMessages+1), 40000},
		"two":        {[]*v2.Message{message(nil), message(nil)}, 0},
	} {
		if _, _, fault := Messages(c.in); fault.GetCode() != c.want {
			t.Errorf("%s: got %v, want code %d", name, fault, c.want)
		}
	}
}

// TestEveryReservedNameIsRefused walks the names as protocol/grpc lists them.
func TestEveryReservedNameIsRefused(t *testing.T) {
	t.Parallel()
	for _, name := range strings.Fields(`KEYS TAGS WAIT DELAY RETRY_TOPIC REAL_TOPIC REAL_QID TRAN_MSG PGROUP MIN_OFFSET MAX_OFFSET
		BUYER_ID ORIGIN_MESSAGE_ID TRANSFER_FLAG CORRECTION_FLAG MQ2_FLAG RECONSUME_TIME MSG_REGION TRACE_ON UNIQ_KEY EXTEND_UNIQ_INFO
		MAX_RECONSUME_TIMES CONSUME_START_TIME POP_CK POP_CK_OFFSET 1ST_POP_TIME TRAN_PREPARED_QUEUE_OFFSET DUP_INFO INSTANCE_ID
		CORRELATION_ID REPLY_TO_CLIENT TTL ARRIVE_TIME PUSH_REPLY_TIME CLUSTER MSG_TYPE INNER_MULTI_QUEUE_OFFSET TIMER_DELAY_SEC
		__BORNHOST BORN_TIMESTAMP DLQ_ORIGIN_TOPIC DLQ_ORIGIN_MESSAGE_ID __CRC32# KS_TOKEN KS_BROKER`) {
		_, _, fault := Messages([]*v2.Message{message(func(m *v2.Message) { m.UserProperties = map[string]string{name: "x"} })})
		if fault.GetCode() != v2.Code_ILLEGAL_MESSAGE_PROPERTY_KEY {
			t.Errorf("%s: got %v, want 40007", name, fault)
		}
	}
}

func TestChecksumIsMD5InUpperCaseHex(t *testing.T) {
	t.Parallel()
	for body, want := range map[string]string{
		"hello": "5D41402ABC4B2A76B9719D911017C592", "": "D41D8CD98F00B204E9800998ECF8427E",
	} {
		if got := Checksum([]byte(body)); got != want {
			t.Errorf("%q: got %s, want %s", body, got, want)
		}
	}
}

// TestWhatIsSentIsWhatIsDelivered: any valid message, through the wire and back, keeps its parts, and the delivery has what
// clients cannot do without.
func TestWhatIsSentIsWhatIsDelivered(t *testing.T) {
	t.Parallel()
	text := rapid.StringMatching(`[a-zA-Z0-9 äß€_-]{1,20}`).Filter(func(s string) bool { return strings.TrimSpace(s) != "" })
	rapid.Check(t, func(t *rapid.T) {
		in := &v2.Message{
			Topic: &v2.Resource{Name: "orders"}, Body: rapid.SliceOfN(rapid.Byte(), 1, 200).Draw(t, "body"),
			UserProperties: rapid.MapOfN(rapid.StringMatching(`p[a-z]{1,8}`), text, 0, 5).Draw(t, "properties"),
			SystemProperties: &v2.SystemProperties{
				MessageId: rapid.StringMatching(`[0-9A-F]{34}`).Draw(t, "id"), Keys: rapid.SliceOfN(text, 0, 3).Draw(t, "keys"),
				BornTimestamp: timestamppb.New(time.UnixMilli(rapid.Int64Range(1, 1<<41).Draw(t, "born"))),
			},
		}
		if rapid.Bool().Draw(t, "has group") {
			in.SystemProperties.MessageGroup = new(text.Draw(t, "group"))
		}
		if rapid.Bool().Draw(t, "has tag") {
			in.SystemProperties.Tag = new(text.Draw(t, "tag"))
		}
		_, messages, fault := Messages([]*v2.Message{throughTheWire(t, in)})
		if fault != nil {
			t.Fatal(fault)
		}
		token := keystrand.Token{Broker: "00000000000000aa", Value: rapid.Uint64Range(1, 1<<62).Draw(t, "token")}
		out := throughTheWire(t, DeliveryResponse(&keystrand.Delivery{
			Message: messages[0], Queue: 3, Offset: 7, StoredAt: time.UnixMilli(5), Attempt: 0, Token: token, ReceiptHandle: "h", Lease: 1500 * time.Millisecond,
		}, "127.0.0.1:8081").GetMessage())
		checkDelivered(t, in, out, token)
	})
}

func throughTheWire[M proto.Message](t *rapid.T, m M) M {
	encoded, err := proto.Marshal(m)
	if err != nil {
		t.Fatal(err)
	}
	out := m.ProtoReflect().New().Interface().(M) //nolint:forcetypeassert // the type is M's own
	if err := proto.Unmarshal(encoded, out); err != nil {
		t.Fatal(err)
	}
	return out
}

func checkDelivered(t *rapid.T, in, out *v2.Message, token keystrand.Token) {
	a, b := in.GetSystemProperties(), out.GetSystemProperties()
	want := map[string]string{keystrand.PropertyToken: fmt.Sprint(token.Value), keystrand.PropertyBroker: token.Broker}
	for name, value := range in.GetUserProperties() {
		want[name] = value
	}
	for _, c := range []struct {
		what      string
		got, want any
	}{
		{"body", out.GetBody(), in.GetBody()}, {"properties", out.GetUserProperties(), want}, {"topic", out.GetTopic().GetName(), "orders"},
		{"id", b.GetMessageId(), a.GetMessageId()}, {"group", b.GetMessageGroup(), a.GetMessageGroup()}, {"has a group", b.MessageGroup == nil, a.MessageGroup == nil},
		{"tag", b.GetTag(), a.GetTag()}, {"has a tag", b.Tag == nil, a.Tag == nil}, {"born", b.GetBornTimestamp().AsTime(), a.GetBornTimestamp().AsTime()},
		{"attempt is at least 1", b.GetDeliveryAttempt(), int32(1)}, {"encoding", b.GetBodyEncoding(), v2.Encoding_IDENTITY},
		{"digest", b.GetBodyDigest().GetType(), v2.DigestType_MD5}, {"checksum", b.GetBodyDigest().GetChecksum(), Checksum(in.GetBody())},
		{"queue", b.GetQueueId(), int32(3)}, {"offset", b.GetQueueOffset(), int64(7)}, {"handle", b.GetReceiptHandle(), "h"},
		{"lease", b.GetInvisibleDuration().AsDuration(), 1500 * time.Millisecond}, {"stored", b.GetStoreTimestamp().AsTime().UnixMilli(), int64(5)},
	} {
		if diff := cmp.Diff(c.got, c.want); diff != "" {
			t.Fatalf("%s: got (-), want (+):\n%s", c.what, diff)
		}
	}
	if len(a.GetKeys()) > 0 && !cmp.Equal(a.GetKeys(), b.GetKeys()) {
		t.Fatalf("keys: got %v, want %v", b.GetKeys(), a.GetKeys())
	}
	if isFIFO := b.GetMessageType() == v2.MessageType_FIFO; isFIFO != (a.MessageGroup != nil) {
		t.Fatalf("message type: got %v for group %q", b.GetMessageType(), a.GetMessageGroup())
	}
}

// FuzzMessages: whatever bytes arrive as a request, checking them does not panic, and what passes is within the limits.
func FuzzMessages(f *testing.F) {
	for _, change := range []func(*v2.Message){nil, func(m *v2.Message) { m.UserProperties = many(3) }, func(m *v2.Message) { m.SystemProperties.Tag = new("a|b") }} {
		encoded, err := proto.Marshal(&v2.SendMessageRequest{Messages: []*v2.Message{message(change)}})
		if err != nil {
			f.Fatal(err)
		}
		f.Add(encoded)
	}
	f.Fuzz(func(t *testing.T, encoded []byte) {
		in := &v2.SendMessageRequest{}
		if proto.Unmarshal(encoded, in) != nil {
			return
		}
		topic, out, fault := Messages(in.GetMessages())
		if fault != nil {
			return
		}
		for i := range out {
			m := &out[i]
			if m.Topic != topic || len(m.Body) == 0 || len(m.Body) > MaxBodyBytes || len(m.MessageGroup) > MaxMessageGroupBytes || len(m.Properties) > MaxUserProperties {
				t.Fatalf("accepted: %+v", m)
			}
			DeliveryResponse(&keystrand.Delivery{Message: *m, Token: keystrand.Token{Broker: "b", Value: 1}}, "")
		}
	})
}
