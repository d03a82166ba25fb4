package grpc

import (
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"

	v2 "github.com/apache/rocketmq-clients/golang/v5/protocol/v2"
)

// nameBytes is the allow-list of topic and group names. Source: apache/rocketmq TopicValidator (VALID_CHAR_BIT_MAP).
var nameBytes = func() (set [256]bool) {
	for _, c := range []byte("%|_-0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ") {
		set[c] = true
	}
	return set
}()

// systemTopics are refused whatever they are asked for. Source: apache/rocketmq TopicValidator.
var systemTopics = map[string]bool{
	"TBW102": true, "SCHEDULE_TOPIC_XXXX": true, "BenchmarkTest": true, "TRANS_CHECK_MAX_TIME_TOPIC": true,
	"SELF_TEST_TOPIC": true, "OFFSET_MOVED_EVENT": true, "CHECKPOINT_TOPIC": true, "RMQ_SYS_TRANS_HALF_TOPIC": true,
	"RMQ_SYS_TRACE_TOPIC": true, "RMQ_SYS_TRANS_OP_HALF_TOPIC": true,
}

// CheckTopic answers nil when the topic's name may be used, else the status to answer with. The name is checked before it
// is used for anything.
func CheckTopic(topic *v2.Resource) *v2.Status {
	name := topic.GetName()
	limit := MaxTopicBytes
	if strings.HasPrefix(name, "%DLQ%") || strings.HasPrefix(name, "%RETRY%") {
		limit = MaxSystemTopicBytes
	}
	if why := nameFault(name, limit); why != "" {
		return NewStatus(v2.Code_ILLEGAL_TOPIC, "topic name "+why)
	}
	if systemTopics[name] || hasPrefixFold(name, "rmq_sys_") {
		return NewStatus(v2.Code_ILLEGAL_TOPIC, "topic name is reserved for the system")
	}
	return nil
}

// CheckGroup is CheckTopic for a consumer group.
func CheckGroup(group *v2.Resource) *v2.Status {
	name := group.GetName()
	if why := nameFault(name, MaxGroupBytes); why != "" {
		return NewStatus(v2.Code_ILLEGAL_CONSUMER_GROUP, "consumer group name "+why)
	}
	if strings.HasPrefix(name, "CID_RMQ_SYS_") {
		return NewStatus(v2.Code_ILLEGAL_CONSUMER_GROUP, "consumer group name is reserved for the system")
	}
	return nil
}

// CheckClientID checks the client id of the request's metadata.
func CheckClientID(id string) *v2.Status {
	if strings.TrimSpace(id) == "" {
		return NewStatus(v2.Code_CLIENT_ID_REQUIRED, "metadata x-mq-client-id is missing or blank")
	}
	if len(id) > MaxClientIDBytes || hasControl(id) {
		return NewStatus(v2.Code_BAD_REQUEST, fmt.Sprintf("metadata x-mq-client-id is over %d bytes or has control characters", MaxClientIDBytes))
	}
	return nil
}

// CheckHandle checks a receipt handle's length; what it means is the sequencer's affair.
func CheckHandle(handle string) *v2.Status {
	if handle == "" || len(handle) > MaxHandleBytes {
		return NewStatus(v2.Code_INVALID_RECEIPT_HANDLE, "receipt handle is empty or too long")
	}
	return nil
}

// CheckExpression takes a tag filter and answers its text; "" and "*" mean everything.
func CheckExpression(f *v2.FilterExpression) (string, *v2.Status) {
	if f.GetType() == v2.FilterType_SQL {
		return "", NewStatus(v2.Code_ILLEGAL_FILTER_EXPRESSION, "SQL92 filter expressions are not supported yet; use tags: a || b")
	}
	expression := strings.TrimSpace(f.GetExpression())
	if len(expression) > MaxExpressionBytes || hasControl(expression) {
		return "", NewStatus(v2.Code_ILLEGAL_FILTER_EXPRESSION,
			fmt.Sprintf("filter expression is over %d bytes or has control characters", MaxExpressionBytes))
	}
	if expression == "" || expression == "*" {
		return "*", nil
	}
	for tag := range strings.SplitSeq(expression, "||") {
		if tag = strings.TrimSpace(tag); tag == "" || strings.Contains(tag, "|") {
			return "", NewStatus(v2.Code_ILLEGAL_FILTER_EXPRESSION, "filter expression is not of the form a || b")
		}
	}
	return expression, nil
}

// nameFault says what is wrong with a name, "" for nothing.
func nameFault(name string, limit int) string {
	switch {
	case strings.TrimSpace(name) == "":
		return "is blank"
	case len(name) > limit:
		return fmt.Sprintf("has %d bytes, at most %d are allowed", len(name), limit)
	}
	for i := 0; i < len(name); i++ {
		if !nameBytes[name[i]] {
			return "has a character outside of % | a-z A-Z 0-9 _ -"
		}
	}
	return ""
}

func hasPrefixFold(s, prefix string) bool {
	return len(s) >= len(prefix) && strings.EqualFold(s[:len(prefix)], prefix)
}

// hasControl finds control characters: U+0000 to U+001F and U+007F to U+009F.
func hasControl(s string) bool {
	for i := 0; i < len(s); i++ {
		c := s[i]
		if c < 0x20 || c == 0x7f {
			return true
		}
		if c >= utf8.RuneSelf {
			return strings.ContainsFunc(s[i:], unicode.IsControl)
		}
	}
	return false
}
