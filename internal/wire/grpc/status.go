package grpc

import (
	"context"
	"errors"
	"strconv"

	v2 "github.com/apache/rocketmq-clients/golang/v5/protocol/v2"

	"github.com/keystrand/keystrand"
)

// codeTable says which status code an error of Keystrand gets. The first row that matches by errors.Is counts, so exact
// errors stand above their classes. Hidden rows tell the client no more than the sentinel's own text, because what wraps
// it may name files.
//
// Two choices come from what the official clients do with a code. Producers back off only for 42900 and repeat at once for
// everything else, so "retry later" is 42900. Push consumers repeat an ack each second for ever unless the code is OK or
// 40013, so whatever can never succeed for a handle is 40013.
var codeTable = []struct {
	err    error
	code   v2.Code
	hidden bool
}{
	{keystrand.ErrTopicNotFound, v2.Code_TOPIC_NOT_FOUND, false},
	{keystrand.ErrGroupNotFound, v2.Code_CONSUMER_GROUP_NOT_FOUND, false},
	{keystrand.ErrLeaseExpired, v2.Code_INVALID_RECEIPT_HANDLE, false},
	{keystrand.ErrBadHandle, v2.Code_INVALID_RECEIPT_HANDLE, false},
	{keystrand.ErrMessageType, v2.Code_MESSAGE_PROPERTY_CONFLICT_WITH_TYPE, false},
	{keystrand.ErrTooLarge, v2.Code_PAYLOAD_TOO_LARGE, false},
	{keystrand.ErrExists, v2.Code_PRECONDITION_FAILED, false},
	{keystrand.ErrReadOnly, v2.Code_HA_NOT_AVAILABLE, true},
	{keystrand.ErrClosed, v2.Code_TOO_MANY_REQUESTS, false},
	{keystrand.ErrRetryLater, v2.Code_TOO_MANY_REQUESTS, false},
	{keystrand.ErrUnknown, v2.Code_MASTER_PERSISTENCE_TIMEOUT, true},
	{keystrand.ErrSuperseded, v2.Code_INVALID_RECEIPT_HANDLE, false},
	{keystrand.ErrCorrupt, v2.Code_INTERNAL_SERVER_ERROR, true},
	{keystrand.ErrRejected, v2.Code_BAD_REQUEST, false},
	{context.DeadlineExceeded, v2.Code_REQUEST_TIMEOUT, true},
	{context.Canceled, v2.Code_REQUEST_TIMEOUT, true},
}

// okStatus is shared by all answers; nobody may change it.
var okStatus = &v2.Status{Code: v2.Code_OK, Message: "OK"}

// OK is the status of a request that was done. Shared: read only.
func OK() *v2.Status { return okStatus }

// NewStatus is a status of its own.
func NewStatus(code v2.Code, message string) *v2.Status {
	return &v2.Status{Code: code, Message: message}
}

// NotSupported is the answer to what this version does not do.
func NotSupported(what string) *v2.Status {
	return NewStatus(v2.Code_NOT_IMPLEMENTED, what+" is not supported yet by this broker")
}

// StatusOf maps an error, nil included, to the status that the client gets.
func StatusOf(err error) *v2.Status {
	if err == nil {
		return okStatus
	}
	for _, row := range codeTable {
		if !errors.Is(err, row.err) {
			continue
		}
		if row.hidden {
			return NewStatus(row.code, row.err.Error())
		}
		return NewStatus(row.code, err.Error())
	}
	return NewStatus(v2.Code_INTERNAL_SERVER_ERROR, "internal error; the broker's log says more")
}

// HandleStatusOf is StatusOf for requests about a receipt handle: a topic or group that is gone makes the handle invalid
// for ever, and a client that heard "not found" would repeat the request each second for ever.
func HandleStatusOf(err error) *v2.Status {
	status := StatusOf(err)
	switch status.Code {
	case v2.Code_TOPIC_NOT_FOUND, v2.Code_CONSUMER_GROUP_NOT_FOUND, v2.Code_BAD_REQUEST:
		return NewStatus(v2.Code_INVALID_RECEIPT_HANDLE, status.Message)
	}
	return status
}

// Summary is the top status of an answer with entries: the entries' status when all agree, else "multiple results".
func Summary(n int, entry func(i int) *v2.Status) *v2.Status {
	if n == 0 {
		return okStatus
	}
	first := entry(0)
	for i := 1; i < n; i++ {
		if entry(i).GetCode() != first.GetCode() {
			return NewStatus(v2.Code_MULTIPLE_RESULTS, strconv.Itoa(n)+" entries with different results")
		}
	}
	return first
}

// TopicNotFound is the answer to a route query for a topic that does not exist.
func TopicNotFound(name string) *v2.Status {
	return NewStatus(v2.Code_TOPIC_NOT_FOUND, "topic \""+name+"\" does not exist; create it first (keystrand topic create)")
}
