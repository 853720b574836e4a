package apitest

import (
	"fmt"
	"net/http"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"

	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/util/sets"
	apirequest "k8s.io/apiserver/pkg/endpoints/request"
	"sigs.k8s.io/yaml"
)

// Right is one verb on one resource: what a request needs, or what a role grants. An empty namespace or name stands for
// all of them in what is granted.
type Right struct {
	Verb, Group, Resource, Namespace, Name string
}

func (r Right) String() string {
	s := r.Verb + " " + r.Resource
	if r.Group != "" {
		s += "." + r.Group
	}
	if r.Namespace != "" {
		s += " in " + r.Namespace
	}
	if r.Name != "" {
		s += " named " + r.Name
	}
	return s
}

// Covers reports whether who is granted r may do what.
func (r Right) Covers(what Right) bool {
	return r.Verb == what.Verb && r.Group == what.Group && r.Resource == what.Resource &&
		(r.Namespace == "" || r.Namespace == what.Namespace) &&
		(r.Name == "" || r.Name == what.Name)
}

// Uncovered are those of the wanted rights that no granted one covers, sorted.
func Uncovered(granted, wanted []Right) []string {
	var out []string
	for _, w := range wanted {
		if !slices.ContainsFunc(granted, func(g Right) bool { return g.Covers(w) }) {
			out = append(out, w.String())
		}
	}
	slices.Sort(out)
	return slices.Compact(out)
}

// Unused are those of the granted rights that cover none of the wanted ones, sorted.
func Unused(granted, wanted []Right) []string {
	var out []string
	for _, g := range granted {
		if !slices.ContainsFunc(wanted, g.Covers) {
			out = append(out, g.String())
		}
	}
	slices.Sort(out)
	return out
}

// Granted reads the rights that the roles in manifests grant: a Role in its namespace, a ClusterRole everywhere.
func Granted(t testing.TB, paths ...string) []Right {
	t.Helper()
	var out []Right
	for _, path := range paths {
		data, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		for doc := range strings.SplitSeq(string(data), "\n---\n") {
			var role rbacv1.Role // a ClusterRole has the same rules
			if err := yaml.Unmarshal([]byte(doc), &role); err != nil {
				t.Fatalf("%s: %v", path, err)
			}
			if role.Kind != "Role" && role.Kind != "ClusterRole" {
				continue
			}
			for _, rule := range role.Rules {
				out = append(out, RightsOf(rule, role.Namespace)...)
			}
		}
	}
	return out
}

// RightsOf returns what a rule of a role grants: in a namespace, or everywhere for the empty one. Paths that are no
// resource are left out.
func RightsOf(rule rbacv1.PolicyRule, namespace string) []Right {
	names := rule.ResourceNames
	if len(names) == 0 {
		names = []string{""}
	}
	var out []Right
	for _, verb := range rule.Verbs {
		for _, group := range rule.APIGroups {
			for _, resource := range rule.Resources {
				for _, name := range names {
					out = append(out, Right{verb, group, resource, namespace, name})
				}
			}
		}
	}
	return out
}

// Recorder keeps what requests needed to be allowed.
type Recorder struct {
	mu   sync.Mutex
	seen map[Right]bool
}

// everybodys are rights that every authenticated user has, by the roles system:basic-user and system:discovery.
var everybodys = []string{"selfsubjectaccessreviews", "selfsubjectrulesreviews", "selfsubjectreviews"}

// Record keeps what requests to the server need from now on. It takes the place of Intercept, and calls what was there.
func (s *Server) Record() *Recorder {
	r := &Recorder{seen: map[Right]bool{}}
	resolver := &apirequest.RequestInfoFactory{
		APIPrefixes:          sets.NewString("api", "apis"),
		GrouplessAPIPrefixes: sets.NewString("api"),
	}
	next := s.Intercept
	s.Intercept = func(w http.ResponseWriter, req *http.Request) bool {
		info, err := resolver.NewRequestInfo(req)
		if err == nil && info.IsResourceRequest && !slices.Contains(everybodys, info.Resource) {
			resource := info.Resource
			if info.Subresource != "" {
				resource += "/" + info.Subresource
			}
			name := info.Name
			if info.Verb == "create" && info.Subresource == "" {
				name = "" // an object has no name yet when the right to create it is judged
			}
			r.mu.Lock()
			r.seen[Right{info.Verb, info.APIGroup, resource, info.Namespace, name}] = true
			r.mu.Unlock()
		}
		return next != nil && next(w, req)
	}
	return r
}

// Rights are what the requests so far needed, sorted.
func (r *Recorder) Rights() []Right {
	r.mu.Lock()
	defer r.mu.Unlock()
	var out []Right
	for right := range r.seen {
		out = append(out, right)
	}
	slices.SortFunc(out, func(a, b Right) int {
		return strings.Compare(fmt.Sprint(a.Group, a.Resource, a), fmt.Sprint(b.Group, b.Resource, b))
	})
	return out
}
