package server

import (
	"context"
	"errors"
	"io"

	v2 "github.com/apache/rocketmq-clients/golang/v5/protocol/v2"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/keystrand/keystrand"
	"github.com/keystrand/keystrand/internal/state"
	wire "github.com/keystrand/keystrand/internal/wire/grpc"
)

// Telemetry is a client's session: it sends Settings at its start and every few minutes, and each is answered, since some
// clients wait for the answer without a timeout. The stream is never ended by this side while it is healthy.
func (s *Server) Telemetry(stream v2.MessagingService_TelemetryServer) error {
	ctx := stream.Context()
	c, fault := s.caller(ctx)
	if fault != nil {
		// Both ways of refusing: some clients read the command's status, some the stream's end.
		if err := stream.Send(&v2.TelemetryCommand{Status: fault}); err != nil {
			return err
		}
		return status.Error(codes.InvalidArgument, fault.GetMessage())
	}
	for {
		command, err := stream.Recv()
		switch {
		case errors.Is(err, io.EOF):
			return nil
		case err != nil: // the client left, or this server stops
			return err
		}
		settings := command.GetSettings()
		if settings == nil {
			continue // answers to commands that this broker does not send
		}
		if fault := s.settle(ctx, c, settings); fault != nil {
			return status.Error(codes.InvalidArgument, fault.GetMessage())
		}
		answer := &v2.TelemetryCommand{Status: wire.OK(), Command: &v2.TelemetryCommand_Settings{Settings: settings}}
		if err := stream.Send(answer); err != nil {
			return err
		}
	}
}

// settle turns a client's Settings into the answer.
func (s *Server) settle(ctx context.Context, c *client, settings *v2.Settings) *v2.Status {
	switch settings.GetPubSub().(type) {
	case *v2.Settings_Publishing:
		if settings.GetPublishing() == nil {
			return wire.NewStatus(v2.Code_BAD_REQUEST, "settings without a publishing part")
		}
		for _, topic := range settings.GetPublishing().GetTopics() {
			if fault := wire.CheckTopic(topic); fault != nil {
				return fault
			}
		}
		wire.FillProducerSettings(settings)
	case *v2.Settings_Subscription:
		return s.settleConsumer(ctx, c, settings)
	default:
		return wire.NewStatus(v2.Code_UNRECOGNIZED_CLIENT_TYPE, "settings with neither a publishing nor a subscription part")
	}
	s.clients.seenIn(c, "")
	return nil
}

func (s *Server) settleConsumer(ctx context.Context, c *client, settings *v2.Settings) *v2.Status {
	subscription := settings.GetSubscription()
	if fault := wire.CheckGroup(subscription.GetGroup()); fault != nil {
		return fault
	}
	for _, entry := range subscription.GetSubscriptions() {
		if fault := wire.CheckTopic(entry.GetTopic()); fault != nil {
			return fault
		}
		if _, fault := wire.CheckExpression(entry.GetExpression()); fault != nil {
			return fault
		}
	}
	group := subscription.GetGroup().GetName()
	wire.FillConsumerSettings(settings, s.groupFor(ctx, group, subscription.GetSubscriptions()))
	c.learn(settings.GetClientType())
	s.clients.seenIn(c, group)
	return nil
}

// groupFor is the group as it is, or as it will be when its first receive makes it: clients read once, at their start,
// whether it is ordered. A FIFO topic among those subscribed makes it so.
func (s *Server) groupFor(ctx context.Context, group string, subscriptions []*v2.SubscriptionEntry) keystrand.GroupSpec {
	if known, ok := s.core.Group(group); ok {
		return known.Spec
	}
	first := ""
	spec := keystrand.GroupSpec{Name: group}
	for _, entry := range subscriptions {
		topic, ok := s.core.Topic(entry.GetTopic().GetName())
		if !ok {
			continue
		}
		if first == "" || topic.Type == keystrand.TopicFIFO && !spec.Ordered {
			first = topic.Name
		}
		spec.Ordered = spec.Ordered || topic.Type == keystrand.TopicFIFO
	}
	if first != "" {
		if made, err := s.core.EnsureGroup(ctx, group, first); err == nil {
			return made.Spec
		} else if !errors.Is(err, keystrand.ErrGroupNotFound) {
			s.options.Logger.Warn("consumer group could not be made at its client's start", "consumer_group", group, "error", err)
		}
	}
	if complete, err := state.CompleteGroup(spec); err == nil {
		return complete
	}
	return spec
}
