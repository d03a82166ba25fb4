package admin

import (
	"context"
	"net/http"
)

// maxReasonBytes bounds the words that an operator leaves in the log.
const maxReasonBytes = 1024

func (s *service) explain(w http.ResponseWriter, r *http.Request) {
	query := r.URL.Query()
	strand := Strand{ConsumerGroup: query.Get("group"), Topic: query.Get("topic"), MessageGroup: query.Get("key")}
	if err := strand.check(); err != nil {
		s.reply(w, r, nil, err)
		return
	}
	e, err := s.backend.Explain(r.Context(), strand.ConsumerGroup, strand.Topic, strand.MessageGroup)
	s.reply(w, r, explanationOf(e), err)
}

func (s *service) park(w http.ResponseWriter, r *http.Request) {
	s.change(w, r, func(ctx context.Context, t Strand) error {
		return s.backend.Park(ctx, t.ConsumerGroup, t.Topic, t.MessageGroup, t.Reason)
	})
}

func (s *service) resume(w http.ResponseWriter, r *http.Request) {
	s.change(w, r, func(ctx context.Context, t Strand) error {
		return s.backend.Resume(ctx, t.ConsumerGroup, t.Topic, t.MessageGroup)
	})
}

// change runs one operator's verb and answers with the strand as it stands after it.
func (s *service) change(w http.ResponseWriter, r *http.Request, verb func(context.Context, Strand) error) {
	var strand Strand
	err := readJSON(w, r, maxRequestBytes, &strand)
	if err == nil {
		err = strand.check()
	}
	if err == nil {
		err = verb(r.Context(), strand)
	}
	if err != nil {
		s.reply(w, r, nil, err)
		return
	}
	s.logger.Info("strand changed by operator", "route", r.Pattern, "consumer_group", strand.ConsumerGroup, "topic", strand.Topic,
		"message_group", strand.MessageGroup, "reason", strand.Reason)
	e, err := s.backend.Explain(r.Context(), strand.ConsumerGroup, strand.Topic, strand.MessageGroup)
	s.reply(w, r, explanationOf(e), err)
}

func (t Strand) check() error {
	if err := checkGroupName(t.ConsumerGroup); err != nil {
		return err
	}
	if err := checkTopicName(t.Topic); err != nil {
		return err
	}
	if len(t.Reason) > maxReasonBytes {
		return rejected(http.StatusBadRequest, "reason over 1024 bytes", "say it shorter")
	}
	return checkMessageGroup(t.MessageGroup)
}
