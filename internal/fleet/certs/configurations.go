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
	return readConfiguration(
		ctx,
		"MutatingWebhookConfiguration",
		name,
		api,
		func(c *admissionregistrationv1.MutatingWebhookConfiguration) (out []webhook) {
			for _, w := range c.Webhooks {
				out = append(out, webhook{w.Name, w.ClientConfig.CABundle})
			}
			return out
		},
	)
}

func (m *Manager) validating(ctx context.Context, name string) (configuration, error) {
	api := m.options.Client.AdmissionregistrationV1().ValidatingWebhookConfigurations()
	return readConfiguration(
		ctx,
		"ValidatingWebhookConfiguration",
		name,
		api,
		func(c *admissionregistrationv1.ValidatingWebhookConfiguration) (out []webhook) {
			for _, w := range c.Webhooks {
				out = append(out, webhook{w.Name, w.ClientConfig.CABundle})
			}
			return out
		},
	)
}

// client reads and patches one kind of webhook configuration.
type client[T metav1.Object] interface {
	Get(ctx context.Context, name string, o metav1.GetOptions) (T, error)
	Patch(
		ctx context.Context,
		name string,
		t types.PatchType,
		patch []byte,
		o metav1.PatchOptions,
		subresources ...string,
	) (T, error)
}

func readConfiguration[T metav1.Object](
	ctx context.Context,
	kind, name string,
	api client[T],
	webhooks func(T) []webhook,
) (configuration, error) {
	out := configuration{kind: kind, name: name}
	out.patch = func(ctx context.Context, patch []byte) error {
		_, err := api.Patch(ctx, name, types.StrategicMergePatchType, patch, metav1.PatchOptions{})
		return err
	}
	found, err := api.Get(ctx, name, metav1.GetOptions{})
	if err != nil {
		return out, err
	}
	out.version, out.webhooks = found.GetResourceVersion(), webhooks(found)
	return out, nil
}

// writeBundle writes the bundle into each webhook that has another. Nothing else of the configuration is touched.
func (c configuration) writeBundle(ctx context.Context, bundle []byte) error {
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
