package state

import (
	"errors"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/keystrand/keystrand"
)

func filledCatalog(t testing.TB) *Catalog {
	c := NewCatalog()
	spec, err := CompleteGroup(keystrand.GroupSpec{Name: "g", Ordered: true})
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range []Record{
		&Topic{ID: 1, Name: "orders", Type: keystrand.TopicFIFO, Queues: 8},
		&Topic{ID: 4, Name: "a", Type: keystrand.TopicNormal, Queues: 1},
		&Group{ID: 2, Spec: spec},
		&Subscribe{Group: 2, Topic: 1, Expression: "*", Start: 5},
	} {
		if err := c.Apply(r); err != nil {
			t.Fatal(err)
		}
	}
	return c
}

func TestCatalogComesBackFromItsBytes(t *testing.T) {
	t.Parallel()
	c := filledCatalog(t)
	back, err := DecodeCatalog(c.Encode(nil))
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(back.Encode(nil), c.Encode(nil)); diff != "" {
		t.Error(diff)
	}
	if g, ok := back.GroupByName("g"); !ok || g.Spec.PushWindow != DefaultPushWindow || back.GroupByID(2) == nil {
		t.Errorf("group g is %+v, %v", g, ok)
	}
	if names := back.Topics(); len(names) != 2 || names[0].Name != "a" {
		t.Errorf("topics %+v, want a first", names)
	}
}

func TestIDsAreNeverGivenTwice(t *testing.T) {
	t.Parallel()
	c := filledCatalog(t)
	if c.NextTopicID() != 5 || c.NextGroupID() != 3 {
		t.Errorf("next ids %d and %d, want 5 and 3", c.NextTopicID(), c.NextGroupID())
	}
}

func TestCatalogRefusesWhatCannotBe(t *testing.T) {
	t.Parallel()
	for name, r := range map[string]Record{
		"a name with two ids":             &Topic{ID: 9, Name: "orders", Type: keystrand.TopicFIFO, Queues: 1},
		"a group name with two ids":       &Group{ID: 9, Spec: keystrand.GroupSpec{Name: "g"}},
		"a subscription to nothing":       &Subscribe{Group: 2, Topic: 99},
		"a subscription of nobody":        &Subscribe{Group: 99, Topic: 1},
		"a topic's id for another's name": &Topic{ID: 1, Name: "other", Type: keystrand.TopicFIFO, Queues: 1},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := filledCatalog(t)
			before := c.Encode(nil)
			if err := c.Apply(r); !errors.Is(err, keystrand.ErrCorrupt) {
				t.Errorf("got %v, want ErrCorrupt", err)
			}
			if diff := cmp.Diff(c.Encode(nil), before); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestSubscriptionKeepsItsFirstStart(t *testing.T) {
	t.Parallel()
	c := filledCatalog(t)
	if err := c.Apply(&Subscribe{Group: 2, Topic: 1, Expression: "x", Start: 99}); err != nil {
		t.Fatal(err)
	}
	s, ok := c.Subscription(2, 1)
	if !ok || s.Start != 5 || s.Expression != "x" {
		t.Errorf("subscription %+v, want start 5 and filter x", s)
	}
}

func TestCloneDoesNotSeeLaterChanges(t *testing.T) {
	t.Parallel()
	c := filledCatalog(t)
	clone := c.Clone()
	before := clone.Encode(nil)
	if err := c.Apply(&Topic{ID: 1, Name: "orders", Type: keystrand.TopicFIFO, Queues: 16}); err != nil {
		t.Fatal(err)
	}
	if err := c.Apply(&Topic{ID: 6, Name: "new", Type: keystrand.TopicFIFO, Queues: 1}); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(clone.Encode(nil), before); diff != "" {
		t.Error(diff)
	}
	if topic, _ := c.TopicByName("orders"); topic.Queues != 16 {
		t.Errorf("the change is lost: %+v", topic)
	}
}

func FuzzDecodeCatalog(f *testing.F) {
	f.Add(filledCatalog(f).Encode(nil))
	f.Add(NewCatalog().Encode(nil))
	f.Fuzz(func(t *testing.T, body []byte) {
		c, err := DecodeCatalog(body)
		if err != nil {
			if !errors.Is(err, keystrand.ErrCorrupt) {
				t.Fatalf("%v is not ErrCorrupt", err)
			}
			return
		}
		if diff := cmp.Diff(c.Encode(nil), body); diff != "" {
			t.Fatalf("encoded again (-) and read (+):\n%s", diff)
		}
	})
}

func TestNamesFollowOneAllowList(t *testing.T) {
	t.Parallel()
	for _, good := range []string{"a", "orders", "A-b_c%d|e9", strings.Repeat("x", 120)} {
		if err := ValidateTopicName(good, false); err != nil {
			t.Error(err)
		}
		if err := ValidateGroupName(good); err != nil {
			t.Error(err)
		}
	}
	for _, bad := range []string{"", ".", "..", "a/b", `a\b`, "a.b", "a b", "a\x00", "a\n", "über", "a\u202eb", strings.Repeat("x", 128), "$sys", "a:b", "a*"} {
		if err := ValidateTopicName(bad, false); !errors.Is(err, keystrand.ErrRejected) {
			t.Errorf("topic %q: %v, want ErrRejected", bad, err)
		}
		if err := ValidateGroupName(bad); !errors.Is(err, keystrand.ErrRejected) {
			t.Errorf("group %q: %v, want ErrRejected", bad, err)
		}
	}
	if err := ValidateGroupName(strings.Repeat("x", 121)); !errors.Is(err, keystrand.ErrRejected) {
		t.Errorf("group of 121 bytes: %v", err)
	}
	dead := DeadLetterPrefix + strings.Repeat("g", 120)
	if err := ValidateTopicName(dead, true); err != nil {
		t.Error(err)
	}
	if err := ValidateTopicName(dead, false); !errors.Is(err, keystrand.ErrRejected) {
		t.Errorf("a user's dead-letter topic: %v, want ErrRejected", err)
	}
}

func TestSpecsGetTheirDefaultsAndAllFaultsAreToldAtOnce(t *testing.T) {
	t.Parallel()
	g, err := CompleteGroup(keystrand.GroupSpec{Name: "g"})
	want := keystrand.GroupSpec{
		Name: "g", MaxAttempts: 16, AtLimit: keystrand.AtLimitPark, From: "earliest", OrderLevel: "group", PushBatch: "one", PushWindow: 64,
		MaxProcessing: 15 * time.Minute, BackOffMin: time.Second, BackOffMax: time.Minute,
	}
	if diff := cmp.Diff(g, want); diff != "" || err != nil {
		t.Errorf("%v, got (-), want (+):\n%s", err, diff)
	}
	again, err := CompleteGroup(g)
	if again != g || err != nil {
		t.Errorf("completing twice changes it: %+v, %v", again, err)
	}
	_, err = CompleteGroup(keystrand.GroupSpec{
		Name: "a/b", MaxAttempts: -2, AtLimit: "x", From: "x", OrderLevel: "x", PushBatch: "x", PushWindow: 513, MaxProcessing: 13 * time.Hour, BackOffMin: time.Minute, BackOffMax: time.Second,
	})
	for _, word := range []string{"a/b", "MaxAttempts", "AtLimit", "From", "OrderLevel", "PushBatch", "PushWindow", "MaxProcessing", "BackOffMax"} {
		if err == nil || !strings.Contains(err.Error(), word) {
			t.Errorf("the fault of %s is not told: %v", word, err)
		}
	}
	if !errors.Is(err, keystrand.ErrRejected) {
		t.Errorf("%v is not ErrRejected", err)
	}
	if _, err := CompleteGroup(keystrand.GroupSpec{Name: "g", MaxAttempts: UnlimitedAttempts}); err != nil {
		t.Error(err)
	}
	for _, back := range []keystrand.GroupSpec{{Name: "g", BackOffMax: 100 * time.Millisecond}, {Name: "g", BackOffMin: 2 * time.Minute}} {
		if _, err := CompleteGroup(back); err != nil {
			t.Errorf("one back-off bound alone: %v", err)
		}
	}
	if s, err := CompleteTopic(keystrand.TopicSpec{Name: "t"}); err != nil || s.Queues != 8 || s.Type != keystrand.TopicFIFO {
		t.Errorf("topic %+v, %v", s, err)
	}
	if _, err := CompleteTopic(keystrand.TopicSpec{Name: "t", Queues: 1025, Type: "x"}); err == nil || !strings.Contains(err.Error(), "Queues") || !strings.Contains(err.Error(), "Type") {
		t.Errorf("got %v, want both faults", err)
	}
}

func TestFilters(t *testing.T) {
	t.Parallel()
	for expression, c := range map[string]struct{ canonical, match, miss string }{
		"":          {"*", "a", ""},
		"*":         {"*", "a", ""},
		" * ":       {"*", "", ""},
		"a":         {"a", "a", "b"},
		"b||a|| b ": {"a || b", "b", "c"},
		"a || *":    {"*", "zzz", ""},
		"支付 || 取消":  {"取消 || 支付", "支付", "发货"},
	} {
		f, err := ParseFilter(expression)
		if err != nil {
			t.Errorf("%q: %v", expression, err)
			continue
		}
		if f.String() != c.canonical {
			t.Errorf("%q is %q, want %q", expression, f.String(), c.canonical)
		}
		if !f.Matches(TagHash(c.match)) || !f.MatchesTag(c.match) {
			t.Errorf("%q does not match %q", expression, c.match)
		}
		if c.miss != "" && (f.Matches(TagHash(c.miss)) || f.MatchesTag(c.miss)) {
			t.Errorf("%q matches %q", expression, c.miss)
		}
		if c.canonical != "*" && (f.Matches(TagHash("")) || f.MatchesTag("")) {
			t.Errorf("%q matches a message without tag", expression)
		}
	}
	for _, bad := range []string{"a||", "||", "a|b", "a b", "a\x00", "a || || b", strings.Repeat("x", 129), strings.Repeat("x||", 2000) + "x", manyTags(129)} {
		if _, err := ParseFilter(bad); err == nil {
			t.Errorf("%.40q is taken", bad)
		}
	}
}

func manyTags(n int) string {
	tags := make([]string, n)
	for i := range tags {
		tags[i] = "t" + strings.Repeat("i", i%30) + string(rune('a'+i/30))
	}
	return strings.Join(tags, "||")
}

func TestHashesKeepTheirReservedValuesFree(t *testing.T) {
	t.Parallel()
	if GroupHash(1, 2, "") != 0 || TagHash("") != 0 {
		t.Error("no group and no tag have hash 0")
	}
	if GroupHash(1, 2, "a") == GroupHash(1, 2, "b") || GroupHash(1, 2, "a") == GroupHash(3, 2, "a") {
		t.Error("the hash does not depend on group and key")
	}
	seen := map[StrandKey]bool{}
	for q := range int32(MaxQueues) {
		key := QueueStrand(q)
		if seen[key] || key == 0 || key >= reservedKeys {
			t.Fatalf("queue %d has key %d", q, key)
		}
		seen[key] = true
	}
	if QueueStrand(math.MinInt32) >= reservedKeys {
		t.Error("a wrong queue leaves the reserved keys")
	}
}

func TestMessagesAreCheckedAgainstEveryLimit(t *testing.T) {
	t.Parallel()
	good := func() keystrand.Message {
		return keystrand.Message{Topic: "t", MessageGroup: "g", Tag: "tag", Keys: []string{"k"}, Properties: map[string]string{"a": "b"}, Body: []byte("x")}
	}
	m := good()
	if err := ValidateMessage(&m); err != nil {
		t.Error(err)
	}
	many := map[string]string{}
	for i := range 129 {
		many[strings.Repeat("p", i+1)] = ""
	}
	for name, c := range map[string]struct {
		change func(*keystrand.Message)
		class  error
	}{
		"empty body":              {func(m *keystrand.Message) { m.Body = nil }, keystrand.ErrRejected},
		"body over the limit":     {func(m *keystrand.Message) { m.Body = make([]byte, MaxBodyBytes+1) }, keystrand.ErrTooLarge},
		"group of 64 bytes":       {func(m *keystrand.Message) { m.MessageGroup = strings.Repeat("é", 32) }, keystrand.ErrTooLarge},
		"group with control":      {func(m *keystrand.Message) { m.MessageGroup = "a\x01b" }, keystrand.ErrRejected},
		"group not UTF-8":         {func(m *keystrand.Message) { m.MessageGroup = "\xff" }, keystrand.ErrRejected},
		"tag with bar":            {func(m *keystrand.Message) { m.Tag = "a|b" }, keystrand.ErrRejected},
		"blank key":               {func(m *keystrand.Message) { m.Keys = []string{" "} }, keystrand.ErrRejected},
		"129 properties":          {func(m *keystrand.Message) { m.Properties = many }, keystrand.ErrTooLarge},
		"17 KiB of properties":    {func(m *keystrand.Message) { m.Properties = map[string]string{"a": strings.Repeat("x", 17<<10)} }, keystrand.ErrTooLarge},
		"property with a newline": {func(m *keystrand.Message) { m.Properties = map[string]string{"a": "b\nc"} }, keystrand.ErrRejected},
		"the token's property":    {func(m *keystrand.Message) { m.Properties = map[string]string{keystrand.PropertyToken: "1"} }, keystrand.ErrRejected},
		"id over the limit":       {func(m *keystrand.Message) { m.ID = strings.Repeat("x", MaxMessageIDBytes+1) }, keystrand.ErrTooLarge},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			m := good()
			c.change(&m)
			if err := ValidateMessage(&m); !errors.Is(err, c.class) {
				t.Errorf("got %v, want %v", err, c.class)
			}
		})
	}
	limit := good()
	limit.MessageGroup, limit.Body = strings.Repeat("x", MaxMessageGroupBytes), make([]byte, MaxBodyBytes)
	if err := ValidateMessage(&limit); err != nil {
		t.Errorf("at the limit: %v", err)
	}
}
