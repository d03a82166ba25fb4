package sequencer

import (
	"github.com/keystrand/keystrand/internal/deliver"
)

// Stats are counts since the start.
type Stats struct {
	Sent, Granted, Acked, Failed, DeadLettered, Alarms uint64
	Waiting, Machines                                  int
}

// alarm tells of something a person should know.
func (s *Sequencer) alarm(m *machine, a deliver.Alarm) {
	s.loop.stats.Alarms++
	g := s.loop.catalog.GroupByID(m.group)
	s.logger.Warn("strand needs attention", "what", a.What, "consumer_group", g.Spec.Name, "topic", m.topic.Name,
		"entry", a.Entry, "reason", a.Reason)
}
