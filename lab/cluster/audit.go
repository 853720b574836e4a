package cluster

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"

	corev1 "k8s.io/api/core/v1"

	"github.com/transplant-dev/transplant/lab/auditlog"
	"github.com/transplant-dev/transplant/lab/pki"
)

// Files of a host whose API server keeps an audit log; see Options.Audit.
const (
	auditPolicyFile = "/etc/kubernetes/audit-policy.yaml"
	auditLogDir     = "/var/log/kubernetes"
	auditLogFile    = auditLogDir + "/audit.log"
)

// audited returns an API server that keeps an audit log, if the lab's do.
func (c *Cluster) audited(server component) component {
	if !c.opts.Audit {
		return server
	}
	server.flags = maps.Clone(server.flags)
	maps.Copy(server.flags, map[string]string{
		"audit-policy-file": auditPolicyFile,
		"audit-log-path":    auditLogFile,
		"audit-log-mode":    "blocking", // a request has been answered only when its line is there
		"audit-log-maxsize": "4096",     // MiB: one file
	})
	server.volumes = append(
		server.volumes,
		volume{name: "audit-policy", path: auditPolicyFile, kind: corev1.HostPathFile},
		volume{name: "audit-log", path: auditLogDir, kind: corev1.HostPathDirectoryOrCreate, writable: true},
	)
	return server
}

// writeAuditPolicy has a host's API server record every request.
func (c *Cluster) writeAuditPolicy(h *Host) error {
	if !c.opts.Audit || !h.ControlPlane {
		return nil
	}
	return writePublic(h.Path(auditPolicyFile), auditlog.Everything)
}

// Requests returns what the API servers have answered so far, those of each host in their order. It needs
// Options.Audit.
func (c *Cluster) Requests() ([]auditlog.Request, error) {
	if !c.opts.Audit {
		return nil, errors.New("reading the audit logs: the lab was started without them; see Options.Audit")
	}
	var out []auditlog.Request
	for _, h := range c.ControlPlanes() {
		data, err := os.ReadFile(h.Path(auditLogFile))
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return nil, fmt.Errorf("reading the audit log of host %q: %w", h.Name, err)
		}
		requests, err := auditlog.Parse(data[:bytes.LastIndexByte(data, '\n')+1]) // the last line may not be whole yet
		if err != nil {
			return nil, fmt.Errorf("host %q: %w", h.Name, err)
		}
		out = append(out, requests...)
	}
	return out, nil
}

// KubeconfigOf writes the kubeconfig of a user who has the rights of groups, next to the administrator's, and returns
// its path.
func (c *Cluster) KubeconfigOf(user string, groups ...string) (string, error) {
	data, err := c.site.pki.Kubeconfig(c.site.adminServer(), pki.Identity{User: user, Groups: groups})
	if err != nil {
		return "", err
	}
	file := c.site.kubeconfigOf(user)
	return file, pki.WriteSecret(file, data)
}
