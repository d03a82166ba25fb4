package grpc

import (
	"fmt"
	"strings"

	v2 "github.com/apache/rocketmq-clients/golang/v5/protocol/v2"

	"github.com/keystrand/keystrand"
)

// reservedProperties may not be set by producers: they are the names under which Apache's broker keeps what is not the
// user's, and Keystrand's own. Source: apache/rocketmq MessageConst.
var reservedProperties = map[string]bool{
	"KEYS": true, "TAGS": true, "WAIT": true, "DELAY": true, "RETRY_TOPIC": true, "REAL_TOPIC": true, "REAL_QID": true,
	"TRAN_MSG": true, "PGROUP": true, "MIN_OFFSET": true, "MAX_OFFSET": true, "BUYER_ID": true, "ORIGIN_MESSAGE_ID": true,
	"TRANSFER_FLAG": true, "CORRECTION_FLAG": true, "MQ2_FLAG": true, "RECONSUME_TIME": true, "MSG_REGION": true,
	"TRACE_ON": true, "UNIQ_KEY": true, "EXTEND_UNIQ_INFO": true, "MAX_RECONSUME_TIMES": true, "CONSUME_START_TIME": true,
	"POP_CK": true, "POP_CK_OFFSET": true, "1ST_POP_TIME": true, "TRAN_PREPARED_QUEUE_OFFSET": true, "DUP_INFO": true,
	"INSTANCE_ID": true, "CORRELATION_ID": true, "REPLY_TO_CLIENT": true, "TTL": true, "ARRIVE_TIME": true,
	"PUSH_REPLY_TIME": true, "CLUSTER": true, "MSG_TYPE": true, "INNER_MULTI_QUEUE_OFFSET": true, "__BORNHOST": true,
	"BORN_TIMESTAMP": true, "DLQ_ORIGIN_TOPIC": true, "DLQ_ORIGIN_MESSAGE_ID": true, "__CRC32#": true,
	keystrand.PropertyToken: true, keystrand.PropertyBroker: true,
}

// IsReservedProperty reports whether producers may not set the property.
func IsReservedProperty(name string) bool {
	return reservedProperties[name] || strings.HasPrefix(name, "TIMER_")
}

// checkProperties checks what a message carries beside its body: count, bytes, names, values, tag and keys.
func checkProperties(m *v2.Message) *v2.Status {
	system := m.GetSystemProperties()
	if n := len(m.GetUserProperties()); n > MaxUserProperties {
		return NewStatus(v2.Code_MESSAGE_PROPERTIES_TOO_LARGE, fmt.Sprintf("%d user properties, at most %d are allowed", n, MaxUserProperties))
	}
	size := len(system.GetTag())
	for _, key := range system.GetKeys() {
		size += len(key)
		if strings.TrimSpace(key) == "" || hasControl(key) {
			return NewStatus(v2.Code_ILLEGAL_MESSAGE_KEY, "a message key is blank or has control characters")
		}
	}
	for name, value := range m.GetUserProperties() {
		size += len(name) + len(value)
		if status := checkProperty(name, value); status != nil {
			return status
		}
	}
	if size > MaxPropertyBytes {
		return NewStatus(v2.Code_MESSAGE_PROPERTIES_TOO_LARGE,
			fmt.Sprintf("properties, tag and keys have %d bytes, at most %d are allowed", size, MaxPropertyBytes))
	}
	if tag := system.GetTag(); tag != "" && (strings.TrimSpace(tag) == "" || strings.Contains(tag, "|") || hasControl(tag)) {
		return NewStatus(v2.Code_ILLEGAL_MESSAGE_TAG, "the tag is blank or has | or control characters")
	}
	return nil
}

func checkProperty(name, value string) *v2.Status {
	switch {
	case strings.TrimSpace(name) == "":
		return NewStatus(v2.Code_ILLEGAL_MESSAGE_PROPERTY_KEY, "a user property has a blank name")
	case IsReservedProperty(name):
		return NewStatus(v2.Code_ILLEGAL_MESSAGE_PROPERTY_KEY, fmt.Sprintf("user property %q is reserved; choose another name", name))
	case hasControl(name) || hasControl(value):
		return NewStatus(v2.Code_ILLEGAL_MESSAGE_PROPERTY_KEY, "a user property has control characters in its name or value")
	}
	return nil
}
