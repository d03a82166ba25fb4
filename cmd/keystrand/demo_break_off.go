//go:build !faultinject

package main

import "github.com/spf13/pflag"

// addBreakFlag adds nothing: this build cannot be broken on purpose.
func addBreakFlag(*pflag.FlagSet, *string) {}
