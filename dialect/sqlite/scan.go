package sqlite

import (
	"context"
	"database/sql"
	"fmt"
	"time"

	"github.com/keystrand/keystrand"
)

type queryer interface {
	QueryContext(ctx context.Context, query string, args ...any) (*sql.Rows, error)
}

// collect runs a query and scans each row into a new T through the places that fields names.
func collect[T any](ctx context.Context, q queryer, fields func(*T) []any, query string, args ...any) ([]T, error) {
	rows, err := q.QueryContext(ctx, query, args...)
	if err != nil {
		return nil, wrap(err)
	}
	defer func() { _ = rows.Close() }() // its error is rows.Err's
	var all []T
	for rows.Next() {
		var t T
		if err := rows.Scan(fields(&t)...); err != nil {
			return nil, wrap(err)
		}
		all = append(all, t)
	}
	return all, wrap(rows.Err())
}

// stamp scans stored nanoseconds into a time.
type stamp struct{ t *time.Time }

func (s *stamp) Scan(v any) error {
	ns, ok := v.(int64)
	if !ok {
		return fmt.Errorf("stored time is a %T, not a number: %w", v, keystrand.ErrCorrupt)
	}
	*s.t = timeOf(ns)
	return nil
}
