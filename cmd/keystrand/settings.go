package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"sort"
	"strings"

	"github.com/spf13/pflag"
)

// setting is one resolved value of serve.
type setting struct {
	Name  string `json:"name"`
	Value string `json:"value"`
	From  string `json:"from"` // flag, environment NAME, file NAME, default
}

// resolveSettings fills the flags that were not given from the environment, then from the file of --config, and tells
// where each value comes from. Unknown names in the file and bad values are refused, all at once.
func resolveSettings(flags *pflag.FlagSet, lookup func(string) (string, bool)) ([]setting, error) {
	from := map[string]string{}
	var faults []error
	fill := func(flag *pflag.Flag, values []string, source string) {
		if from[flag.Name] != "" {
			return
		}
		from[flag.Name] = source
		for _, value := range values {
			if err := flags.Set(flag.Name, value); err != nil {
				faults = append(faults, fmt.Errorf("%s: %w", source, err))
			}
		}
	}
	flagsWithValue(flags, func(flag *pflag.Flag) {
		if flag.Changed {
			from[flag.Name] = "flag"
		}
	})
	flagsWithValue(flags, func(flag *pflag.Flag) {
		name := environmentName(flag.Name)
		if value, ok := lookup(name); ok && value != "" {
			fill(flag, splitList(flag, value), "environment "+name)
		}
	})
	if file := must(flags.GetString("config")); file != "" {
		values, err := readConfig(file)
		if err != nil {
			return nil, &usageError{err}
		}
		for _, name := range sortedNames(values) {
			flag := flags.Lookup(name)
			if flag == nil || flag.Name == "config" || environmentName(name) == "" {
				faults = append(faults, fmt.Errorf("file %s: unknown setting %q", file, name))
				continue
			}
			fill(flag, values[name], "file "+file)
		}
	}
	if len(faults) > 0 {
		return nil, &usageError{errors.Join(faults...)}
	}
	var settings []setting
	flagsWithValue(flags, func(flag *pflag.Flag) {
		source := from[flag.Name]
		if source == "" {
			source = "default"
		}
		settings = append(settings, setting{flag.Name, flag.Value.String(), source})
	})
	return settings, nil
}

// environmentName is KEYSTRAND_ and the flag in capitals; flags that are no settings have none.
func environmentName(flag string) string {
	switch flag {
	case "print-config", "help", "json", "server":
		return ""
	}
	return "KEYSTRAND_" + strings.ToUpper(strings.ReplaceAll(flag, "-", "_"))
}

// splitList reads a repeatable flag's environment value, which is separated by commas.
func splitList(flag *pflag.Flag, value string) []string {
	if flag.Value.Type() == "stringArray" {
		return strings.Split(value, ",")
	}
	return []string{value}
}

// readConfig reads {"flag": value or list of values}.
func readConfig(file string) (map[string][]string, error) {
	text, err := os.ReadFile(file)
	if err != nil {
		return nil, fmt.Errorf("config: %w", err)
	}
	decoder := json.NewDecoder(bytes.NewReader(text))
	decoder.UseNumber()
	raw := map[string]any{}
	if err := decoder.Decode(&raw); err != nil {
		return nil, fmt.Errorf("config %s: not a JSON object: %w", file, err)
	}
	values := make(map[string][]string, len(raw))
	for name, value := range raw {
		items, isList := value.([]any)
		if !isList {
			items = []any{value}
		}
		for _, item := range items {
			switch item.(type) {
			case string, bool, json.Number:
				values[name] = append(values[name], fmt.Sprint(item))
			default:
				return nil, fmt.Errorf("config %s: %q is neither a text, a number, true, false, nor a list of them", file, name)
			}
		}
	}
	return values, nil
}

func sortedNames(values map[string][]string) []string {
	names := make([]string, 0, len(values))
	for name := range values {
		names = append(names, name)
	}
	sort.Strings(names)
	return names
}

func showSettings(p printer, settings []setting) error {
	return show(p, settings, []string{"SETTING", "VALUE", "FROM"}, func(s setting) []string { return []string{s.Name, s.Value, s.From} })
}
