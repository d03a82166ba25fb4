package main

import (
	"runtime"
	"runtime/debug"

	"github.com/spf13/cobra"
)

// version is set by the release build with -ldflags; a build without it tells its module version.
var version = ""

// buildInfo is what the binary knows of its making.
type buildInfo struct {
	Version string `json:"version"`
	Commit  string `json:"commit,omitempty"`
	Dirty   bool   `json:"dirty,omitempty"`
	Go      string `json:"go"`
}

func readBuildInfo() buildInfo {
	info := buildInfo{Version: version, Go: runtime.Version()}
	build, ok := debug.ReadBuildInfo()
	if !ok {
		return info
	}
	if info.Version == "" {
		info.Version = build.Main.Version
	}
	for _, setting := range build.Settings {
		switch setting.Key {
		case "vcs.revision":
			info.Commit = setting.Value
		case "vcs.modified":
			info.Dirty = setting.Value == "true"
		}
	}
	return info
}

func newVersionCommand() *cobra.Command {
	return &cobra.Command{
		Use: "version", Short: "Print version and commit of this binary", Args: exactly(),
		RunE: func(cmd *cobra.Command, _ []string) error {
			p, info := printerOf(cmd), readBuildInfo()
			if p.json {
				return p.line(info)
			}
			return p.fields([2]string{"keystrand", info.Version}, [2]string{"commit", info.Commit}, [2]string{"go", info.Go})
		},
	}
}
