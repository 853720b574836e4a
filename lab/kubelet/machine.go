package kubelet

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"os"
	"runtime"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
)

// machine is what a kubelet tells about the computer it runs on. The size is that of a small instance, whatever this
// computer has: the scheduler of a lab shall decide the same everywhere.
type machine struct {
	hostName string
	version  string
	uuid     string // of its firmware; empty for one of its own
}

func newMachine(o *Options) machine {
	m := machine{hostName: o.HostName, version: o.Version}
	if o.Instance != nil {
		m.uuid = o.Instance.UUID
	}
	return m
}

func (m machine) status() corev1.NodeStatus {
	resources := corev1.ResourceList{
		corev1.ResourceCPU:              resource.MustParse("2"),
		corev1.ResourceMemory:           resource.MustParse("4Gi"),
		corev1.ResourceEphemeralStorage: resource.MustParse("20Gi"),
		corev1.ResourcePods:             resource.MustParse("110"),
	}
	return corev1.NodeStatus{
		Capacity:        resources,
		Allocatable:     resources,
		DaemonEndpoints: corev1.NodeDaemonEndpoints{KubeletEndpoint: corev1.DaemonEndpoint{Port: 10250}},
		NodeInfo: corev1.NodeSystemInfo{
			MachineID:               m.id("machine")[:32],
			SystemUUID:              cmp.Or(m.uuid, uuid(m.id("system"))),
			BootID:                  uuid(m.id("boot")),
			KernelVersion:           kernelVersion(),
			OSImage:                 "Transplant lab",
			ContainerRuntimeVersion: "lab://1.0.0",
			KubeletVersion:          m.version,
			KubeProxyVersion:        m.version, //nolint:staticcheck // deprecated since 1.31; a kubelet 1.26 reports it
			OperatingSystem:         runtime.GOOS,
			Architecture:            runtime.GOARCH,
		},
	}
}

// id is a number that a host keeps over restarts of the lab.
func (m machine) id(kind string) string {
	sum := sha256.Sum256([]byte(kind + "/" + m.hostName))
	return hex.EncodeToString(sum[:])
}

func uuid(hexes string) string {
	return strings.Join([]string{hexes[:8], hexes[8:12], hexes[12:16], hexes[16:20], hexes[20:32]}, "-")
}

func kernelVersion() string {
	release, err := os.ReadFile("/proc/sys/kernel/osrelease")
	if err != nil {
		return "unknown"
	}
	return strings.TrimSpace(string(release))
}
