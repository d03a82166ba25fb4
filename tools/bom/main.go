// Command bom prints the bill of materials of a Go binary, CycloneDX 1.5 as JSON: the modules that were linked, with their
// versions and the hashes that go.sum knows them by.
package main

import (
	"crypto/sha256"
	"debug/buildinfo"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"os"
	"runtime/debug"
)

type bill struct {
	Format     string      `json:"bomFormat"`
	Spec       string      `json:"specVersion"`
	Version    int         `json:"version"`
	Metadata   metadata    `json:"metadata"`
	Components []component `json:"components"`
}

type metadata struct {
	Component component `json:"component"`
}

type component struct {
	Type       string     `json:"type"`
	Name       string     `json:"name"`
	Version    string     `json:"version,omitempty"`
	PackageURL string     `json:"purl,omitempty"`
	Hashes     []hash     `json:"hashes,omitempty"`
	Properties []property `json:"properties,omitempty"`
}

type hash struct {
	Algorithm string `json:"alg"`
	Content   string `json:"content"`
}

type property struct {
	Name  string `json:"name"`
	Value string `json:"value"`
}

func main() {
	if len(os.Args) != 2 {
		fmt.Fprintln(os.Stderr, "usage: bom BINARY")
		os.Exit(2)
	}
	b, err := billOf(os.Args[1])
	if err == nil {
		out := json.NewEncoder(os.Stdout)
		out.SetIndent("", "  ")
		err = out.Encode(b)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "bom:", err)
		os.Exit(1)
	}
}

func billOf(file string) (bill, error) {
	info, err := buildinfo.ReadFile(file)
	if err != nil {
		return bill{}, err
	}
	text, err := os.ReadFile(file)
	if err != nil {
		return bill{}, err
	}
	sum := sha256.Sum256(text)
	b := bill{Format: "CycloneDX", Spec: "1.5", Version: 1}
	b.Metadata.Component = component{Type: "application", Name: info.Main.Path, Version: info.Main.Version, Hashes: []hash{{"SHA-256", hex.EncodeToString(sum[:])}}}
	b.Components = append(b.Components, component{Type: "library", Name: "std", Version: info.GoVersion, PackageURL: "pkg:golang/std@" + info.GoVersion})
	for _, module := range info.Deps {
		b.Components = append(b.Components, componentOf(module))
	}
	return b, nil
}

func componentOf(module *debug.Module) component {
	if module.Replace != nil {
		module = module.Replace
	}
	return component{
		Type: "library", Name: module.Path, Version: module.Version, PackageURL: "pkg:golang/" + module.Path + "@" + module.Version,
		Properties: []property{{"go.sum", module.Sum}},
	}
}
