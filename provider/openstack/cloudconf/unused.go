package cloudconf

import (
	"bufio"
	"bytes"
	"fmt"
	"slices"
	"strings"

	"github.com/transplant-dev/transplant/internal/catalogue"
)

// unused says of each key of a cloud config that this program does not read what becomes of it. It names no values.
func unused(data []byte) (notes []string) {
	section := ""
	lines := bufio.NewScanner(bytes.NewReader(data))
	lines.Buffer(nil, len(data)+1)
	for lines.Scan() {
		line := strings.TrimSpace(lines.Text())
		switch {
		case line == "" || strings.HasPrefix(line, "#") || strings.HasPrefix(line, ";"):
			continue
		case strings.HasPrefix(line, "["):
			section, _, _ = strings.Cut(strings.Trim(line, "[]"), " ")
			section = strings.TrimSpace(section)
			continue
		}
		key, _, _ := strings.Cut(line, "=")
		key = strings.TrimSpace(key)
		if note := noteOf(section, key); note != "" && !slices.Contains(notes, note) {
			notes = append(notes, note)
		}
	}
	return notes
}

// noteOf is empty for a key that is read.
func noteOf(section, key string) string {
	known, ok := catalogue.ConfigKeyOf("openstack", section, key)
	switch {
	case strings.EqualFold(section, "LoadBalancer") && strings.EqualFold(key, "use-octavia"):
		return "" // both providers' files have it; load balancers are Octavia's either way
	case !ok:
		return fmt.Sprintf("[%s] %s is not read: no OpenStack provider knows this key", section, key)
	case known.External:
		return ""
	default:
		return fmt.Sprintf("[%s] %s is not read: %s", section, key, known.Why)
	}
}
