package fleet

import (
	"context"
	"fmt"
	"slices"

	"github.com/spf13/cobra"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"

	"github.com/transplant-dev/transplant/internal/cli/console"
	"github.com/transplant-dev/transplant/internal/client/rollout"
)

// Names of the operator's rights in deploy/operator/rbac.yaml. Its account may have another one.
const (
	operatorName     = "transplant-operator"
	controlPlaneRole = "transplant-operator-control-plane"
)

func newRights(c *console.Console) *cobra.Command {
	var choose rollout.Selection
	account := operatorAccount{}
	cmd := &cobra.Command{
		Use:   "rights [CLUSTER...]",
		Short: "Print the RoleBindings that let the operator work on control planes, one for each namespace",
		Example: "  transplant fleet rights | kubectl apply -f -            # all clusters that there are\n" +
			"  transplant fleet rights crh4xbxz5f | kubectl apply -f -\n" +
			"  transplant fleet rights crh4xbxz5f | kubectl delete -f -",
		Long: "Rights prints a RoleBinding of ClusterRole " + controlPlaneRole + " for the namespace of each cluster that was chosen. The operator reads and\n" +
			"changes nothing in a namespace without one: its Cluster says so. Run it again when clusters have come. It changes nothing by itself.",
		RunE: func(cmd *cobra.Command, names []string) error {
			choose.Names = names
			return printRights(cmd.Context(), c, &choose, account)
		},
	}
	addSelectionFlags(&choose, cmd)
	cmd.Flags().StringVar(&account.name, "operator-account", operatorName, "ServiceAccount of the operator")
	cmd.Flags().
		StringVar(&account.namespace, "operator-namespace", "transplant-system", "namespace of the operator and its ServiceAccount")
	return cmd
}

// operatorAccount is the ServiceAccount of the operator.
type operatorAccount struct{ namespace, name string }

func printRights(ctx context.Context, c *console.Console, choose *rollout.Selection, of operatorAccount) error {
	if _, err := choose.Labels(); err != nil {
		return err
	}
	if _, err := rollout.ConnectSeed(c.Client); err != nil {
		return err
	}
	rows, objects, _, err := rollout.ReadFleet(ctx, c.Client, choose)
	if err != nil {
		return err
	}
	var namespaces []string
	for _, o := range objects {
		for _, r := range rows {
			if r.Name == o.Cluster.Name && r.Group == o.Group {
				namespaces = append(namespaces, o.Cluster.ControlPlaneNamespace())
			}
		}
	}
	slices.Sort(namespaces)
	for _, namespace := range slices.Compact(namespaces) {
		text, err := yaml.Marshal(operatorBinding(namespace, of))
		if err != nil {
			return fmt.Errorf("writing the RoleBinding of namespace %s: %w", namespace, err)
		}
		fmt.Fprintf(c.Out, "---\n%s", text)
	}
	return nil
}

// operatorBinding lets the operator work on the control plane in a namespace.
func operatorBinding(namespace string, of operatorAccount) rbacv1.RoleBinding {
	return rbacv1.RoleBinding{
		TypeMeta:   metav1.TypeMeta{APIVersion: rbacv1.SchemeGroupVersion.String(), Kind: "RoleBinding"},
		ObjectMeta: metav1.ObjectMeta{Name: operatorName, Namespace: namespace},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: controlPlaneRole},
		Subjects:   []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Name: of.name, Namespace: of.namespace}},
	}
}
