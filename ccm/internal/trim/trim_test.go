package trim

import (
	"errors"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// fullNode is a Node with everything that our controllers and providers read, and what none of them does.
func fullNode() *corev1.Node {
	return &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{
			Name: "a", UID: "1", ResourceVersion: "7", Labels: map[string]string{corev1.LabelTopologyZone: "z"},
			Annotations: map[string]string{
				"alpha.kubernetes.io/provided-node-ip": "10.0.0.1", "mine": "1", corev1.LastAppliedConfigAnnotation: "{}",
				"node.alpha.kubernetes.io/ttl": "0", "csi.volume.kubernetes.io/nodeid": "{}",
			},
			ManagedFields: []metav1.ManagedFieldsEntry{{Manager: "kubelet"}},
		},
		Spec: corev1.NodeSpec{
			ProviderID: "sim:///a", PodCIDRs: []string{"10.1.0.0/24"}, Taints: []corev1.Taint{{Key: "t", Effect: corev1.TaintEffectNoSchedule}},
		},
		Status: corev1.NodeStatus{
			Conditions: []corev1.NodeCondition{
				{Type: corev1.NodeMemoryPressure}, {Type: corev1.NodeReady, Status: corev1.ConditionTrue}, {Type: corev1.NodeNetworkUnavailable},
			},
			Addresses:       []corev1.NodeAddress{{Type: corev1.NodeInternalIP, Address: "10.0.0.1"}},
			NodeInfo:        corev1.NodeSystemInfo{SystemUUID: "u", OSImage: "os", MachineID: "m", BootID: "b"},
			Capacity:        corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("8")},
			Allocatable:     corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("7")},
			Images:          []corev1.ContainerImage{{Names: []string{"pause"}, SizeBytes: 1}},
			VolumesInUse:    []corev1.UniqueVolumeName{"v"},
			VolumesAttached: []corev1.AttachedVolume{{Name: "v", DevicePath: "/dev/v"}},
		},
	}
}

func TestCachesKeepOfANodeWhatIsReadAndNothingElse(t *testing.T) {
	want := fullNode()
	want.Annotations = map[string]string{"alpha.kubernetes.io/provided-node-ip": "10.0.0.1", "mine": "1"}
	want.Status.Conditions = want.Status.Conditions[1:]
	want.ManagedFields, want.Status.Images, want.Status.VolumesInUse, want.Status.VolumesAttached = nil, nil, nil, nil
	want.Status.Capacity, want.Status.Allocatable, want.Status.NodeInfo.MachineID, want.Status.NodeInfo.BootID = nil, nil, "", ""
	for range 2 { // an informer may give it an object twice
		got, err := Object(fullNode())
		if err == nil {
			got, err = Object(got)
		}
		if diff := cmp.Diff(any(want), got); err != nil || diff != "" {
			t.Errorf("the Node of the cache (-want +got), error %v:\n%s", err, diff)
		}
	}
	service := &corev1.Service{ObjectMeta: metav1.ObjectMeta{Annotations: map[string]string{"mine": "1"}}}
	applied := service.DeepCopy()
	applied.Annotations[corev1.LastAppliedConfigAnnotation], applied.ManagedFields = "{}", []metav1.ManagedFieldsEntry{{Manager: "kubectl"}}
	if got, err := Object(applied); err != nil || !cmp.Equal(any(service), got) {
		t.Errorf("a Service becomes %+v, %v", got, err)
	}
	if got, err := Object("no object"); err != nil || got != "no object" {
		t.Errorf("what is no object becomes %v, %v", got, err)
	}
}

// wholeWrites are the calls in a file that write Nodes or Services as a whole: Update, UpdateStatus, Apply or ApplyStatus of what a call of Nodes or
// Services returns, at once or by a variable.
func wholeWrites(file *ast.File, positions *token.FileSet) (found []string) {
	isTrimmed := func(e ast.Expr) bool {
		call, ok := e.(*ast.CallExpr)
		if !ok {
			return false
		}
		f, ok := call.Fun.(*ast.SelectorExpr)
		return ok && (f.Sel.Name == "Nodes" || f.Sel.Name == "Services")
	}
	clients := map[string]bool{}
	ast.Inspect(file, func(n ast.Node) bool {
		if a, ok := n.(*ast.AssignStmt); ok && len(a.Lhs) == len(a.Rhs) {
			for i, right := range a.Rhs {
				if name, ok := a.Lhs[i].(*ast.Ident); ok && isTrimmed(right) {
					clients[name.Name] = true
				}
			}
		}
		return true
	})
	ast.Inspect(file, func(n ast.Node) bool {
		call, ok := n.(*ast.CallExpr)
		if !ok {
			return true
		}
		f, ok := call.Fun.(*ast.SelectorExpr)
		if !ok || !slices.Contains([]string{"Update", "UpdateStatus", "Apply", "ApplyStatus"}, f.Sel.Name) {
			return true
		}
		name, isName := f.X.(*ast.Ident)
		if isTrimmed(f.X) || isName && clients[name.Name] {
			found = append(found, positions.Position(call.Pos()).String())
		}
		return true
	})
	return found
}

func TestNoControllerOrProviderWritesWhatIsTrimmedAsAWhole(t *testing.T) {
	files := 0
	for _, root := range []string{"../..", "../../../provider"} {
		err := filepath.WalkDir(root, func(path string, entry fs.DirEntry, err error) error {
			if err != nil || entry.IsDir() || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") {
				return err
			}
			positions := token.NewFileSet()
			file, err := parser.ParseFile(positions, path, nil, parser.SkipObjectResolution)
			if err != nil {
				return err
			}
			files++
			for _, at := range wholeWrites(file, positions) {
				t.Errorf("%s: a Node or a Service of the cache lacks fields, and writing it as a whole erases them in the API; send a patch", at)
			}
			return nil
		})
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			t.Fatal(err)
		}
	}
	if files < 100 {
		t.Errorf("only %d files were read", files)
	}
	positions := token.NewFileSet()
	bad, err := parser.ParseFile(positions, "bad.go", `package bad
func f() {
	c.CoreV1().Nodes().UpdateStatus(ctx, node, o)
	nodes := c.CoreV1().Nodes()
	nodes.Update(ctx, node, o)
	nodes.Patch(ctx, node.Name, kind, body, o)
	c.CoreV1().Services("").Update(ctx, service, o)
	c.CoreV1().Events("").Update(ctx, event, o)
}`, 0)
	if err != nil {
		t.Fatal(err)
	}
	if got := wholeWrites(bad, positions); len(got) != 3 {
		t.Errorf("of three such writes, %q are found", got)
	}
}
