package state

import (
	"errors"
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/keystrand/keystrand"
)

// Bounds of names and of a message's parts. Those of topic, group, properties and message group are the ones the official
// clients expect. Source: org.apache.rocketmq.client.Validators; GrpcValidator of the proxy, 5.3.
const (
	MaxTopicNameBytes    = 127
	MaxGroupNameBytes    = 120
	MaxMessageGroupBytes = 63
	MaxTagBytes          = 128
	MaxKeyBytes          = 1024
	MaxKeys              = 64
	MaxProperties        = 128
	MaxPropertiesBytes   = 16 << 10
	MaxBodyBytes         = 4 << 20
	MaxMessageIDBytes    = 256
)

// maxDeadLetterNameBytes: "%DLQ%" and the longest group name. Such topics are made by the broker only.
const maxDeadLetterNameBytes = 255

// ValidateTopicName checks a topic name against the one allow-list: 1 to 127 of letters, digits, '_', '-', '%', '|'. Names
// that begin with "%DLQ%" belong to the broker; with reserved set they are allowed, and longer.
func ValidateTopicName(name string, reserved bool) error {
	bound := MaxTopicNameBytes
	if strings.HasPrefix(name, DeadLetterPrefix) {
		if !reserved {
			return fmt.Errorf("topic name %q: names that begin with %s are made by the broker: %w", clip(name), DeadLetterPrefix, keystrand.ErrRejected)
		}
		bound = maxDeadLetterNameBytes
	}
	return validateName("topic", name, bound)
}

// ValidateGroupName checks a consumer group's name: 1 to 120 of letters, digits, '_', '-', '%', '|'.
func ValidateGroupName(name string) error {
	return validateName("consumer group", name, MaxGroupNameBytes)
}

func validateName(what, name string, bound int) error {
	if len(name) == 0 || len(name) > bound {
		return fmt.Errorf("%s name %q has %d bytes, 1 to %d are allowed: %w", what, clip(name), len(name), bound, keystrand.ErrRejected)
	}
	for i := 0; i < len(name); i++ {
		if !allowedInName(name[i]) {
			return fmt.Errorf("%s name %q: byte %d is %q; letters, digits, '_', '-', '%%' and '|' are allowed: %w", what, clip(name), i, name[i], keystrand.ErrRejected)
		}
	}
	return nil
}

func allowedInName(c byte) bool {
	return 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || '0' <= c && c <= '9' || c == '_' || c == '-' || c == '%' || c == '|'
}

// clip keeps a hostile name from filling a log line.
func clip(s string) string {
	if len(s) > MaxTopicNameBytes {
		return s[:MaxTopicNameBytes] + "..."
	}
	return s
}

// ValidateTag checks one tag: 1 to 128 bytes of UTF-8 without '|', space or control characters.
func ValidateTag(tag string) error {
	switch {
	case tag == "":
		return fmt.Errorf("empty tag: %w", keystrand.ErrRejected)
	case len(tag) > MaxTagBytes:
		return fmt.Errorf("tag of %d bytes, at most %d are allowed: %w", len(tag), MaxTagBytes, keystrand.ErrTooLarge)
	case strings.ContainsRune(tag, '|') || hasControl(tag) || strings.ContainsFunc(tag, unicode.IsSpace):
		return fmt.Errorf("tag %q: it must be UTF-8 without '|', space or control character: %w", tag, keystrand.ErrRejected)
	}
	return nil
}

// ValidateMessage checks everything of a message that does not depend on its topic, and reports all faults at once.
func ValidateMessage(m *keystrand.Message) error {
	var faults []error
	add := func(class error, format string, args ...any) {
		faults = append(faults, fmt.Errorf("%s: %w", fmt.Sprintf(format, args...), class))
	}
	if len(m.Body) == 0 {
		add(keystrand.ErrRejected, "Body is empty")
	} else if len(m.Body) > MaxBodyBytes {
		add(keystrand.ErrTooLarge, "Body has %d bytes, at most %d are allowed", len(m.Body), MaxBodyBytes)
	}
	if len(m.ID) > MaxMessageIDBytes {
		add(keystrand.ErrTooLarge, "ID has %d bytes, at most %d are allowed", len(m.ID), MaxMessageIDBytes)
	} else if hasControl(m.ID) {
		add(keystrand.ErrRejected, "ID %q has a control character or is not UTF-8", m.ID)
	}
	if len(m.MessageGroup) > MaxMessageGroupBytes {
		add(keystrand.ErrTooLarge, "MessageGroup has %d bytes, at most %d are allowed", len(m.MessageGroup), MaxMessageGroupBytes)
	} else if hasControl(m.MessageGroup) {
		add(keystrand.ErrRejected, "MessageGroup %q has a control character or is not UTF-8", m.MessageGroup)
	}
	if m.Tag != "" {
		if err := ValidateTag(m.Tag); err != nil {
			faults = append(faults, fmt.Errorf("Tag: %w", err))
		}
	}
	return errors.Join(append(faults, validateProperties(m)...)...)
}

func validateProperties(m *keystrand.Message) (faults []error) {
	total := len(m.Tag)
	if len(m.Keys) > MaxKeys {
		faults = append(faults, fmt.Errorf("%d Keys, at most %d are allowed: %w", len(m.Keys), MaxKeys, keystrand.ErrTooLarge))
	}
	for _, k := range m.Keys {
		total += len(k)
		if k == "" || len(k) > MaxKeyBytes || hasControl(k) || strings.ContainsFunc(k, unicode.IsSpace) {
			faults = append(faults, fmt.Errorf("key %q: 1 to %d bytes of UTF-8 without space or control character are allowed: %w", clip(k), MaxKeyBytes, keystrand.ErrRejected))
		}
	}
	if len(m.Properties) > MaxProperties {
		faults = append(faults, fmt.Errorf("%d properties, at most %d are allowed: %w", len(m.Properties), MaxProperties, keystrand.ErrTooLarge))
	}
	for name, value := range m.Properties {
		total += len(name) + len(value)
		switch {
		case name == "" || hasControl(name) || hasControl(value):
			faults = append(faults, fmt.Errorf("property %q: names are not empty, and neither name nor value has control characters: %w", clip(name), keystrand.ErrRejected))
		case name == keystrand.PropertyToken || name == keystrand.PropertyBroker:
			faults = append(faults, fmt.Errorf("property %q is added at delivery; a producer may not set it: %w", name, keystrand.ErrRejected))
		}
	}
	if total > MaxPropertiesBytes {
		faults = append(faults, fmt.Errorf("tag, keys and properties have %d bytes, at most %d are allowed: %w", total, MaxPropertiesBytes, keystrand.ErrTooLarge))
	}
	return faults
}

func hasControl(s string) bool {
	if !utf8.ValidString(s) {
		return true
	}
	return strings.ContainsFunc(s, unicode.IsControl)
}
