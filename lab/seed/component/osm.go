package component

import (
	"context"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// osm writes the kubelet's flags of each MachineDeployment into a Secret, when it sees its template for the first time.
// What it was itself started with counts at that moment only: that is the trap for whoever changes its flags and then
// deletes Machines.
func osm(ctx context.Context, args []string) error {
	var s settings
	if err := s.parse("osm-controller", "external-cloud-provider", args, nil); err != nil {
		return err
	}
	c, err := s.connect()
	if err != nil {
		return err
	}
	serveHealth(s.health)
	repeat(ctx, func(ctx context.Context) error {
		deployments, err := listSets(ctx, c.dyn, MachineDeployments)
		if err != nil {
			return err
		}
		for _, d := range deployments {
			if err := render(ctx, c, d, d.kubeletFlags(s.external)); err != nil {
				return err
			}
		}
		return nil
	})
	return nil
}

func render(ctx context.Context, c clients, d *Set, flags string) error {
	secrets := c.kube.CoreV1().Secrets(SettingsNamespace)
	want := &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{
			Name:        SettingsSecret(d.Name),
			Annotations: map[string]string{annotationTemplate: d.hash()},
		},
		Data: map[string][]byte{"kubelet-flags": []byte(flags)},
	}
	have, err := secrets.Get(ctx, want.Name, metav1.GetOptions{})
	switch {
	case apierrors.IsNotFound(err):
		_, err = secrets.Create(ctx, want, metav1.CreateOptions{})
	case err == nil && have.Annotations[annotationTemplate] != want.Annotations[annotationTemplate]:
		want.ResourceVersion = have.ResourceVersion
		_, err = secrets.Update(ctx, want, metav1.UpdateOptions{})
	}
	if err != nil {
		return fmt.Errorf("writing the settings of MachineDeployment %q: %w", d.Name, err)
	}
	return nil
}

// kubeletFlags are those of the template's machines: the provider of its cloud where kubelets are not external, and the
// feature gates of its annotations.
func (s *Set) kubeletFlags(external bool) string {
	provider := "external"
	if !external {
		provider, _, _ = unstructured.NestedString(s.Template, "spec", "providerSpec", "value", "cloudProvider")
	}
	flags := []string{"--cloud-provider=" + provider}
	annotations, _, _ := unstructured.NestedStringMap(s.Template, "metadata", "annotations")
	var gates []string
	for key, value := range annotations {
		if gate, ok := strings.CutPrefix(key, AnnotationGates); ok {
			gates = append(gates, gate+"="+value)
		}
	}
	if slices.Sort(gates); len(gates) > 0 {
		flags = append(flags, "--feature-gates="+strings.Join(gates, ","))
	}
	return strings.Join(flags, " ")
}
