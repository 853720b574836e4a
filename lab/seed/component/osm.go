package component

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
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
	provider := "aws"
	if s.external {
		provider = "external"
	}
	repeat(ctx, func(ctx context.Context) error {
		deployments, err := listSets(ctx, c.dyn, MachineDeployments)
		if err != nil {
			return err
		}
		for _, d := range deployments {
			if err := render(ctx, c, d, "--cloud-provider="+provider); err != nil {
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
