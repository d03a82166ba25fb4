package admin

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"

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
	return rejected(http.StatusBadRequest, "request is not the JSON object that this path takes: "+err.Error(), "see docs/operations.md for its fields")
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
