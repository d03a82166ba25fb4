package server_test

import (
	"flag"
	"os"
	"testing"
)

// prepareSDK, if set, tells the official client where to log: by default it writes to the home directory.
var prepareSDK func(dir string)

func TestMain(m *testing.M) {
	dir, err := os.MkdirTemp("", "official-client-log")
	if err != nil {
		panic(err)
	}
	if prepareSDK != nil {
		prepareSDK(dir)
	}
	// These tests wait far more than they work: more of them at a time than there are cores.
	flag.Parse()
	if err := flag.Set("test.parallel", "16"); err != nil {
		panic(err)
	}
	code := m.Run()
	_ = os.RemoveAll(dir)
	os.Exit(code)
}
