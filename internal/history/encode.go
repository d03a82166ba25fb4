package history

import (
	"encoding/json"
	"strconv"
)

// Append writes e as one JSON line, with its newline, behind buf. Fields that say nothing are left out.
func Append(buf []byte, e *Event) []byte {
	buf = append(buf, '{')
	if e.N != 0 {
		buf = appendUint(buf, `"n":`, e.N)
		buf = append(buf, ',')
	}
	buf = append(buf, `"t":`...)
	buf = strconv.AppendInt(buf, e.T, 10)
	buf = appendUint(buf, `,"p":`, uint64(e.P))
	buf = append(buf, `,"e":"`...)
	buf = append(buf, e.E.String()...)
	buf = append(buf, '"')
	buf = appendNonZero(buf, `,"op":`, e.Op)
	buf = appendText(buf, `,"topic":`, e.Topic)
	buf = appendText(buf, `,"g":`, e.Group)
	buf = appendText(buf, `,"k":`, e.Key)
	if !e.ID.IsZero() {
		buf = appendUint(buf, `,"id":[`, uint64(e.ID.Producer))
		buf = appendUint(buf, `,`, uint64(e.ID.Counter))
		buf = append(buf, ']')
	}
	buf = appendKnown(buf, `,"q":`, int64(e.Queue))
	buf = appendKnown(buf, `,"off":`, e.Offset)
	buf = appendKnown(buf, `,"seq":`, e.Seq)
	buf = appendNonZero(buf, `,"lease":`, e.Token)
	buf = appendText(buf, `,"b":`, e.Broker)
	buf = appendNonZero(buf, `,"att":`, uint64(e.Attempt))
	buf = appendNonZero(buf, `,"ep":`, uint64(e.Epoch))
	buf = appendNonZero(buf, `,"ver":`, e.Version)
	buf = appendNonZero(buf, `,"sum":`, e.Sum)
	buf = appendSigned(buf, `,"since":`, e.Since)
	buf = appendSigned(buf, `,"dur":`, e.Dur)
	buf = appendNonZero(buf, `,"who":`, uint64(e.Who))
	buf = appendSigned(buf, `,"cnt":`, e.Count)
	buf = appendText(buf, `,"what":`, e.What)
	buf = appendText(buf, `,"err":`, e.Err)
	return append(buf, '}', '\n')
}

func appendUint(buf []byte, name string, v uint64) []byte {
	return strconv.AppendUint(append(buf, name...), v, 10)
}

func appendNonZero(buf []byte, name string, v uint64) []byte {
	if v == 0 {
		return buf
	}
	return appendUint(buf, name, v)
}

func appendSigned(buf []byte, name string, v int64) []byte {
	if v == 0 {
		return buf
	}
	return strconv.AppendInt(append(buf, name...), v, 10)
}

// appendKnown leaves -1 out: 0 is a queue and an offset.
func appendKnown(buf []byte, name string, v int64) []byte {
	if v < 0 {
		return buf
	}
	return strconv.AppendInt(append(buf, name...), v, 10)
}

func appendText(buf []byte, name, s string) []byte {
	if s == "" {
		return buf
	}
	buf = append(buf, name...)
	if plain(s) {
		buf = append(buf, '"')
		buf = append(buf, s...)
		return append(buf, '"')
	}
	quoted, err := json.Marshal(s)
	if err != nil { // cannot be: any string marshals; invalid UTF-8 is replaced
		return append(buf, `""`...)
	}
	return append(buf, quoted...)
}

// plain reports whether s stands in JSON as it is.
func plain(s string) bool {
	for i := range len(s) {
		if c := s[i]; c < 0x20 || c > 0x7e || c == '"' || c == '\\' {
			return false
		}
	}
	return true
}
