package admin

import (
	"fmt"
	"net/http"

	"github.com/keystrand/keystrand"
)

func (s *service) listTopics(w http.ResponseWriter, r *http.Request) {
	list := List[Topic]{Items: []Topic{}}
	for _, t := range s.backend.Topics() {
		list.Items = append(list.Items, topicOf(t))
	}
	s.reply(w, r, list, nil)
}

func (s *service) describeTopic(w http.ResponseWriter, r *http.Request) {
	topic, err := s.findTopic(r.PathValue("name"))
	s.reply(w, r, topic, err)
}

func (s *service) createTopic(w http.ResponseWriter, r *http.Request) {
	var ask NewTopic
	if err := readJSON(w, r, maxRequestBytes, &ask); err != nil {
		s.reply(w, r, nil, err)
		return
	}
	if err := checkTopicName(ask.Name); err != nil {
		s.reply(w, r, nil, err)
		return
	}
	if err := s.backend.CreateTopic(r.Context(), ask.spec()); err != nil {
		s.reply(w, r, nil, err)
		return
	}
	topic, err := s.findTopic(ask.Name)
	s.reply(w, r, topic, err)
}

func (s *service) findTopic(name string) (Topic, error) {
	if err := checkTopicName(name); err != nil {
		return Topic{}, err
	}
	t, ok := s.backend.Topic(name)
	if !ok {
		return Topic{}, fmt.Errorf("topic %q: %w", name, keystrand.ErrTopicNotFound)
	}
	return topicOf(t), nil
}
