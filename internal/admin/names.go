package admin

import (
	"net/http"
	"unicode"
	"unicode/utf8"

	"github.com/keystrand/keystrand/internal/state"
)

// The allow-lists are package state's, so that every way in refuses the same names. A topic named in a question may be one
// that the broker made; only the state may make such a one.

func checkTopicName(name string) error { return state.ValidateTopicName(name, true) }
func checkGroupName(name string) error { return state.ValidateGroupName(name) }

// checkMessageGroup takes any text that a message group can be, since keys are the users' own.
func checkMessageGroup(key string) error {
	bad := key == "" || len(key) > state.MaxMessageGroupBytes || !utf8.ValidString(key)
	for _, c := range key {
		bad = bad || unicode.IsControl(c)
	}
	if bad {
		return rejected(http.StatusBadRequest, "message group is not 1 to 63 bytes of UTF-8 without control characters", "give the message group that the producer set")
	}
	return nil
}
