package server

import (
	"context"
	"fmt"

	v2 "github.com/apache/rocketmq-clients/golang/v5/protocol/v2"

	wire "github.com/keystrand/keystrand/internal/wire/grpc"
)

// AckMessage finishes deliveries, durably. A second ack of the same delivery is OK; a handle that can never be acked is
// 40013, because clients repeat everything else for ever.
func (s *Server) AckMessage(ctx context.Context, in *v2.AckMessageRequest) (*v2.AckMessageResponse, error) {
	refuse := func(fault *v2.Status) (*v2.AckMessageResponse, error) {
		return &v2.AckMessageResponse{Status: fault}, nil
	}
	if _, fault := s.member(ctx, in.GetGroup(), in.GetTopic()); fault != nil {
		return refuse(fault)
	}
	entries := in.GetEntries()
	if len(entries) == 0 || len(entries) > wire.MaxAckEntries {
		return refuse(wire.NewStatus(v2.Code_BAD_REQUEST, fmt.Sprintf("%d entries, 1 to %d are allowed", len(entries), wire.MaxAckEntries)))
	}
	handles := make([]string, len(entries))
	for i, entry := range entries {
		if handles[i] = entry.GetReceiptHandle(); wire.CheckHandle(handles[i]) != nil {
			handles[i] = "" // surely invalid; the others of the batch count
		}
	}
	results := make([]*v2.AckMessageResultEntry, len(entries))
	for i, err := range s.core.Ack(ctx, in.GetGroup().GetName(), in.GetTopic().GetName(), handles...) {
		results[i] = &v2.AckMessageResultEntry{
			MessageId: entries[i].GetMessageId(), ReceiptHandle: entries[i].GetReceiptHandle(), Status: wire.HandleStatusOf(err),
		}
	}
	return &v2.AckMessageResponse{
		Status:  wire.Summary(len(results), func(i int) *v2.Status { return results[i].GetStatus() }),
		Entries: results,
	}, nil
}
