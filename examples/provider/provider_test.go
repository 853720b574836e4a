package main

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/transplant-dev/transplant/provider/conformance"
)

func TestConformance(t *testing.T) {
	conformance.Run(t, func(_ *testing.T, wire *conformance.Wire) conformance.Subject {
		cloud := newMemory(map[string]server{})
		cloud.send = wire.Pass
		return conformance.Subject{Provider: cloud, Servers: owner{cloud}, Objects: func() []string {
			return slices.Collect(maps.Keys(cloud.balancers))
		}}
	})
}

// owner does what the owner of servers does.
type owner struct{ *memory }

func (o owner) Create() *corev1.Node {
	name := fmt.Sprintf("node-%d", len(o.servers))
	o.servers[name] = server{Address: fmt.Sprintf("10.0.0.%d", 1+len(o.servers))}
	return &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}}
}

func (o owner) Stop(node *corev1.Node) {
	o.servers[node.Name] = server{Address: o.servers[node.Name].Address, Stopped: true}
}

func (o owner) Delete(node *corev1.Node) { delete(o.servers, node.Name) }

func TestAConfigThatCannotBeReadIsNamed(t *testing.T) {
	path := filepath.Join(t.TempDir(), "servers.json")
	if _, err := readServers(path); err == nil || !strings.Contains(err.Error(), path) {
		t.Errorf("without a file the error is %v", err)
	}
	if err := os.WriteFile(path, []byte(`{"a": 1}`), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := readServers(path); err == nil || !strings.Contains(err.Error(), path) {
		t.Errorf("with a number in place of a server the error is %v", err)
	}
}

// TestTheExampleStaysShort holds what the documentation says of it.
func TestTheExampleStaysShort(t *testing.T) {
	lines := 0
	for _, file := range []string{"cloud.go", "main.go"} {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for line := range strings.Lines(string(text)) {
			if line = strings.TrimSpace(line); line != "" && !strings.HasPrefix(line, "//") {
				lines++
			}
		}
	}
	if lines >= 150 {
		t.Errorf("the example has %d lines of code, want less than 150", lines)
	}
}
