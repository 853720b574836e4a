package answerlimit

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
)

// BenchmarkAnswer reads a page of 500 nodes with client-go alone and within the limits, which shows what weighing costs.
// The others have the largest size that is read. They show what processor time a hostile API server gets for 32 MiB.
func BenchmarkAnswer(b *testing.B) {
	const prefix = `{"kind":"NodeList","apiVersion":"v1","metadata":{},"items":[`
	fill := func(element string) string { return strings.Repeat(element+",", (maxAnswer-8<<10)/(len(element)+1)) }
	node, err := json.Marshal(largeNode(0))
	if err != nil {
		b.Fatal(err)
	}
	for _, c := range []struct{ name, page string }{
		{"nodes", prefix + strings.Repeat(string(node)+",", 499) + string(node) + "]}"},
		{"empty nodes", prefix + fill("{}") + "{}]}"},
		{"unknown fields", prefix + "{" + fill(`"a":[[]]`) + `"b":1}]}`},
		{"labels", prefix + `{"metadata":{"labels":{` + fill(`"a":""`) + `"b":""}}}]}`},
		{"escapes", prefix + "{" + fill(`"x":"`+strings.Repeat(`\u0000`, 1000)+`"`) + `"y":1}]}`},
		{"depth", prefix + fill(strings.Repeat(`{"a":`, 90)+"1"+strings.Repeat("}", 90)) + "{}]}"},
	} {
		s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "application/json")
			_, _ = w.Write([]byte(c.page))
		}))
		plain := &rest.Config{Host: s.URL, QPS: -1, ContentConfig: rest.ContentConfig{ContentType: jsonType}}
		if c.name == "nodes" { // client-go alone would fill the memory of this machine with the others
			benchmarkList(b, c.name+"/client-go", plain)
		}
		bounded := rest.CopyConfig(plain)
		Config(bounded)
		benchmarkList(b, c.name+"/bounded", bounded)
		s.Close()
	}
}

func benchmarkList(b *testing.B, name string, c *rest.Config) {
	kube := kubernetes.NewForConfigOrDie(c)
	b.Run(name, func(b *testing.B) {
		refused := 0
		for b.Loop() {
			if _, err := kube.CoreV1().Nodes().List(b.Context(), metav1.ListOptions{Limit: 500}); err != nil {
				refused++
			}
		}
		b.ReportMetric(float64(refused)/float64(b.N), "refused/op")
	})
}
