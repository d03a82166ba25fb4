//go:build !faultinject

package deliver

// Neither is ever true in a build that is used.
const (
	handOutLeased     = false
	acceptStaleTokens = false
)

func (m *Machine) leasedNext(_ *slot, grants []Grant) []Grant { return grants }
