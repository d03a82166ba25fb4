//go:build !faultinject

package demo

import "fmt"

func checkBreak(name string) error {
	return fmt.Errorf("nothing can be broken in this build: %q", name)
}

func breakHere(string) {}
