//go:build !faultinject

package inbox

// applyDuplicates is never true in a build that is used.
const applyDuplicates = false
