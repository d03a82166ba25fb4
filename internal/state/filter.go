package state

import (
	"fmt"
	"slices"
	"strings"

	"github.com/keystrand/keystrand"
)

// Filter is a parsed tag expression. The zero value matches everything.
//
// Invariant: tags is sorted, without repeats, and hashes[i] is TagHash(tags[i]); both are empty when everything matches.
type Filter struct {
	tags   []string
	hashes []uint32
}

// Bounds of a filter.
const (
	maxFilterBytes = 4096
	maxFilterTags  = 128
)

// ParseFilter reads "", "*" (everything) or tags joined by "||". Its error wraps keystrand.ErrRejected.
func ParseFilter(expression string) (Filter, error) {
	if len(expression) > maxFilterBytes {
		return Filter{}, fmt.Errorf("filter of %d bytes, at most %d are allowed: %w", len(expression), maxFilterBytes, keystrand.ErrRejected)
	}
	if e := strings.TrimSpace(expression); e == "" || e == "*" {
		return Filter{}, nil
	}
	var f Filter
	for part := range strings.SplitSeq(expression, "||") {
		tag := strings.TrimSpace(part)
		if tag == "*" {
			return Filter{}, nil
		}
		if err := ValidateTag(tag); err != nil {
			return Filter{}, fmt.Errorf("filter %q: %w", expression, err)
		}
		f.tags = append(f.tags, tag)
	}
	slices.Sort(f.tags)
	f.tags = slices.Compact(f.tags)
	if len(f.tags) > maxFilterTags {
		return Filter{}, fmt.Errorf("filter with %d tags, at most %d are allowed: %w", len(f.tags), maxFilterTags, keystrand.ErrRejected)
	}
	for _, tag := range f.tags {
		f.hashes = append(f.hashes, TagHash(tag))
	}
	return f, nil
}

// Matches compares by hash: false is certain, true has to be confirmed by MatchesTag when the message is read.
func (f *Filter) Matches(hash uint32) bool {
	return len(f.hashes) == 0 || slices.Contains(f.hashes, hash)
}

// MatchesTag compares the text.
func (f *Filter) MatchesTag(tag string) bool {
	if len(f.tags) == 0 {
		return true
	}
	_, found := slices.BinarySearch(f.tags, tag)
	return found
}

// String is the expression in one fixed form: "*" or the sorted tags joined by " || ".
func (f *Filter) String() string {
	if len(f.tags) == 0 {
		return "*"
	}
	return strings.Join(f.tags, " || ")
}
