package seed

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/transplant-dev/transplant/lab/pki"
	"github.com/transplant-dev/transplant/lab/seed/component"
)

func labelsOf(app string) labels.Selector { return labels.SelectorFromSet(appLabels(app)) }

var customResourceDefinitions = schema.GroupVersionResource{
	Group:    "apiextensions.k8s.io",
	Version:  "v1",
	Resource: "customresourcedefinitions",
}

// machineCRD is the CRD of one of machine-controller's kinds, without a schema of its own.
func machineCRD(kind, plural string) *unstructured.Unstructured {
	name := plural + "." + component.Group.Group
	open := map[string]any{"type": "object", "x-kubernetes-preserve-unknown-fields": true}
	return &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "apiextensions.k8s.io/v1",
		"kind":       "CustomResourceDefinition",
		"metadata": map[string]any{
			"name":        name,
			"annotations": map[string]any{"api-approved.kubernetes.io": "unapproved, legacy API"},
		},
		"spec": map[string]any{
			"group": component.Group.Group, "scope": "Namespaced",
			"names": map[string]any{"kind": kind, "plural": plural, "listKind": kind + "List", "singular": ""},
			"versions": []any{
				map[string]any{
					"name":    component.Group.Version,
					"served":  true,
					"storage": true,
					"schema": map[string]any{
						"openAPIV3Schema": map[string]any{"type": "object", "properties": map[string]any{"spec": open, "status": open}},
					},
					"subresources": map[string]any{"status": map[string]any{}},
				},
			},
		},
	}}
}

// installMachines gives the user cluster machine-controller's kinds and their webhook, and starts the parts in the
// seed.
func (c *Cluster) installMachines(ctx context.Context) error {
	for kind, plural := range map[string]string{
		"Machine":           "machines",
		"MachineSet":        "machinesets",
		"MachineDeployment": "machinedeployments",
	} {
		crd := machineCRD(kind, plural)
		if names, ok, _ := unstructured.NestedMap(crd.Object, "spec", "names"); ok {
			delete(names, "singular")
			_ = unstructured.SetNestedMap(crd.Object, names, "spec", "names") // it is a map
		}
		if _, err := c.dynamic.Resource(customResourceDefinitions).
			Create(ctx, crd, metav1.CreateOptions{}); existing(
			err,
		) != nil {
			return fmt.Errorf("creating CRD of %s: %w", kind, err)
		}
	}
	settings := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: component.SettingsNamespace}}
	if _, err := c.client.CoreV1().Namespaces().Create(ctx, settings, metav1.CreateOptions{}); existing(err) != nil {
		return fmt.Errorf("creating namespace %q: %w", settings.Name, err)
	}
	if err := c.installWebhook(ctx); err != nil {
		return err
	}
	for _, p := range c.machineParts() {
		if err := c.deploy(ctx, p); err != nil {
			return err
		}
	}
	return Await(ctx, "the machine parts of "+c.Name, func(ctx context.Context) error {
		var errs []error
		for _, p := range c.machineParts() {
			if len(c.seed.readyPods(c.Namespace, labelsOf(p.app))) == 0 {
				errs = append(errs, fmt.Errorf("%s has no ready pod", p.app))
			}
			if p.app == appMachines {
				_, err := c.dynamic.Resource(component.MachineDeployments).
					Namespace(component.MachineNamespace).
					List(ctx, metav1.ListOptions{})
				errs = append(errs, err)
			}
		}
		if err := errors.Join(errs...); err != nil {
			return errors.Join(err, c.troubles())
		}
		return nil
	})
}

// installWebhook makes the webhook's certificate and Service in the seed, and registers it in the user cluster by a
// URL, as Kubermatic does.
func (c *Cluster) installWebhook(ctx context.Context) error {
	host := appWebhook + "." + c.Namespace + ".svc.cluster.local"
	pair, err := c.pki.CA.Issue(pki.Request{CommonName: host, DNS: []string{host, host + "."}, Server: true})
	if err != nil {
		return err
	}
	secret := &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{
			Name: "machinecontroller-webhook-serving-cert",
		},
		Data: map[string][]byte{"cert.pem": pair.Cert, "key.pem": pair.Key},
	}
	if _, err := c.seed.client.CoreV1().
		Secrets(c.Namespace).
		Create(ctx, secret, metav1.CreateOptions{}); existing(
		err,
	) != nil {
		return fmt.Errorf("creating Secret %q: %w", secret.Name, err)
	}
	service := &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Name: appWebhook},
		Spec: corev1.ServiceSpec{
			Selector: appLabels(appWebhook),
			Ports:    []corev1.ServicePort{{Port: 9876, TargetPort: intstr.FromInt32(9876)}},
		},
	}
	if _, err := c.seed.client.CoreV1().
		Services(c.Namespace).
		Create(ctx, service, metav1.CreateOptions{}); existing(
		err,
	) != nil {
		return fmt.Errorf("creating Service %q: %w", service.Name, err)
	}
	url := "https://" + host + ":9876/machines"
	hook := &admissionv1.MutatingWebhookConfiguration{
		ObjectMeta: metav1.ObjectMeta{Name: "machine-controller.kubermatic.io"},
		Webhooks: []admissionv1.MutatingWebhook{
			{
				Name:                    "machine-controller.kubermatic.io-machines",
				AdmissionReviewVersions: []string{"v1"},
				TimeoutSeconds:          new(int32(10)),
				FailurePolicy:           new(admissionv1.Fail),
				SideEffects:             new(admissionv1.SideEffectClassNone),
				ClientConfig:            admissionv1.WebhookClientConfig{URL: &url, CABundle: c.pki.CA.Cert},
				Rules: []admissionv1.RuleWithOperations{
					{
						Operations: []admissionv1.OperationType{admissionv1.Create},
						Rule: admissionv1.Rule{
							APIGroups:   []string{component.Group.Group},
							APIVersions: []string{"*"},
							Resources:   []string{"machines"},
						},
					},
				},
			},
		},
	}
	if _, err := c.client.AdmissionregistrationV1().
		MutatingWebhookConfigurations().
		Create(ctx, hook, metav1.CreateOptions{}); existing(
		err,
	) != nil {
		return fmt.Errorf("creating webhook configuration: %w", err)
	}
	return nil
}

// AddMachines creates a MachineDeployment and waits until its nodes are ready.
func (c *Cluster) AddMachines(ctx context.Context, name string, replicas int) error {
	d := &unstructured.Unstructured{Object: map[string]any{"spec": map[string]any{
		"replicas": int64(replicas),
		"selector": map[string]any{"matchLabels": map[string]any{"workerset": name}},
		"strategy": map[string]any{
			"type":          "RollingUpdate",
			"rollingUpdate": map[string]any{"maxSurge": int64(1), "maxUnavailable": int64(0)},
		},
		"template": map[string]any{
			"metadata": map[string]any{"labels": map[string]any{"workerset": name}, "annotations": c.kubeletGates()},
			"spec": map[string]any{
				"providerSpec": map[string]any{"value": map[string]any{"cloudProvider": c.provider()}},
				"versions":     map[string]any{"kubelet": c.Version[1:]},
			},
		},
	}}}
	d.SetGroupVersionKind(component.Group.WithKind("MachineDeployment"))
	d.SetName(name)
	if _, err := c.dynamic.Resource(component.MachineDeployments).
		Namespace(component.MachineNamespace).
		Create(ctx, d, metav1.CreateOptions{}); existing(
		err,
	) != nil {
		return fmt.Errorf("creating MachineDeployment %q: %w", name, err)
	}
	return c.AwaitMachines(ctx, name, replicas)
}

// kubeletGates are the feature gates that kubelets with the in-tree provider need, as annotations of a template.
func (c *Cluster) kubeletGates() map[string]any {
	out := map[string]any{}
	if c.Kind == nil || c.External {
		return out
	}
	for _, gate := range strings.Split(c.Kind.Flags("kubelet")["feature-gates"], ",") {
		if name, value, ok := strings.Cut(gate, "="); ok {
			out[component.AnnotationGates+name] = value
		}
	}
	return out
}

// AwaitMachines waits until a MachineDeployment is rolled out: every machine of its current template, none of another,
// and each with a node that is ready and initialised.
func (c *Cluster) AwaitMachines(ctx context.Context, name string, replicas int) error {
	return Await(ctx, "the machines of "+name, func(ctx context.Context) error {
		d, err := c.dynamic.Resource(component.MachineDeployments).
			Namespace(component.MachineNamespace).
			Get(ctx, name, metav1.GetOptions{})
		if err != nil {
			return err
		}
		count := func(field string) int64 {
			n, _, _ := unstructured.NestedInt64(d.Object, "status", field)
			return n
		}
		want := int64(replicas)
		if count("observedGeneration") < d.GetGeneration() || count("updatedReplicas") != want || count("replicas") != want ||
			count("availableReplicas") != want {
			status, _, _ := unstructured.NestedMap(d.Object, "status")
			return fmt.Errorf("its status is %v of %d", status, want)
		}
		nodes, err := c.client.CoreV1().Nodes().List(ctx, metav1.ListOptions{})
		if err != nil {
			return err
		}
		for i := range nodes.Items {
			for _, t := range nodes.Items[i].Spec.Taints {
				if t.Key == "node.cloudprovider.kubernetes.io/uninitialized" {
					return fmt.Errorf("node %s is not initialised", nodes.Items[i].Name)
				}
			}
		}
		return nil
	})
}

// RestartMachines asks for a new template, as the document's guide does: forceRestart with the time.
func (c *Cluster) RestartMachines(ctx context.Context, name string) error {
	patch, err := json.Marshal(map[string]any{"spec": map[string]any{"template": map[string]any{"metadata": map[string]any{
		"annotations": map[string]string{"forceRestart": fmt.Sprint(time.Now().UnixNano())},
	}}}})
	if err != nil {
		return fmt.Errorf("encoding patch: %w", err)
	}
	if _, err := c.dynamic.Resource(component.MachineDeployments).Namespace(component.MachineNamespace).
		Patch(ctx, name, types.MergePatchType, patch, metav1.PatchOptions{}); err != nil {
		return fmt.Errorf("restarting MachineDeployment %q: %w", name, err)
	}
	return nil
}

// DeleteMachines deletes every Machine without a word to the MachineDeployments: what the original's own test does.
func (c *Cluster) DeleteMachines(ctx context.Context) error {
	if err := c.dynamic.Resource(component.Machines).
		Namespace(component.MachineNamespace).
		DeleteCollection(ctx, metav1.DeleteOptions{}, metav1.ListOptions{}); err != nil {
		return fmt.Errorf("deleting machines: %w", err)
	}
	return nil
}
