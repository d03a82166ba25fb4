package server

import (
	"context"

	v2 "github.com/apache/rocketmq-clients/golang/v5/protocol/v2"

	wire "github.com/keystrand/keystrand/internal/wire/grpc"
)

// The calls of this file are not supported yet. Each says so in its status, which clients show, instead of a transport
// error, which some retry.

// notYet is the status for a call that is not supported: a missing client id comes first, as everywhere.
func (s *Server) notYet(ctx context.Context, what string) *v2.Status {
	if _, fault := s.caller(ctx); fault != nil {
		return fault
	}
	return wire.NotSupported(what)
}

// EndTransaction is not supported yet.
func (s *Server) EndTransaction(ctx context.Context, _ *v2.EndTransactionRequest) (*v2.EndTransactionResponse, error) {
	return &v2.EndTransactionResponse{Status: s.notYet(ctx, "EndTransaction")}, nil
}

// RecallMessage is not supported yet.
func (s *Server) RecallMessage(ctx context.Context, _ *v2.RecallMessageRequest) (*v2.RecallMessageResponse, error) {
	return &v2.RecallMessageResponse{Status: s.notYet(ctx, "RecallMessage")}, nil
}

// SyncLiteSubscription is not supported yet.
func (s *Server) SyncLiteSubscription(ctx context.Context, _ *v2.SyncLiteSubscriptionRequest) (*v2.SyncLiteSubscriptionResponse, error) {
	return &v2.SyncLiteSubscriptionResponse{Status: s.notYet(ctx, "SyncLiteSubscription")}, nil
}

// PullMessage is not supported yet.
func (s *Server) PullMessage(_ *v2.PullMessageRequest, stream v2.MessagingService_PullMessageServer) error {
	return stream.Send(&v2.PullMessageResponse{
		Content: &v2.PullMessageResponse_Status{Status: s.notYet(stream.Context(), "PullMessage")},
	})
}

// UpdateOffset is not supported yet.
func (s *Server) UpdateOffset(ctx context.Context, _ *v2.UpdateOffsetRequest) (*v2.UpdateOffsetResponse, error) {
	return &v2.UpdateOffsetResponse{Status: s.notYet(ctx, "UpdateOffset")}, nil
}

// GetOffset is not supported yet.
func (s *Server) GetOffset(ctx context.Context, _ *v2.GetOffsetRequest) (*v2.GetOffsetResponse, error) {
	return &v2.GetOffsetResponse{Status: s.notYet(ctx, "GetOffset")}, nil
}

// QueryOffset is not supported yet.
func (s *Server) QueryOffset(ctx context.Context, _ *v2.QueryOffsetRequest) (*v2.QueryOffsetResponse, error) {
	return &v2.QueryOffsetResponse{Status: s.notYet(ctx, "QueryOffset")}, nil
}
