package commandline

import (
	"net"
	"slices"
	"strings"

	"github.com/transplant-dev/transplant/internal/component"
)

// components are the programs whose flags matter here. A cloud's own manager ends in "-cloud-controller-manager".
var components = []string{
	component.KAS,
	component.KCM,
	component.Scheduler,
	component.CCM,
	component.Etcd,
	component.Kubelet,
}

// IsComponent reports whether a base name is that of a known program.
func IsComponent(name string) bool {
	return slices.Contains(components, name) || strings.HasSuffix(name, "-"+component.CCM)
}

// GenericName returns a component's name without its cloud provider's.
func GenericName(name string) string {
	if strings.HasSuffix(name, "-"+component.CCM) {
		return component.CCM
	}
	return name
}

// ServingAddress returns where a component with these flags serves HTTPS.
func ServingAddress(name string, flags map[string]string) string {
	name = GenericName(name)
	port := component.DefaultPorts[name]
	if p, ok := flags["secure-port"]; ok {
		port = p
	}
	host := LoopbackAddress(flags["bind-address"])
	if component.DefaultPorts[name] == "" || port == "" || port == "0" || strings.Contains(host+port, "$(") {
		return ""
	}
	return net.JoinHostPort(host, port)
}

// LoopbackAddress is where a program that listens on an address is reached from its own host.
func LoopbackAddress(bind string) string {
	ip := net.ParseIP(bind)
	switch {
	case bind == "", ip != nil && ip.IsUnspecified() && ip.To4() != nil:
		return "127.0.0.1"
	case ip != nil && ip.IsUnspecified():
		return "::1"
	}
	return bind
}
