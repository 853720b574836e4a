package apitest

import (
	"maps"
	"strconv"
)

// Objects are all objects by their paths. They must not be changed.
func (s *Server) Objects() map[string]map[string]any {
	s.mu.Lock()
	defer s.mu.Unlock()
	return maps.Clone(s.objects)
}

// Restore has the server hold these objects and no others, as Objects returned them.
func (s *Server) Restore(objects map[string]map[string]any) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.objects = maps.Clone(objects)
	for _, o := range objects {
		text, _ := metadata(o)["resourceVersion"].(string)
		if version, err := strconv.Atoi(text); err == nil {
			s.version = max(s.version, version)
		}
	}
}
