package remedy

import (
	"testing"

	v1 "github.com/transplant-dev/transplant/api/transplant/v1alpha1"
)

func TestACommandIsCalledWhatItDoes(t *testing.T) {
	for command, want := range map[string]v1.FixKind{
		"kubectl get nodes -o wide":                                                 v1.FixLook,
		"kubectl -n kube-system describe daemonset x   # on delete":                 v1.FixLook,
		"kubectl get node a -o yaml > node.yaml":                                    v1.FixLook,
		"kubectl get pods -A | grep delete":                                         v1.FixLook,
		"kubectl -n get delete pod x":                                               v1.FixChange,
		"kubectl get cm x -o yaml | sed 's/a/b/' | kubectl replace -f -":            v1.FixChange,
		"kubectl get nodes; kubectl uncordon a":                                     v1.FixChange,
		"kubectl get nodes && kubectl drain a":                                      v1.FixChange,
		"grep -n x /etc/a || rm /etc/a":                                             v1.FixChange,
		"printf 'a' > /etc/kubernetes/x":                                            v1.FixChange,
		"printf 'a'>/etc/kubernetes/x":                                              v1.FixChange,
		"curl -sk -o /dev/null -w '%{http_code}\\n' https://a/":                     v1.FixLook,
		"curl -X DELETE https://a/":                                                 v1.FixChange,
		"sed -n '/a/p' /etc/x":                                                      v1.FixLook,
		"sed -i.before 's/a/b/' /etc/x":                                             v1.FixChange,
		"aws ec2 describe-instances --instance-ids i-1":                             v1.FixLook,
		"aws ec2 delete-tags --resources i-1":                                       v1.FixChange,
		"openstack loadbalancer show x":                                             v1.FixLook,
		"openstack loadbalancer delete show":                                        v1.FixChange,
		"transplant explain LM-001":                                                 v1.FixLook,
		"transplant snapshot --out s.yaml && grep -A99 ^errors: s.yaml":             v1.FixLook,
		"transplant plan --ccm-env HTTPS_PROXY=<value> --ccm-env no_proxy=<value>":  v1.FixChange,
		"transplant plan --image=<cloud-controller-manager of your version>":        v1.FixChange,
		"transplant rollback":                                                       v1.FixChange,
		"systemctl cat kubelet":                                                     v1.FixLook,
		"systemctl edit --full kubelet":                                             v1.FixChange,
		"tr '\\0' ' ' < /proc/$(pidof kube-controller-manager)/cmdline   # on host": v1.FixLook,
		"unknown-program":                                                           v1.FixChange,
		"":                                                                          v1.FixChange,
		"   # nothing":                                                              v1.FixChange,
	} {
		if got := KindOf(command); got != want {
			t.Errorf("%q is called %s", command, got)
		}
	}
}

func TestWhatDestroysIsKnown(t *testing.T) {
	for command, want := range map[string]bool{
		"kubectl get pods | grep delete":                               false,
		"kubectl delete node a":                                        true,
		"kubectl drain a --ignore-daemonsets":                          true,
		"printf '{}' | kubectl delete --raw /api/v1/nodes/a -f -":      true,
		"kubectl -n a scale deployment b --replicas=0":                 true,
		"kubectl -n a scale deployment b --replicas=3":                 false,
		"aws ec2 delete-route --route-table-id rtb-1":                  true,
		"aws ec2 create-tags --resources i-1":                          false,
		"mv --backup=numbered /etc/kubernetes/manifests/a.yaml /var/x": true,
		"mv /etc/kubernetes/a.yaml.new /etc/kubernetes/manifests/a":    false,
		"rm -f /etc/x":                           true,
		"systemctl stop kube-controller-manager": true,
		"helm uninstall ccm":                     true,
		"kubectl get nodes -l a=delete":          false,
	} {
		if got := Destroys(command); got != want {
			t.Errorf("%q: %v", command, got)
		}
	}
}
