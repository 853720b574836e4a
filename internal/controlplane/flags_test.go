package controlplane

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/transplant-dev/transplant/internal/controlplane/commandline"
)

func TestFlagsOf(t *testing.T) {
	tests := map[string]struct {
		command []string
		want    map[string]string
	}{
		"nothing":             {nil, map[string]string{}},
		"a program":           {[]string{"kube-apiserver"}, map[string]string{}},
		"with an equals sign": {[]string{"p", "--a=b", "--c=", "--d=e=f"}, map[string]string{"a": "b", "c": "", "d": "e=f"}},
		"with a space":        {[]string{"p", "--a", "b", "--c", "d"}, map[string]string{"a": "b", "c": "d"}},
		"without a value":     {[]string{"p", "--a", "--b", "c", "--d"}, map[string]string{"a": "true", "b": "c", "d": "true"}},
		"a boolean takes no next argument": {
			[]string{"p", "--leader-elect", "false", "--profiling", "x"},
			map[string]string{"leader-elect": "true", "profiling": "true"},
		},
		"a boolean with a value":       {[]string{"p", "--leader-elect=false"}, map[string]string{"leader-elect": "false"}},
		"a negative number is a value": {[]string{"p", "--a", "-1"}, map[string]string{"a": "-1"}},
		"a dash is a value":            {[]string{"p", "--a", "-", "--b=-"}, map[string]string{"a": "-", "b": "-"}},
		"an empty value":               {[]string{"p", "--a", "", "--b"}, map[string]string{"a": "", "b": "true"}},
		"the last one wins":            {[]string{"p", "--a=1", "--a", "2", "--a=3"}, map[string]string{"a": "3"}},
		"underscores are dashes": {
			[]string{"p", "--leader_elect", "--cloud_provider", "aws"},
			map[string]string{"leader-elect": "true", "cloud-provider": "aws"},
		},
		"one dash":              {[]string{"p", "-v", "4", "-name=x"}, map[string]string{"v": "4", "name": "x"}},
		"one dash and a number": {[]string{"p", "-v4"}, map[string]string{"v": "4"}},
		"what stands behind two dashes is no flag":  {[]string{"p", "--a", "--", "--b=c"}, map[string]string{"a": "true"}},
		"words between flags":                       {[]string{"p", "start", "--a=b", "c"}, map[string]string{"a": "b"}},
		"a wrapper's flags are not the component's": {[]string{"/go-runner", "--log-file=x", "/bin/kube-scheduler", "--a=b"}, map[string]string{"a": "b"}},
		"no program": {[]string{"--a", "/bin/kubelet", "--b"}, map[string]string{"a": "/bin/kubelet", "b": "true"}},
		"a component's name as a value is no program": {[]string{"kube-apiserver", "--a", "/bin/etcd", "--b=c"}, map[string]string{"a": "/bin/etcd", "b": "c"}},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(tt.want, commandline.FlagsOf(tt.command)); diff != "" {
				t.Errorf("-want +got:\n%s", diff)
			}
		})
	}
}
