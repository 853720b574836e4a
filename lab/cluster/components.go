package cluster

import (
	"fmt"
	"maps"

	corev1 "k8s.io/api/core/v1"
)

// extraArgs are the flags that a cluster with an in-tree provider adds to kubeadm's own, by component. They are also
// what the cluster's kubeadm-config says, so that an upgrade by kubeadm would keep them.
func extraArgs(kind Kind, component string) map[string]string {
	switch component {
	case APIServer:
		out := map[string]string{
			// v1.26 reads the file for the PersistentVolumeLabel admission plugin only, which is off by default, and ends
			// if the file is missing. The provider's name is not used at all. No call to the cloud follows.
			"cloud-provider": kind.Provider(),
			"cloud-config":   cloudConfig,
			// Three API servers that come and go on loopback addresses would write Endpoints that no client may use.
			"endpoint-reconciler-type": "none",
		}
		maps.Copy(out, kind.Flags(component))
		return out
	case ControllerManager:
		out := map[string]string{
			"cloud-provider":         kind.Provider(),
			"cloud-config":           cloudConfig,
			"flex-volume-plugin-dir": flexVolumeDir,
		}
		maps.Copy(out, kind.Flags(component))
		return out
	}
	return kind.Flags(component)
}

// with returns a component's flags: kubeadm's, the extra ones, and the address it listens on instead of all of them.
func with(kind Kind, component, address string, flags map[string]string) map[string]string {
	maps.Copy(flags, extraArgs(kind, component))
	flags["bind-address"] = address
	return flags
}

func apiServer(kind Kind, h *Host, etcdURL string) component {
	return component{
		name: APIServer, cpu: "250m", port: portAPIServer, host: h.Address, livePath: "/livez", readyPath: "/readyz",
		version: kind.Version(),
		annotations: map[string]string{
			"kubeadm.kubernetes.io/kube-apiserver.advertise-address.endpoint": fmt.Sprintf("%s:%d", h.Address, portAPIServer),
		},
		volumes: []volume{volumeCerts, volumeCloud, volumePKI},
		flags: with(kind, APIServer, h.Address, map[string]string{
			"advertise-address":                  h.Address,
			"allow-privileged":                   "true",
			"authorization-mode":                 "Node,RBAC",
			"client-ca-file":                     pkiDir + "/ca.crt",
			"enable-admission-plugins":           "NodeRestriction",
			"enable-bootstrap-token-auth":        "true",
			"etcd-cafile":                        pkiDir + "/etcd/ca.crt",
			"etcd-certfile":                      pkiDir + "/apiserver-etcd-client.crt",
			"etcd-keyfile":                       pkiDir + "/apiserver-etcd-client.key",
			"etcd-servers":                       etcdURL,
			"kubelet-client-certificate":         pkiDir + "/apiserver-kubelet-client.crt",
			"kubelet-client-key":                 pkiDir + "/apiserver-kubelet-client.key",
			"kubelet-preferred-address-types":    "InternalIP,ExternalIP,Hostname",
			"proxy-client-cert-file":             pkiDir + "/front-proxy-client.crt",
			"proxy-client-key-file":              pkiDir + "/front-proxy-client.key",
			"requestheader-allowed-names":        "front-proxy-client",
			"requestheader-client-ca-file":       pkiDir + "/front-proxy-ca.crt",
			"requestheader-extra-headers-prefix": "X-Remote-Extra-",
			"requestheader-group-headers":        "X-Remote-Group",
			"requestheader-username-headers":     "X-Remote-User",
			"secure-port":                        fmt.Sprint(portAPIServer),
			"service-account-issuer":             "https://kubernetes.default.svc.cluster.local",
			"service-account-key-file":           pkiDir + "/sa.pub",
			"service-account-signing-key-file":   pkiDir + "/sa.key",
			"service-cluster-ip-range":           ServiceCIDR,
			"tls-cert-file":                      pkiDir + "/apiserver.crt",
			"tls-private-key-file":               pkiDir + "/apiserver.key",
		}),
	}
}

func controllerManager(kind Kind, h *Host, cloud string) component {
	const kubeconfig = "/etc/kubernetes/controller-manager.conf"
	return component{
		name:     ControllerManager,
		cpu:      "200m",
		port:     portControllerManager,
		host:     h.Address,
		livePath: "/healthz",
		env:      kind.ManagerEnv(h, ControllerManager, cloud),
		version:  kind.Version(),
		volumes: []volume{
			volumeCerts,
			volumeCloud,
			volumeFlex,
			volumePKI,
			{name: "kubeconfig", path: kubeconfig, kind: kubeconfigKind},
		},
		flags: with(kind, ControllerManager, h.Address, map[string]string{
			"allocate-node-cidrs":              "true",
			"authentication-kubeconfig":        kubeconfig,
			"authorization-kubeconfig":         kubeconfig,
			"client-ca-file":                   pkiDir + "/ca.crt",
			"cluster-cidr":                     PodCIDR,
			"cluster-name":                     Name,
			"cluster-signing-cert-file":        pkiDir + "/ca.crt",
			"cluster-signing-key-file":         pkiDir + "/ca.key",
			"controllers":                      "*,bootstrapsigner,tokencleaner",
			"kubeconfig":                       kubeconfig,
			"leader-elect":                     "true",
			"requestheader-client-ca-file":     pkiDir + "/front-proxy-ca.crt",
			"root-ca-file":                     pkiDir + "/ca.crt",
			"service-account-private-key-file": pkiDir + "/sa.key",
			"service-cluster-ip-range":         ServiceCIDR,
			"use-service-account-credentials":  "true",
		}),
	}
}

func scheduler(kind Kind, h *Host) component {
	const kubeconfig = "/etc/kubernetes/scheduler.conf"
	return component{
		name: Scheduler, cpu: "100m", port: portScheduler, host: h.Address, livePath: "/healthz",
		version: kind.Version(),
		volumes: []volume{{name: "kubeconfig", path: kubeconfig, kind: kubeconfigKind}},
		flags: with(kind, Scheduler, h.Address, map[string]string{
			"authentication-kubeconfig": kubeconfig,
			"authorization-kubeconfig":  kubeconfig,
			"kubeconfig":                kubeconfig,
			"leader-elect":              "true",
		}),
	}
}

// CloudEnv is the environment that a manager on a host needs to call the cloud under its own access key. The proxy
// leads nowhere: a cloud configuration that misses an endpoint must not reach the real AWS.
func CloudEnv(h *Host, component string) []corev1.EnvVar {
	out := []corev1.EnvVar{}
	for _, v := range cloudEnv(AccessKey(h.Name, component)) {
		out = append(out, corev1.EnvVar{Name: v[0], Value: v[1]})
	}
	return out
}

// cloudEnv is the environment of a caller of the simulated cloud, in name and value.
func cloudEnv(accessKey string) [][2]string {
	return [][2]string{
		{"AWS_ACCESS_KEY_ID", accessKey},
		{"AWS_SECRET_ACCESS_KEY", "lab-only"}, // the simulator does not check signatures
		{"AWS_EC2_METADATA_DISABLED", "true"},
		{"HTTPS_PROXY", "http://127.0.0.1:9"},
		{"NO_PROXY", "127.0.0.0/8,10.0.0.0/8,localhost"},
	}
}
