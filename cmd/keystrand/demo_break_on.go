//go:build faultinject

package main

import "github.com/spf13/pflag"

// addBreakFlag lets the demo break what the judge must then find.
func addBreakFlag(flags *pflag.FlagSet, to *string) {
	flags.StringVar(to, "break", "", "break on purpose: strand-lease, token-check or inbox; the judge must find it")
}
