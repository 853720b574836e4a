// Package machine is the first process of a host of the lab: it makes the host's file system out of the machine's,
// starts the host's services, and waits for every process whose parent has ended. Its end is the host's power cut: the
// kernel ends everything else in its namespaces.
package machine

import (
	"encoding/json"
	"fmt"
	"os"
)

// Config says how a host is made. It is read before the host has a file system of its own.
type Config struct {
	HostName string `json:"hostName"`
	// Disk is the image of the host's own file system, Root the directory to mount it on.
	Disk string `json:"disk"`
	Root string `json:"root"`
	// Usr is laid over the machine's /usr; what the host writes there goes to Upper, with Work next to it.
	Usr   string `json:"usr"`
	Upper string `json:"upper"`
	Work  string `json:"work"`
	// Data are directories of the machine by the host's path: what is too large for the disk or must not lie on it.
	Data map[string]string `json:"data"`
	// Metadata is the host:port that 169.254.169.254:80 of this host leads to.
	Metadata string `json:"metadata"`
	// Services are started at boot, in this order.
	Services []string `json:"services"`
}

// Load reads a Config.
func Load(file string) (Config, error) {
	var c Config
	data, err := os.ReadFile(file)
	if err != nil {
		return c, fmt.Errorf("reading configuration of host: %w", err)
	}
	if err := json.Unmarshal(data, &c); err != nil {
		return c, fmt.Errorf("reading configuration of host from %q: %w", file, err)
	}
	return c, nil
}
