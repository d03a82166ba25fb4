//go:build race

package store

// underRace: the race detector makes everything ten times slower, so the enumerations take a sample.
const underRace = true
