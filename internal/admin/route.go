package admin

import (
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
)

// seeAPI is the advice on a request of the wrong shape.
const seeAPI = "see docs/operations.md, The HTTP API"

// routed answers a path or a method that mux does not know as everything else is answered: as JSON. What mux knows to change
// something must come as JSON itself; every such route is a POST.
func routed(mux *http.ServeMux) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if _, pattern := mux.Handler(r); pattern != "" {
			if problem := notJSON(r); r.Method == http.MethodPost && problem != nil {
				writeProblem(w, problem)
				return
			}
			mux.ServeHTTP(w, r)
			return
		}
		var allowed []string
		for _, method := range []string{http.MethodGet, http.MethodHead, http.MethodPost} {
			other := *r
			other.Method = method
			if _, pattern := mux.Handler(&other); pattern != "" {
				allowed = append(allowed, method)
			}
		}
		if len(allowed) == 0 {
			writeProblem(w, rejected(http.StatusNotFound, fmt.Sprintf("there is no path %q", clip(r.URL.Path)), seeAPI))
			return
		}
		take := strings.Join(allowed, ", ")
		w.Header().Set("Allow", take)
		writeProblem(w, rejected(http.StatusMethodNotAllowed, fmt.Sprintf("%q does not take %s", clip(r.URL.Path), clip(r.Method)), "use "+take))
	})
}

// clip bounds how much of a request an answer repeats.
func clip(s string) string {
	const most = 100
	if len(s) > most {
		return strings.ToValidUTF8(s[:most], "") + "..."
	}
	return s
}

// knownParameters refuses query parameters that the path does not have: a mistyped one would be ignored in silence.
func (s *service) knownParameters(next http.HandlerFunc, known []string) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		query, err := url.ParseQuery(r.URL.RawQuery)
		if err != nil {
			s.reply(w, r, nil, rejected(http.StatusBadRequest, "the query is not NAME=VALUE pairs joined by &, percent-encoded", seeAPI))
			return
		}
		for name, values := range query {
			switch {
			case !slices.Contains(known, name):
				s.reply(w, r, nil, rejected(http.StatusBadRequest, fmt.Sprintf("query parameter %q is not known to this path", clip(name)), seeAPI))
				return
			case len(values) > 1:
				s.reply(w, r, nil, rejected(http.StatusBadRequest, "query parameter "+name+" is given twice", "give it once"))
				return
			}
		}
		for _, name := range known {
			if query.Get(name) == "" {
				s.reply(w, r, nil, rejected(http.StatusBadRequest, "query parameter "+name+" is missing", seeAPI))
				return
			}
		}
		next(w, r)
	}
}
