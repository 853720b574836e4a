package catalogue

import "testing"

func TestSkew(t *testing.T) {
	tests := []struct {
		component     string
		minor, server int
		want          bool
	}{
		{"kubelet", 24, 26, true},
		{"kubelet", 24, 27, false},
		{"kubelet", 25, 28, true},
		{"kubelet", 24, 28, false},
		{"kubelet", 27, 26, false},
		{"kube-controller-manager", 26, 26, true},
		{"kube-controller-manager", 25, 26, true},
		{"kube-controller-manager", 24, 26, false},
		{"cloud-controller-manager", 27, 26, false},
		{"cloud-controller-manager", 29, 30, true},
		{"kube-scheduler", 31, 30, false},
		{"etcd", 30, 30, false},
	}
	for _, tt := range tests {
		if got := WithinSkew(tt.component, tt.minor, tt.server); got != tt.want {
			t.Errorf("%s 1.%d with an API server of 1.%d: %v", tt.component, tt.minor, tt.server, got)
		}
	}
}
