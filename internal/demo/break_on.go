//go:build faultinject

package demo

import (
	"fmt"

	"github.com/keystrand/keystrand/inbox"
	"github.com/keystrand/keystrand/internal/deliver"
)

// breaks are the faults of the product itself that the judge must find.
var breaks = map[string]func(){
	"strand-lease": deliver.HandOutLeased,
	"token-check":  func() { deliver.AcceptStaleTokens(); inbox.AcceptStaleTokens() },
	"inbox":        inbox.ApplyDuplicates,
}

func checkBreak(name string) error {
	if breaks[name] == nil {
		return fmt.Errorf("--break %q: choose strand-lease, token-check or inbox", name)
	}
	return nil
}

func breakHere(name string) {
	if f := breaks[name]; f != nil {
		f()
	}
}
