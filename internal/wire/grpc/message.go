package grpc

import (
	"fmt"
	"strings"
	"time"

	v2 "github.com/apache/rocketmq-clients/golang/v5/protocol/v2"

	"github.com/keystrand/keystrand"
)

// Messages checks the messages of one SendMessage request and converts them. On a fault nothing may be stored and the
// status is for all of them. Bodies, keys and properties are not copied: they stay the request's, which must not change.
func Messages(in []*v2.Message) (topic string, out []keystrand.Message, fault *v2.Status) {
	if len(in) == 0 {
		return "", nil, NewStatus(v2.Code_MESSAGE_CORRUPTED, "no messages to send")
	}
	if len(in) > MaxSendMessages {
		return "", nil, NewStatus(v2.Code_BAD_REQUEST, fmt.Sprintf("%d messages in one request, at most %d are allowed", len(in), MaxSendMessages))
	}
	if fault := CheckTopic(in[0].GetTopic()); fault != nil {
		return "", nil, fault
	}
	topic = in[0].GetTopic().GetName()
	out = make([]keystrand.Message, len(in))
	for i, m := range in {
		if m.GetTopic().GetName() != topic {
			return "", nil, NewStatus(v2.Code_MESSAGE_CORRUPTED, "messages of different topics in one request")
		}
		if fault := checkMessage(m); fault != nil {
			return "", nil, fault
		}
		fillMessage(&out[i], topic, m)
	}
	return topic, out, nil
}

func checkMessage(m *v2.Message) *v2.Status {
	system := m.GetSystemProperties()
	id := system.GetMessageId()
	switch {
	case len(m.GetBody()) == 0:
		return NewStatus(v2.Code_MESSAGE_BODY_EMPTY, "message body is empty")
	case len(m.GetBody()) > MaxBodyBytes:
		return NewStatus(v2.Code_MESSAGE_BODY_TOO_LARGE, fmt.Sprintf("message body has %d bytes, at most %d are allowed", len(m.GetBody()), MaxBodyBytes))
	case strings.TrimSpace(id) == "" || len(id) > MaxMessageIDBytes || hasControl(id):
		return NewStatus(v2.Code_ILLEGAL_MESSAGE_ID, fmt.Sprintf("message id is blank, over %d bytes or has control characters", MaxMessageIDBytes))
	case system.GetBodyEncoding() == v2.Encoding_GZIP:
		return NotSupported("a compressed message body")
	}
	if fault := checkProperties(m); fault != nil {
		return fault
	}
	if fault := checkMessageGroup(system); fault != nil {
		return fault
	}
	return checkType(system)
}

func checkMessageGroup(system *v2.SystemProperties) *v2.Status {
	if system.MessageGroup == nil || *system.MessageGroup == "" {
		return nil
	}
	group := *system.MessageGroup
	if len(group) > MaxMessageGroupBytes || strings.TrimSpace(group) == "" || hasControl(group) {
		return NewStatus(v2.Code_ILLEGAL_MESSAGE_GROUP,
			fmt.Sprintf("message group is blank, over %d bytes or has control characters", MaxMessageGroupBytes))
	}
	return nil
}

// checkType refuses the types that no topic of this version takes. FIFO against NORMAL is the topic's affair and shows in the
// message group, as on Apache's broker, which derives the type from the properties.
func checkType(system *v2.SystemProperties) *v2.Status {
	what := ""
	switch {
	case system.GetMessageType() == v2.MessageType_TRANSACTION:
		what = "a transaction message"
	case system.DeliveryTimestamp != nil || system.GetMessageType() == v2.MessageType_DELAY:
		what = "a delayed message"
	case system.Priority != nil || system.GetMessageType() == v2.MessageType_PRIORITY:
		what = "a message with priority"
	case system.LiteTopic != nil || system.GetMessageType() == v2.MessageType_LITE:
		what = "a message of a lite topic"
	case system.GetMessageType() == v2.MessageType_FIFO && system.GetMessageGroup() == "":
		return NewStatus(v2.Code_MESSAGE_PROPERTY_CONFLICT_WITH_TYPE, "a FIFO message needs a message group")
	default:
		return nil
	}
	return NewStatus(v2.Code_MESSAGE_PROPERTY_CONFLICT_WITH_TYPE, what+" fits no topic here: topics are fifo or normal")
}

func fillMessage(out *keystrand.Message, topic string, m *v2.Message) {
	system := m.GetSystemProperties()
	out.ID = system.GetMessageId()
	out.Topic = topic
	out.MessageGroup = system.GetMessageGroup()
	out.Tag = system.GetTag()
	out.Keys = system.GetKeys()
	out.Properties = m.GetUserProperties()
	out.Body = m.GetBody()
	if born := system.GetBornTimestamp(); born.IsValid() {
		out.BornAt = time.Unix(born.GetSeconds(), int64(born.GetNanos()))
	}
}

// BornHost is what the producer says of its host, cut to a name's length.
func BornHost(in []*v2.Message) string {
	if len(in) == 0 {
		return ""
	}
	host := in[0].GetSystemProperties().GetBornHost()
	if len(host) > MaxClientIDBytes || hasControl(host) {
		return ""
	}
	return host
}
