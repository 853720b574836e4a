// Package objects reads API objects that a snapshot keeps in short: nodes, Services, endpoints, leases, machines,
// kubeadm's record and what a migration writes.
package objects

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	v1 "github.com/transplant-dev/transplant/api/transplant/v1alpha1"
	"github.com/transplant-dev/transplant/internal/hostaccess"
	"github.com/transplant-dev/transplant/internal/snapshot/collect"
)

// GatherObjects asks for the presence of the objects that a migration writes.
func GatherObjects(ctx context.Context, g *collect.Collector) {
	refs := slices.Clone(g.ObjectRefs)
	slices.Sort(refs)
	for _, ref := range slices.Compact(refs) {
		if g.Kube == nil {
			g.Unknown("objects/"+ref, collect.NoAPI)
			continue
		}
		state, err := readObject(ctx, g, ref)
		if err != nil {
			g.Unknown("objects/"+ref, g.Describe("reading "+ref, err))
			continue
		}
		g.Snap.Objects = append(g.Snap.Objects, state)
	}
}

func readObject(ctx context.Context, g *collect.Collector, ref string) (v1.ObjectState, error) {
	ctx, cancel := g.Call(ctx)
	defer cancel()
	out := v1.ObjectState{Ref: ref}
	object, content, err := getObject(ctx, g, ref)
	if apierrors.IsNotFound(err) {
		return out, nil
	} else if err != nil {
		return out, err
	}
	out.Present, out.UID = true, string(object.GetUID())
	out.Digest, err = digest(content)
	return out, err
}

// getObject reads an object and returns it with the part that a migration cares for. Of a Secret that is its type and
// whose token it is, never its data.
func getObject(ctx context.Context, g *collect.Collector, ref string) (metav1.Object, any, error) {
	parts := strings.Split(ref, "/")
	kind, name, ns := parts[0], parts[len(parts)-1], ""
	if len(parts) == 3 {
		ns = parts[1]
	}
	switch kind {
	case "Role":
		o, err := g.Kube.RbacV1().Roles(ns).Get(ctx, name, metav1.GetOptions{})
		return o, roleContent(o, err, func(o *rbacv1.Role) any { return o.Rules }), err
	case "ClusterRole":
		o, err := g.Kube.RbacV1().ClusterRoles().Get(ctx, name, metav1.GetOptions{})
		return o, roleContent(o, err, func(o *rbacv1.ClusterRole) any { return o.Rules }), err
	case "RoleBinding":
		o, err := g.Kube.RbacV1().RoleBindings(ns).Get(ctx, name, metav1.GetOptions{})
		return o, roleContent(o, err, func(o *rbacv1.RoleBinding) any { return []any{o.RoleRef, o.Subjects} }), err
	case "ClusterRoleBinding":
		o, err := g.Kube.RbacV1().ClusterRoleBindings().Get(ctx, name, metav1.GetOptions{})
		return o, roleContent(o, err, func(o *rbacv1.ClusterRoleBinding) any { return []any{o.RoleRef, o.Subjects} }), err
	case "ServiceAccount":
		o, err := g.Kube.CoreV1().ServiceAccounts(ns).Get(ctx, name, metav1.GetOptions{})
		return o, kind, err
	case "ConfigMap":
		o, err := g.Kube.CoreV1().ConfigMaps(ns).Get(ctx, name, metav1.GetOptions{})
		return o, roleContent(o, err, func(o *corev1.ConfigMap) any { return []any{o.Data, o.BinaryData} }), err
	case "Secret":
		o, err := g.Kube.CoreV1().Secrets(ns).Get(ctx, name, metav1.GetOptions{})
		return o, roleContent(
			o,
			err,
			func(o *corev1.Secret) any { return []any{o.Type, o.Annotations[corev1.ServiceAccountNameKey]} },
		), err
	case "Lease":
		o, err := g.Kube.CoordinationV1().Leases(ns).Get(ctx, name, metav1.GetOptions{})
		return o, kind, err
	}
	return nil, nil, fmt.Errorf("objects of kind %q are not read by this version of transplant", kind)
}

// roleContent takes the interesting part of an object that was read.
func roleContent[T any](o T, err error, part func(T) any) any {
	if err != nil {
		return nil
	}
	return part(o)
}

func digest(content any) (string, error) {
	data, err := json.Marshal(content)
	if err != nil {
		return "", err
	}
	return hostaccess.SHA256(data), nil
}
