package lock

import "time"

var noon = time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)

func leasePath(name string) string {
	return "/apis/coordination.k8s.io/v1/namespaces/kube-system/leases/" + name
}
