package inbox

import (
	"fmt"
	"sort"
	"strings"

	"github.com/keystrand/keystrand"
)

// Transitions is a state machine: state -> event type -> next state. An aggregate that does not exist is in state "".
type Transitions map[string]map[string]string

// Next is the state after an event of that type; false when the machine does not allow it.
func (t Transitions) Next(state, eventType string) (string, bool) {
	next, ok := t[state][eventType]
	return next, ok
}

// Validate reports all faults: targets that are "", and states that no event leads to.
func (t Transitions) Validate() error {
	var faults []string
	reached := map[string]bool{"": true}
	for state, byType := range t {
		for eventType, next := range byType {
			if next == "" {
				faults = append(faults, fmt.Sprintf("event %q in state %q leads to no state", eventType, state))
			}
			reached[next] = true
		}
	}
	for state := range t {
		if !reached[state] {
			faults = append(faults, fmt.Sprintf("no event leads to state %q", state))
		}
	}
	if len(faults) == 0 {
		return nil
	}
	sort.Strings(faults)
	return fmt.Errorf("transitions: %s: %w", strings.Join(faults, "; "), keystrand.ErrRejected)
}
