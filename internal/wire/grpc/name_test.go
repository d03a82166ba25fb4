package grpc

import (
	"strings"
	"testing"

	v2 "github.com/apache/rocketmq-clients/golang/v5/protocol/v2"
)

// SEC-30: names are checked against one allow-list before they are used.
func TestSEC30TopicAndGroupNames(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name         string
		topic, group v2.Code // 0: allowed
	}{
		{"orders", 0, 0},
		{"%DLQ%g|x_-09AZ", 0, 0},
		{"", 40002, 40003},
		{"  ", 40002, 40003},
		{"a.b", 40002, 40003},
		{"a b", 40002, 40003},
		{"../../etc", 40002, 40003},
		{`a\b`, 40002, 40003},
		{"a\x00b", 40002, 40003},
		{"a\nb", 40002, 40003},
		{"größe", 40002, 40003},
		{strings.Repeat("a", 120), 0, 0},
		{strings.Repeat("a", 121), 0, 40003},
		{strings.Repeat("a", 127), 0, 40003},
		{strings.Repeat("a", 128), 40002, 40003},
		{"%DLQ%" + strings.Repeat("a", 120), 0, 40003},
		{"%DLQ%" + strings.Repeat("a", 251), 40002, 40003},
		{"TBW102", 40002, 0},
		{"rmq_sys_x", 40002, 0},
		{"RMQ_SYS_TRANS_HALF_TOPIC", 40002, 0},
		{"SCHEDULE_TOPIC_XXXX", 40002, 0},
		{"CID_RMQ_SYS_x", 0, 40003},
	} {
		r := &v2.Resource{Name: c.name}
		if got := CheckTopic(r).GetCode(); got != c.topic {
			t.Errorf("topic %q: got %d, want %d", c.name, got, c.topic)
		}
		if got := CheckGroup(r).GetCode(); got != c.group {
			t.Errorf("group %q: got %d, want %d", c.name, got, c.group)
		}
	}
	if got := CheckTopic(nil).GetCode(); got != v2.Code_ILLEGAL_TOPIC {
		t.Errorf("no topic: got %v", got)
	}
}

func TestClientIDs(t *testing.T) {
	t.Parallel()
	for id, want := range map[string]v2.Code{
		"host@1@0@abc": 0, "": 40017, " ": 40017, "a\nb": 40000, strings.Repeat("x", 255): 0, strings.Repeat("x", 256): 40000,
	} {
		if got := CheckClientID(id).GetCode(); got != want {
			t.Errorf("%q: got %d, want %d", id, got, want)
		}
	}
}

// SEC-49: filter expressions are bounded.
func TestSEC49FilterExpressions(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		in   string
		kind v2.FilterType
		want string
		code v2.Code
	}{
		{"", v2.FilterType_TAG, "*", 0},
		{" * ", v2.FilterType_TAG, "*", 0},
		{"a||b", v2.FilterType_FILTER_TYPE_UNSPECIFIED, "a||b", 0},
		{" a || b ", v2.FilterType_TAG, "a || b", 0},
		{"a|b", v2.FilterType_TAG, "", 40010},
		{"a||", v2.FilterType_TAG, "", 40010},
		{"||", v2.FilterType_TAG, "", 40010},
		{"a > 1", v2.FilterType_SQL, "", 40010},
		{strings.Repeat("a", MaxExpressionBytes+1), v2.FilterType_TAG, "", 40010},
		{"a\x00", v2.FilterType_TAG, "", 40010},
	} {
		got, fault := CheckExpression(&v2.FilterExpression{Expression: c.in, Type: c.kind})
		if got != c.want || fault.GetCode() != c.code {
			t.Errorf("%q: got %q and %d, want %q and %d", c.in, got, fault.GetCode(), c.want, c.code)
		}
	}
	if got, fault := CheckExpression(nil); got != "*" || fault != nil {
		t.Errorf("no expression: got %q and %v, want everything", got, fault)
	}
}
