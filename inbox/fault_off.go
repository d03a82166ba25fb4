//go:build !faultinject

package inbox

// Neither is ever true in a build that is used.
const (
	applyDuplicates   = false
	acceptStaleTokens = false
)
