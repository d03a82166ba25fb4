package grpc

import "time"

// Limits of the protocol edge. The numbers are those of Apache RocketMQ's defaults, so that what one takes the other takes.
const (
	// MaxBodyBytes bounds one message body.
	MaxBodyBytes = 4 << 20
	// MaxUserProperties and MaxPropertyBytes bound what a message carries beside its body; the bytes count names, values,
	// tag and keys.
	MaxUserProperties = 128
	MaxPropertyBytes  = 16 << 10
	// MaxTopicBytes, MaxSystemTopicBytes (%DLQ% and %RETRY% topics) and MaxGroupBytes bound names.
	MaxTopicBytes       = 127
	MaxSystemTopicBytes = 255
	MaxGroupBytes       = 120
	// MaxMessageGroupBytes is counted in bytes of UTF-8, not in characters.
	MaxMessageGroupBytes = 63
	// MaxMessageIDBytes bounds message ids; the official clients send 34.
	MaxMessageIDBytes = 255
	// MaxClientIDBytes bounds the client id in the request's metadata.
	MaxClientIDBytes = 255
	// MaxExpressionBytes bounds a filter expression.
	MaxExpressionBytes = 1024
	// MaxReceive bounds the messages of one answer; larger requests are served this many.
	MaxReceive = 32
	// MaxSendMessages and MaxAckEntries bound one request's entries.
	MaxSendMessages = 1024
	MaxAckEntries   = 1024
	// MaxHandleBytes bounds a receipt handle as it comes back.
	MaxHandleBytes = 1024
	// MaxEndpointAddresses bounds the addresses that a route query may ask to be echoed.
	MaxEndpointAddresses = 16
	// MaxAssignments bounds the entries of an assignment: each is one process queue and one waiting receive in the client.
	MaxAssignments = 8
)

// Bounds of times.
const (
	MinInvisible = 10 * time.Second
	// MinOwnInvisible is the lower bound for Keystrand's own clients.
	MinOwnInvisible = time.Second
	MaxInvisible    = 12 * time.Hour

	MinPoll = 5 * time.Second
	MaxPoll = 20 * time.Second
)
