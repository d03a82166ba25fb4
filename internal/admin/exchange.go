package admin

import (
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"reflect"
	"strings"

	"github.com/google/uuid"
)

// readJSON decodes the one JSON object of a request: unknown fields, a second value and too many bytes are refused.
func readJSON(w http.ResponseWriter, r *http.Request, limit int64, into any) error {
	decoder := json.NewDecoder(http.MaxBytesReader(w, r.Body, limit))
	decoder.DisallowUnknownFields()
	err := decoder.Decode(into)
	if err == nil {
		_, err = decoder.Token()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err == nil {
			err = errors.New("more than one value")
		}
	}
	var large *http.MaxBytesError
	if errors.As(err, &large) {
		return rejected(http.StatusRequestEntityTooLarge, fmt.Sprintf("request over %d bytes", limit), "send less in one request")
	}
	return rejected(http.StatusBadRequest, "the request is not the JSON object that this path takes: "+jsonFault(err), seeAPI)
}

// jsonFault says a decoder's error in the words of JSON: the peer knows nothing of Go's types.
func jsonFault(err error) string {
	var wrong *json.UnmarshalTypeError
	var base64Fault base64.CorruptInputError
	switch {
	case errors.Is(err, io.EOF):
		return "it is empty"
	case errors.Is(err, io.ErrUnexpectedEOF):
		return "it ends too early"
	case errors.As(err, &base64Fault):
		return fmt.Sprintf("body_base64 is not base64 from its byte %d on", int64(base64Fault)) // the one field of bytes
	case errors.As(err, &wrong):
		kind, value, _ := strings.Cut(wrong.Value, " ")
		found := map[string]string{"string": "a string", "number": "a number", "bool": "true or false", "array": "an array", "object": "an object"}[kind]
		if value != "" {
			found = value // a number that is none of the wanted kind
		}
		name := wrong.Field[strings.LastIndex(wrong.Field, ".")+1:]
		if name == "" {
			return fmt.Sprintf("it is %s, not an object", found)
		}
		return fmt.Sprintf("%s is %s, not %s", name, found, jsonWord(wrong.Type))
	}
	return strings.TrimPrefix(err.Error(), "json: ")
}

// jsonWord is what JSON calls a value that fits t.
func jsonWord(t reflect.Type) string {
	switch t.Kind() {
	case reflect.String:
		return "a string"
	case reflect.Bool:
		return "true or false"
	case reflect.Slice:
		if t.Elem().Kind() == reflect.Uint8 {
			return "a string"
		}
		return "an array"
	case reflect.Map, reflect.Struct:
		return "an object"
	default:
		return "a whole number"
	}
}

// writeJSON answers; the error is that of the connection.
func writeJSON(w http.ResponseWriter, status int, value any) error {
	body, err := json.Marshal(value)
	if err != nil {
		return fmt.Errorf("encode answer: %w", err)
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	if _, err := w.Write(append(body, '\n')); err != nil {
		return fmt.Errorf("write answer: %w", err)
	}
	return http.NewResponseController(w).Flush()
}

func writeProblem(w http.ResponseWriter, p *Problem) {
	if p.Status == http.StatusServiceUnavailable {
		w.Header().Set("Retry-After", "1")
	}
	// A peer that went away needs no answer; there is nobody to tell.
	_ = writeJSON(w, p.Status, p)
}

// reply ends a request: value, or err as a problem. What a peer may not read goes to the log under a request id.
func (s *service) reply(w http.ResponseWriter, r *http.Request, value any, err error) {
	if err == nil {
		_ = writeJSON(w, http.StatusOK, value) // as in writeProblem
		return
	}
	var problem *Problem
	if !errors.As(err, &problem) {
		problem = problemOf(err)
	}
	if problem.Status >= http.StatusInternalServerError && r.Context().Err() == nil {
		problem.Request = uuid.NewString()
		s.logger.Warn("admin request not served", "route", r.Pattern, "request_id", problem.Request, "error", err.Error())
	}
	writeProblem(w, problem)
}
