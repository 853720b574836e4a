package certs

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// configuration is a webhook configuration as it was read.
type configuration struct {
	kind, name, version string
	webhooks            []webhook
	patch               func(ctx context.Context, patch []byte) error
}

type webhook struct {
	name   string
	bundle []byte
}

// configurations reads those that are there.
func (m *Manager) configurations(ctx context.Context) ([]configuration, error) {
	var out []configuration
	for _, name := range m.options.Configurations {
		for _, read := range []func(context.Context, string) (configuration, error){m.mutating, m.validating} {
			c, err := read(ctx, name)
			switch {
			case err == nil:
				out = append(out, c)
			case !apierrors.IsNotFound(err):
				return nil, fmt.Errorf("reading %s %q: %w", c.kind, name, err)
			}
		}
	}
	return out, nil
}

func (m *Manager) mutating(ctx context.Context, name string) (configuration, error) {
	api := m.options.Client.AdmissionregistrationV1().MutatingWebhookConfigurations()
	out := configuration{kind: "MutatingWebhookConfiguration", name: name}
	out.patch = func(ctx context.Context, patch []byte) error {
		_, err := api.Patch(ctx, name, types.StrategicMergePatchType, patch, metav1.PatchOptions{})
		return err
	}
	read, err := api.Get(ctx, name, metav1.GetOptions{})
	if err != nil {
		return out, err
	}
	out.version = read.ResourceVersion
	for _, w := range read.Webhooks {
		out.webhooks = append(out.webhooks, webhook{w.Name, w.ClientConfig.CABundle})
	}
	return out, nil
}

func (m *Manager) validating(ctx context.Context, name string) (configuration, error) {
	api := m.options.Client.AdmissionregistrationV1().ValidatingWebhookConfigurations()
	out := configuration{kind: "ValidatingWebhookConfiguration", name: name}
	out.patch = func(ctx context.Context, patch []byte) error {
		_, err := api.Patch(ctx, name, types.StrategicMergePatchType, patch, metav1.PatchOptions{})
		return err
	}
	read, err := api.Get(ctx, name, metav1.GetOptions{})
	if err != nil {
		return out, err
	}
	out.version = read.ResourceVersion
	for _, w := range read.Webhooks {
		out.webhooks = append(out.webhooks, webhook{w.Name, w.ClientConfig.CABundle})
	}
	return out, nil
}

// tell writes the bundle into each webhook that has another. Nothing else of the configuration is touched.
func (c configuration) tell(ctx context.Context, bundle []byte) error {
	type part struct {
		Name         string                                      `json:"name"` // which webhook it is
		ClientConfig admissionregistrationv1.WebhookClientConfig `json:"clientConfig"`
	}
	var parts []part
	for _, w := range c.webhooks {
		if !bytes.Equal(w.bundle, bundle) {
			parts = append(parts, part{w.name, admissionregistrationv1.WebhookClientConfig{CABundle: bundle}})
		}
	}
	if len(parts) == 0 {
		return nil
	}
	patch, err := json.Marshal(map[string]any{"metadata": map[string]any{"resourceVersion": c.version}, "webhooks": parts})
	if err != nil {
		return fmt.Errorf("encoding patch: %w", err)
	}
	if err := c.patch(ctx, patch); err != nil {
		return fmt.Errorf("telling %s %q which authority to trust: %w", c.kind, c.name, err)
	}
	return nil
}
