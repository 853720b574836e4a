package simcloud

import (
	"encoding/json"
	"net/http"
	"net/url"
	"strconv"

	"github.com/transplant-dev/transplant/lab/simcloud/api"
)

// admin serves the controls over HTTP, for a harness in another process:
//
//	GET  /admin/state      what the cloud holds
//	POST /admin/change     a Change
//	GET  /admin/settings   the Settings
//	PUT  /admin/settings
//	GET  /admin/audit      calls; ?after=<seq>&caller=&operation=&mutating=true&changed=true
//	GET  /admin/unknown    what was asked for and is not known
func (c *Cloud) admin() http.Handler {
	mux := http.NewServeMux()
	reply := func(pattern string, of func() any) {
		mux.HandleFunc(pattern, func(w http.ResponseWriter, _ *http.Request) { write(w, http.StatusOK, of()) })
	}
	reply("GET /admin/state", func() any { return c.State() })
	reply("GET /admin/settings", func() any { return c.Settings() })
	reply("GET /admin/unknown", func() any { return c.Unknown() })
	mux.HandleFunc("GET /admin/audit", func(w http.ResponseWriter, r *http.Request) {
		f, err := filter(r.URL.Query())
		if err != nil {
			write(w, http.StatusBadRequest, api.Refusal{Message: err.Error()})
			return
		}
		write(w, http.StatusOK, c.Calls(f))
	})
	mux.HandleFunc("POST /admin/change", take(c.Apply))
	mux.HandleFunc("PUT /admin/settings", take(c.Set))
	mux.HandleFunc("/", func(w http.ResponseWriter, r *http.Request) { c.refuseUnknown(w, r.Method+" "+r.URL.Path) })
	return mux
}

// take hands the body of a request to what uses it.
func take[T any](use func(T) error) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		var body T
		decoder := json.NewDecoder(r.Body)
		decoder.DisallowUnknownFields()
		err := decoder.Decode(&body)
		if err == nil {
			err = use(body)
		}
		if err != nil {
			write(w, http.StatusBadRequest, api.Refusal{Message: err.Error()})
			return
		}
		write(w, http.StatusOK, struct{}{})
	}
}

func filter(q url.Values) (Filter, error) {
	f := Filter{Callers: q["caller"], Mutating: q.Get("mutating") == "true", Changed: q.Get("changed") == "true"}
	for _, operation := range q["operation"] {
		f.Operations = append(f.Operations, api.Operation(operation))
	}
	if text := q.Get("after"); text != "" {
		after, err := strconv.ParseInt(text, 10, 64)
		if err != nil {
			return f, err
		}
		f.After = after
	}
	return f, nil
}
