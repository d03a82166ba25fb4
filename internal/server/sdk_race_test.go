//go:build race

package server_test

import "testing"

func TestOfficialGoClient(t *testing.T) {
	t.Skip("the official Go client has data races of its own; run this test without the race detector")
}
