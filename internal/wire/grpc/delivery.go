package grpc

import (
	"crypto/md5" //nolint:gosec // a check sum that all official clients verify, not a signature
	"strconv"
	"time"

	v2 "github.com/apache/rocketmq-clients/golang/v5/protocol/v2"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/keystrand/keystrand"
)

// outMessage is everything that one delivered message needs, in one allocation.
type outMessage struct {
	response v2.ReceiveMessageResponse
	content  v2.ReceiveMessageResponse_Message
	message  v2.Message
	system   v2.SystemProperties
	topic    v2.Resource
	digest   v2.Digest
	born     timestamppb.Timestamp
	stored   timestamppb.Timestamp
	lease    durationpb.Duration
	offset   int64
	attempt  int32
}

// DeliveryResponse is the answer that carries d. It takes over d's properties: the fencing token is added to them, since
// it is told at delivery and never stored. storeHost names the broker to people.
func DeliveryResponse(d *keystrand.Delivery, storeHost string) *v2.ReceiveMessageResponse {
	out := &outMessage{}
	out.response.Content = &out.content
	out.content.Message = &out.message
	out.topic.Name = d.Topic
	out.message.Topic = &out.topic
	out.message.Body = d.Body
	out.message.UserProperties = withToken(d.Properties, d.Token)
	out.message.SystemProperties = &out.system
	out.fillSystem(d, storeHost)
	return &out.response
}

func (out *outMessage) fillSystem(d *keystrand.Delivery, storeHost string) {
	system := &out.system
	if d.Tag != "" {
		system.Tag = &d.Tag
	}
	system.Keys = d.Keys
	system.MessageId = d.ID
	out.digest.Type = v2.DigestType_MD5
	out.digest.Checksum = Checksum(d.Body)
	system.BodyDigest = &out.digest
	system.BodyEncoding = v2.Encoding_IDENTITY
	system.MessageType = v2.MessageType_NORMAL
	if d.MessageGroup != "" {
		system.MessageType = v2.MessageType_FIFO
		system.MessageGroup = &d.MessageGroup
	}
	setTime(&out.born, d.BornAt)
	system.BornTimestamp = &out.born
	setTime(&out.stored, d.StoredAt)
	system.StoreTimestamp = &out.stored
	system.StoreHost = storeHost
	system.ReceiptHandle = &d.ReceiptHandle
	system.QueueId = d.Queue
	out.offset = int64(d.Offset)
	system.QueueOffset = &out.offset
	// The first delivery is 1. A client that reads 0 computes a wrong delay or throws.
	out.attempt = int32(max(1, d.Attempt))
	system.DeliveryAttempt = &out.attempt
	if d.Lease > 0 {
		out.lease.Seconds, out.lease.Nanos = int64(d.Lease/time.Second), int32(d.Lease%time.Second)
		system.InvisibleDuration = &out.lease
	}
}

// withToken adds the fencing token under the names that users read it by.
func withToken(properties map[string]string, token keystrand.Token) map[string]string {
	if token.IsZero() {
		return properties
	}
	if properties == nil {
		properties = make(map[string]string, 2)
	}
	properties[keystrand.PropertyToken] = strconv.FormatUint(token.Value, 10)
	properties[keystrand.PropertyBroker] = token.Broker
	return properties
}

// Checksum is the MD5 of the transferred bytes in upper-case hex: the only digest on whose text all official clients agree.
func Checksum(body []byte) string {
	const digits = "0123456789ABCDEF"
	sum := md5.Sum(body) //nolint:gosec // see the import
	var text [2 * md5.Size]byte
	for i, b := range sum {
		text[2*i], text[2*i+1] = digits[b>>4], digits[b&15]
	}
	return string(text[:])
}

func setTime(out *timestamppb.Timestamp, t time.Time) {
	if t.IsZero() {
		t = time.Unix(0, 0)
	}
	out.Seconds, out.Nanos = t.Unix(), int32(t.Nanosecond())
}

// StatusResponse and TimestampResponse are the other parts of a receive's answer: the status first, the time of delivery
// last. A client that sees no status reports an internal error.
func StatusResponse(status *v2.Status) *v2.ReceiveMessageResponse {
	return &v2.ReceiveMessageResponse{Content: &v2.ReceiveMessageResponse_Status{Status: status}}
}

// TimestampResponse tells when the answer was made.
func TimestampResponse(now time.Time) *v2.ReceiveMessageResponse {
	return &v2.ReceiveMessageResponse{Content: &v2.ReceiveMessageResponse_DeliveryTimestamp{DeliveryTimestamp: timestamppb.New(now)}}
}
