package commandline

import (
	"net"
	"slices"
	"strings"
)

// components are the programs whose flags matter here. A cloud's own manager ends in "-cloud-controller-manager".
var components = []string{
	"kube-apiserver",
	"kube-controller-manager",
	"kube-scheduler",
	CloudControllerManager,
	"etcd",
	"kubelet",
}

// CloudControllerManager is the name of the component that each cloud provider builds under a name of its own.
const CloudControllerManager = "cloud-controller-manager"

// IsComponent reports whether a base name is that of a known program.
func IsComponent(name string) bool {
	return slices.Contains(components, name) || strings.HasSuffix(name, "-"+CloudControllerManager)
}

// GenericName returns a component's name without its cloud provider's.
func GenericName(component string) string {
	if strings.HasSuffix(component, "-"+CloudControllerManager) {
		return CloudControllerManager
	}
	return component
}

// DefaultPorts are where the components serve HTTPS when no flag says otherwise.
var DefaultPorts = map[string]string{
	"kube-apiserver":          "6443",
	"kube-controller-manager": "10257",
	"kube-scheduler":          "10259",
	CloudControllerManager:    "10258",
}

// ServingAddress returns where a component with these flags serves HTTPS.
func ServingAddress(component string, flags map[string]string) string {
	component = GenericName(component)
	port := DefaultPorts[component]
	if p, ok := flags["secure-port"]; ok {
		port = p
	}
	host := LoopbackAddress(flags["bind-address"])
	if DefaultPorts[component] == "" || port == "" || port == "0" || strings.Contains(host+port, "$(") {
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
