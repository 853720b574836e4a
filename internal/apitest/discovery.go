package apitest

import (
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strconv"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
)

// current are the groups of an API server that has no extensions.
var current = []string{
	"admissionregistration.k8s.io/v1",
	"apps/v1",
	"authentication.k8s.io/v1",
	"authorization.k8s.io/v1",
	"certificates.k8s.io/v1",
	"coordination.k8s.io/v1",
	"discovery.k8s.io/v1",
	"policy/v1",
	"rbac.authorization.k8s.io/v1",
	"storage.k8s.io/v1",
}

// Serve makes these groups and versions (group/version) the ones that the server has, next to v1; others are not found
// from now on.
func (s *Server) Serve(groupVersions ...string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.groups = append([]string{}, groupVersions...)
}

// Groups are the groups and versions that the server has, next to v1.
func (s *Server) Groups() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.groups == nil {
		return slices.Clone(current)
	}
	return slices.Clone(s.groups)
}

func (s *Server) serves(r request) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return r.group == "" || s.groups == nil || slices.Contains(s.groups, r.group+"/"+r.version)
}

// serveDiscovery answers what the server has; false when that was not asked.
func (s *Server) serveDiscovery(w http.ResponseWriter, req *http.Request) bool {
	switch strings.TrimSuffix(req.URL.Path, "/") {
	case "/api":
		write(w, http.StatusOK, metav1.APIVersions{TypeMeta: metav1.TypeMeta{Kind: "APIVersions"}, Versions: []string{"v1"}})
	case "/apis":
		versions := map[string][]metav1.GroupVersionForDiscovery{}
		for _, gv := range s.Groups() {
			group, version, _ := strings.Cut(gv, "/")
			versions[group] = append(versions[group], metav1.GroupVersionForDiscovery{GroupVersion: gv, Version: version})
		}
		list := metav1.APIGroupList{TypeMeta: metav1.TypeMeta{Kind: "APIGroupList", APIVersion: "v1"}}
		for _, group := range slices.Sorted(maps.Keys(versions)) {
			list.Groups = append(
				list.Groups,
				metav1.APIGroup{Name: group, Versions: versions[group], PreferredVersion: versions[group][0]},
			)
		}
		write(w, http.StatusOK, list)
	default:
		return false
	}
	return true
}

// Requests returns how often each verb was asked for on each resource, as "verb resource".
func (s *Server) Requests() map[string]int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return maps.Clone(s.requests)
}

func (s *Server) count(verb string, r request) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.requests[verb+" "+r.full()]++
}

// page answers a list: limited to what a selector of labels matches, and to so many objects from where the last page
// ended.
func (s *Server) page(w http.ResponseWriter, req *http.Request, r request) {
	query := req.URL.Query()
	selects, err := labels.Parse(query.Get("labelSelector"))
	if err != nil {
		status(w, http.StatusBadRequest, metav1.StatusReasonBadRequest, err.Error())
		return
	}
	name, byName := strings.CutPrefix(query.Get("fieldSelector"), "metadata.name=")
	items := slices.DeleteFunc(s.list(r), func(o map[string]any) bool {
		if byName && fmt.Sprint(metadata(o)["name"]) != name {
			return true
		}
		set := labels.Set{}
		found, _ := metadata(o)["labels"].(map[string]any)
		for key, value := range found {
			set[key] = fmt.Sprint(value)
		}
		return !selects.Matches(set)
	})
	start, _ := strconv.Atoi(query.Get("continue"))
	limit, _ := strconv.Atoi(query.Get("limit"))
	start = min(start, len(items))
	end := len(items)
	meta := map[string]any{"resourceVersion": strconv.Itoa(s.version)}
	if limit > 0 && start+limit < end {
		end = start + limit
		meta["continue"] = strconv.Itoa(end)
		if selects.Empty() {
			meta["remainingItemCount"] = len(items) - end
		}
	}
	write(
		w,
		http.StatusOK,
		map[string]any{"apiVersion": groupVersion(r), "kind": listKind(r), "metadata": meta, "items": items[start:end]},
	)
}
