//go:build faultinject

package inbox

var applyDuplicates, acceptStaleTokens bool

// ApplyDuplicates breaks the inbox: the handler runs for events that were applied before. Only a build that must be caught
// by the judge has it. Call it before the first Apply.
func ApplyDuplicates() { applyDuplicates = true }

// AcceptStaleTokens breaks the inbox: a token that is older than the stored one is not refused. As ApplyDuplicates.
func AcceptStaleTokens() { acceptStaleTokens = true }
