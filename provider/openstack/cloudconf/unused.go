package cloudconf

import (
	"bufio"
	"bytes"
	"fmt"
	"slices"
	"strings"

	"github.com/transplant-dev/transplant/internal/catalogue"
)

// notUsed are the keys of the external provider that this one has no use for, with what to use instead.
var notUsed = map[string]string{
	"LoadBalancer.container-store": "this manager hands default-tls-container-ref on as it is, and Octavia reads the " +
		"certificate from the store that Octavia is configured with",
	"Metadata.search-order": "this manager asks neither a metadata service nor a config drive: it finds a Node in Nova by " +
		"its providerID or its name, so give each kubelet its --provider-id or the server's name",
}

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
	case notUsed[known.Name()] != "":
		return fmt.Sprintf("[%s] %s is not used: %s", section, key, notUsed[known.Name()])
	case known.External:
		return ""
	default:
		return fmt.Sprintf("[%s] %s is not read: %s", section, key, known.Why)
	}
}
