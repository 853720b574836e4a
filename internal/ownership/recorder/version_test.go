package recorder

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
)

func TestAnAPIServerSaysItsVersion(t *testing.T) {
	for _, c := range []struct {
		name, body string
		status     int
		want       string
		refused    bool
		problem    string
	}{
		{"its version", `{"major":"1","minor":"27","gitVersion":"v1.27.4"}`, 200, "v1.27.4", false, ""},
		{"no", `{}`, 401, "", true, "status 401"},
		{"not yet", `starting`, 503, "", false, "status 503"},
		{"something else", `<html>`, 200, "", false, "no answer of an API server"},
		{"nothing", `{}`, 200, "", false, "no answer of an API server"},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				if r.URL.Path != "/version" || r.Header.Get("Authorization") != "Bearer secret" {
					t.Errorf("asked for %s with %q", r.URL, r.Header.Get("Authorization"))
				}
				w.WriteHeader(c.status)
				if _, err := w.Write([]byte(c.body)); err != nil {
					t.Error(err)
				}
			}))
			defer s.Close()
			have, err := Version(t.Context(), s.Client(), strings.TrimPrefix(s.URL, "https://"), "secret")
			switch {
			case have != c.want, Refused(err) != c.refused, (err == nil) != (c.problem == ""):
				t.Errorf("%q, %v", have, err)
			case err != nil && (!strings.Contains(err.Error(), c.problem) || strings.Contains(err.Error(), "secret")):
				t.Errorf("it should say %q and not the token: %v", c.problem, err)
			}
		})
	}
}

func TestAManagerSaysItsVersion(t *testing.T) {
	s := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		if _, err := w.Write([]byte("# TYPE kubernetes_build_info gauge\nkubernetes_build_info{git_version=\"v1.27.4\",major=\"1\",minor=\"27\"} 1\n" +
			"# TYPE leader_election_master_status gauge\nleader_election_master_status{name=\"kube-controller-manager\"} 1\n")); err != nil {
			t.Error(err)
		}
	}))
	defer s.Close()
	m, err := Scrape(t.Context(), s.Client(), strings.TrimPrefix(s.URL, "https://"), "")
	if err != nil || m.Version != "v1.27.4" || len(m.Leads) != 1 {
		t.Errorf("%+v, %v", m, err)
	}
}
