package trial

import (
	"context"
	"encoding/json"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"sort"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
)

// kept is what a rollback leaves behind on purpose, and Facts leaves out: the backups on the hosts. The journal's
// ConfigMaps, Events and counts of lease transitions are no facts either.
const kept = "etc/kubernetes/transplant"

// volumes are those of pods, which come and go with them.
const volumes = "var/lib/kubelet/pods/"

// Facts describes everything that a migration and its rollback must leave as it was, a line each, sorted: files of the
// hosts, RBAC, service accounts, leases, nodes, services and the cloud.
func (t *Trial) Facts(ctx context.Context) ([]string, error) {
	var out []string
	for _, gather := range []func(context.Context) ([]string, error){
		t.files,
		func(ctx context.Context) ([]string, error) { return Objects(ctx, t.Client()) },
	} {
		lines, err := gather(ctx)
		if err != nil {
			return nil, err
		}
		out = append(out, lines...)
	}
	state, err := t.State()
	if err != nil {
		return nil, err
	}
	out = append(out, "cloud "+state)
	sort.Strings(out)
	return out, nil
}

// files are the hosts' configuration, by content.
func (t *Trial) files(context.Context) ([]string, error) {
	var out []string
	for _, h := range t.Hosts() {
		for _, dir := range []string{"etc", "var/lib/kubelet"} {
			err := filepath.WalkDir(filepath.Join(h.Dir, dir), func(path string, d fs.DirEntry, err error) error {
				if err != nil {
					return err
				}
				name, err := filepath.Rel(h.Dir, path)
				if err != nil || d.IsDir() || strings.HasPrefix(name, kept) || strings.HasPrefix(name, volumes) {
					return err
				}
				info, err := d.Info()
				if err != nil || info.Mode()&fs.ModeSocket != 0 { // of a plugin
					return err
				}
				data, err := os.ReadFile(path)
				if err != nil {
					return err
				}
				out = append(out, fmt.Sprintf("file %s:/%s %v %q", h.Name, name, info.Mode().Perm(), data))
				return nil
			})
			if err != nil {
				return nil, fmt.Errorf("listing the files of host %s: %w", h.Name, err)
			}
		}
	}
	return out, nil
}

// Objects describes the API's part of the facts.
func Objects(ctx context.Context, client kubernetes.Interface) ([]string, error) {
	var out []string
	for _, gather := range []func(context.Context, kubernetes.Interface) ([]string, error){
		access, leases, nodes, services,
	} {
		lines, err := gather(ctx, client)
		if err != nil {
			return nil, err
		}
		out = append(out, lines...)
	}
	return out, nil
}

func access(ctx context.Context, client kubernetes.Interface) ([]string, error) {
	var out []string
	add := func(kind, namespace, name string, content any) {
		data, err := json.Marshal(content)
		if err != nil {
			data = []byte(err.Error())
		}
		out = append(out, fmt.Sprintf("%s %s/%s %s", kind, namespace, name, data))
	}
	rbac := client.RbacV1()
	roles, err := rbac.Roles(metav1.NamespaceAll).List(ctx, metav1.ListOptions{})
	if err != nil {
		return nil, err
	}
	for _, r := range roles.Items {
		add("role", r.Namespace, r.Name, r.Rules)
	}
	bindings, err := rbac.RoleBindings(metav1.NamespaceAll).List(ctx, metav1.ListOptions{})
	if err != nil {
		return nil, err
	}
	for _, r := range bindings.Items {
		add("rolebinding", r.Namespace, r.Name, []any{r.RoleRef, r.Subjects})
	}
	clusterRoles, err := rbac.ClusterRoles().List(ctx, metav1.ListOptions{})
	if err != nil {
		return nil, err
	}
	for _, r := range clusterRoles.Items {
		add("clusterrole", "", r.Name, r.Rules)
	}
	clusterBindings, err := rbac.ClusterRoleBindings().List(ctx, metav1.ListOptions{})
	if err != nil {
		return nil, err
	}
	for _, r := range clusterBindings.Items {
		add("clusterrolebinding", "", r.Name, []any{r.RoleRef, r.Subjects})
	}
	accounts, err := client.CoreV1().ServiceAccounts("kube-system").List(ctx, metav1.ListOptions{})
	if err != nil {
		return nil, err
	}
	for _, a := range accounts.Items {
		add("serviceaccount", a.Namespace, a.Name, nil)
	}
	secrets, err := client.CoreV1().Secrets("kube-system").List(ctx, metav1.ListOptions{})
	if err != nil {
		return nil, err
	}
	for _, s := range secrets.Items {
		add("secret", s.Namespace, s.Name, s.Type)
	}
	return out, nil
}

// leases are the elections that there are; who leads them may differ.
func leases(ctx context.Context, client kubernetes.Interface) ([]string, error) {
	list, err := client.CoordinationV1().Leases(metav1.NamespaceAll).List(ctx, metav1.ListOptions{})
	if err != nil {
		return nil, err
	}
	var out []string
	for _, l := range list.Items {
		out = append(out, "lease "+l.Namespace+"/"+l.Name)
	}
	return out, nil
}

func nodes(ctx context.Context, client kubernetes.Interface) ([]string, error) {
	list, err := client.CoreV1().Nodes().List(ctx, metav1.ListOptions{})
	if err != nil {
		return nil, err
	}
	var out []string
	for _, n := range list.Items {
		ready := corev1.ConditionUnknown
		for _, c := range n.Status.Conditions {
			if c.Type == corev1.NodeReady {
				ready = c.Status
			}
		}
		data, err := json.Marshal([]any{n.UID, n.Spec, n.Labels, n.Annotations, n.Status.Addresses, ready})
		if err != nil {
			return nil, err
		}
		out = append(out, "node "+n.Name+" "+string(data))
	}
	return out, nil
}

func services(ctx context.Context, client kubernetes.Interface) ([]string, error) {
	list, err := client.CoreV1().Services(metav1.NamespaceAll).List(ctx, metav1.ListOptions{})
	if err != nil {
		return nil, err
	}
	var out []string
	for _, s := range list.Items {
		data, err := json.Marshal([]any{s.UID, s.Spec, s.Annotations, s.Finalizers, s.Status.LoadBalancer})
		if err != nil {
			return nil, err
		}
		out = append(out, "service "+s.Namespace+"/"+s.Name+" "+string(data))
	}
	return out, nil
}
