package history

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"strings"
)

// maxTextBytes bounds a text field of a line. Keys and topics are far shorter; reasons are cut by the recorder.
const maxTextBytes = 4096

// decoder reads lines. It interns texts, so that ten million lines share a few thousand strings.
type decoder struct {
	texts map[string]string
	line  []byte
	at    int
}

func newDecoder() *decoder { return &decoder{texts: make(map[string]string)} }

var errLine = errors.New("not a history line")

// decode reads one line, without its newline, into e. It takes the flat objects that Append writes, with fields in any
// order and white space between them; an unknown field is an error, since skipping it could hide a fault.
func (d *decoder) decode(line []byte, e *Event) error {
	*e = newEvent(0)
	d.line, d.at = line, 0
	if !d.take('{') {
		return fmt.Errorf("%w: no object", errLine)
	}
	for first := true; ; first = false {
		if d.take('}') {
			break
		}
		if !first && !d.take(',') {
			return fmt.Errorf("%w: want a comma at byte %d", errLine, d.at)
		}
		name, err := d.raw()
		if err != nil {
			return err
		}
		if !d.take(':') {
			return fmt.Errorf("%w: want a colon at byte %d", errLine, d.at)
		}
		if err := d.field(name, e); err != nil {
			return err
		}
	}
	d.space()
	if d.at != len(d.line) {
		return fmt.Errorf("%w: bytes after the object", errLine)
	}
	if e.E == 0 {
		return fmt.Errorf("%w: no event name", errLine)
	}
	return nil
}

func (d *decoder) field(name []byte, e *Event) (err error) {
	switch string(name) {
	case "n":
		e.N, err = d.number(math.MaxUint64)
	case "t":
		e.T, err = d.signed()
	case "p":
		e.P, err = d.number32()
	case "e":
		var raw []byte
		if raw, err = d.raw(); err == nil {
			if e.E = kindByName[string(raw)]; e.E == 0 {
				err = fmt.Errorf("%w: unknown event %q", errLine, raw)
			}
		}
	case "op":
		e.Op, err = d.number(math.MaxUint64)
	case "topic":
		e.Topic, err = d.text()
	case "g":
		e.Group, err = d.text()
	case "k":
		e.Key, err = d.text()
	case "id":
		e.ID, err = d.id()
	case "q":
		var v uint64
		v, err = d.number(math.MaxInt32)
		e.Queue = int32(v)
	case "off":
		e.Offset, err = d.signed()
	case "seq":
		e.Seq, err = d.signed()
	case "lease":
		e.Token, err = d.number(math.MaxUint64)
	case "b":
		e.Broker, err = d.text()
	case "att":
		e.Attempt, err = d.number32()
	case "ep":
		e.Epoch, err = d.number32()
	case "ver":
		e.Version, err = d.number(math.MaxUint64)
	case "sum":
		e.Sum, err = d.number(math.MaxUint64)
	case "since":
		e.Since, err = d.signed()
	case "dur":
		e.Dur, err = d.signed()
	case "who":
		e.Who, err = d.number32()
	case "cnt":
		e.Count, err = d.signed()
	case "what":
		e.What, err = d.text()
	case "err":
		e.Err, err = d.text()
	default:
		err = fmt.Errorf("%w: unknown field %q", errLine, name)
	}
	return err
}

func (d *decoder) space() {
	for d.at < len(d.line) && (d.line[d.at] == ' ' || d.line[d.at] == '\t' || d.line[d.at] == '\r') {
		d.at++
	}
}

func (d *decoder) take(c byte) bool {
	d.space()
	if d.at < len(d.line) && d.line[d.at] == c {
		d.at++
		return true
	}
	return false
}

// raw returns the bytes of a JSON string; they alias the line unless the string has escapes.
func (d *decoder) raw() ([]byte, error) {
	if !d.take('"') {
		return nil, fmt.Errorf("%w: want a string at byte %d", errLine, d.at)
	}
	start := d.at
	for ; d.at < len(d.line); d.at++ {
		switch c := d.line[d.at]; {
		case c == '"':
			d.at++
			if d.at-1-start > maxTextBytes {
				return nil, fmt.Errorf("%w: text over %d bytes", errLine, maxTextBytes)
			}
			return d.line[start : d.at-1], nil
		case c == '\\' || c < 0x20 || c > 0x7e:
			return d.escaped(start)
		}
	}
	return nil, fmt.Errorf("%w: string without end", errLine)
}

func (d *decoder) escaped(start int) ([]byte, error) {
	for ; d.at < len(d.line); d.at++ {
		switch d.line[d.at] {
		case '\\':
			d.at++
		case '"':
			d.at++
			var s string
			if err := json.Unmarshal(d.line[start-1:d.at], &s); err != nil {
				return nil, fmt.Errorf("%w: %w", errLine, err)
			}
			if len(s) > maxTextBytes {
				return nil, fmt.Errorf("%w: text over %d bytes", errLine, maxTextBytes)
			}
			return []byte(s), nil
		}
	}
	return nil, fmt.Errorf("%w: string without end", errLine)
}

func (d *decoder) text() (string, error) {
	raw, err := d.raw()
	if err != nil {
		return "", err
	}
	if s, ok := d.texts[string(raw)]; ok {
		return s, nil
	}
	s := strings.Clone(string(raw))
	d.texts[s] = s
	return s, nil
}

func (d *decoder) number(limit uint64) (uint64, error) {
	d.space()
	start, v := d.at, uint64(0)
	for ; d.at < len(d.line); d.at++ {
		c := d.line[d.at] - '0'
		if c > 9 {
			break
		}
		if v > (math.MaxUint64-uint64(c))/10 {
			return 0, fmt.Errorf("%w: number too large at byte %d", errLine, start)
		}
		v = v*10 + uint64(c)
	}
	if d.at == start || v > limit {
		return 0, fmt.Errorf("%w: want a number of at most %d at byte %d", errLine, limit, start)
	}
	return v, nil
}

func (d *decoder) number32() (uint32, error) {
	v, err := d.number(math.MaxUint32)
	return uint32(v), err
}

func (d *decoder) signed() (int64, error) {
	negative := d.take('-')
	v, err := d.number(math.MaxInt64)
	if negative {
		return -int64(v), err
	}
	return int64(v), err
}

func (d *decoder) id() (ID, error) {
	if !d.take('[') {
		return ID{}, fmt.Errorf("%w: want an id at byte %d", errLine, d.at)
	}
	producer, err := d.number32()
	if err != nil {
		return ID{}, err
	}
	if !d.take(',') {
		return ID{}, fmt.Errorf("%w: want two numbers in an id at byte %d", errLine, d.at)
	}
	counter, err := d.number32()
	if err != nil {
		return ID{}, err
	}
	if !d.take(']') || counter == 0 {
		return ID{}, fmt.Errorf("%w: an id is [producer, counter from 1]", errLine)
	}
	return ID{producer, counter}, nil
}
