package admin

import (
	"fmt"
	"net/http"

	"github.com/keystrand/keystrand"
	"github.com/keystrand/keystrand/internal/sequencer"
)

func (s *service) listGroups(w http.ResponseWriter, r *http.Request) {
	list := List[Group]{Items: []Group{}}
	for _, g := range s.backend.Groups() {
		list.Items = append(list.Items, groupOf(g))
	}
	s.reply(w, r, list, nil)
}

func (s *service) describeGroup(w http.ResponseWriter, r *http.Request) {
	group, err := s.findGroup(r.PathValue("name"))
	s.reply(w, r, group, err)
}

func (s *service) createGroup(w http.ResponseWriter, r *http.Request) {
	var ask GroupSpec
	if err := readJSON(w, r, maxRequestBytes, &ask); err != nil {
		s.reply(w, r, nil, err)
		return
	}
	if err := checkGroupName(ask.Name); err != nil {
		s.reply(w, r, nil, err)
		return
	}
	if err := s.backend.CreateGroup(r.Context(), ask.Spec()); err != nil {
		s.reply(w, r, nil, err)
		return
	}
	group, err := s.findGroup(ask.Name)
	s.reply(w, r, group, err)
}

func (s *service) lag(w http.ResponseWriter, r *http.Request) {
	name := r.PathValue("name")
	if err := checkGroupName(name); err != nil {
		s.reply(w, r, nil, err)
		return
	}
	standings, err := s.backend.Lag(r.Context(), name)
	list := List[GroupTopic]{Items: []GroupTopic{}}
	for _, t := range standings {
		list.Items = append(list.Items, standingOf(name, t))
	}
	s.reply(w, r, list, err)
}

func (s *service) findGroup(name string) (Group, error) {
	if err := checkGroupName(name); err != nil {
		return Group{}, err
	}
	g, ok := s.backend.Group(name)
	if !ok {
		return Group{}, fmt.Errorf("consumer group %q: %w", name, keystrand.ErrGroupNotFound)
	}
	return groupOf(g), nil
}

func groupOf(g sequencer.GroupInfo) Group {
	group := Group{GroupSpec: GroupSpecOf(g.Spec), Topics: []GroupTopic{}}
	for _, t := range g.Topics {
		group.Topics = append(group.Topics, standingOf(g.Spec.Name, t))
	}
	return group
}
