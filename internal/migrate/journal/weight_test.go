package journal

import (
	"bytes"
	"compress/gzip"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"runtime"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	v1 "github.com/transplant-dev/transplant/api/transplant/v1alpha1"
	"github.com/transplant-dev/transplant/internal/apitest"
	"github.com/transplant-dev/transplant/internal/component"
	"github.com/transplant-dev/transplant/internal/hostaccess"
	"github.com/transplant-dev/transplant/internal/jsonweight"
)

// zipped packs JSON text as a journal is packed.
func zipped(t *testing.T, text string) []byte {
	t.Helper()
	var out bytes.Buffer
	z := gzip.NewWriter(&out)
	_, err := z.Write([]byte(text))
	if err := errors.Join(err, z.Close()); err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}

// many is a JSON list of so many of the same element.
func many(element string, count int) string {
	return "[" + strings.Repeat(element+",", count-1) + element + "]"
}

// allocated is how many bytes of memory are asked for while f runs; no other test may run then.
func allocated(f func()) int64 {
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	f()
	runtime.ReadMemStats(&after)
	return int64(after.TotalAlloc - before.TotalAlloc)
}

// TestASmallConfigMapTakesNoGigabytesOfItsReader has ConfigMaps of some kilobytes whose lists of empty records were gigabytes of whoever read them: the
// administrator, and the operator with all its clusters.
func TestASmallConfigMapTakesNoGigabytesOfItsReader(t *testing.T) {
	const count = 2_000_000
	typed := fmt.Sprintf(`{"apiVersion":%q,"kind":%q,`, v1.GroupVersion, v1.KindJournal)
	for name, text := range map[string]string{
		"records":                    typed + `"records":` + many("{}", count) + "}",
		"records that are null":      typed + `"records":` + many("null", count) + "}",
		"records that are numbers":   typed + `"records":` + many("1", count) + "}",
		"records in other letters":   typed + `"RECORDS":` + many("{}", count) + "}",
		"records that are not there": typed + `"kept":{"recent":` + many("{}", count) + "}}",
		"steps":                      typed + `"plan":{"steps":` + many("{}", count) + "}}",
		"steps of the rollback":      typed + `"rollback":{"steps":` + many("null", count) + "}}",
		"files of a record":          typed + `"records":[{"files":` + many("{}", 2*count) + "}]}",
		"parts":                      typed + `"kept":{"parts":` + many("{}", 3*count) + "}}",
	} {
		for _, home := range []ObjectLocation{{Namespace: component.Namespace}, {Namespace: "tenant-a"}} {
			server := apitest.New(t)
			home.Kube, _ = server.Clients(t)
			server.Put(t, &corev1.ConfigMap{
				ObjectMeta: metav1.ObjectMeta{Name: Name, Namespace: home.Namespace}, BinaryData: map[string][]byte{journalKey: zipped(t, text)},
			})
			var err error
			took := allocated(func() { _, err = home.Open(t.Context()) })
			want := fmt.Sprintf("journal ConfigMap %s/%s: it would take more than %d bytes of memory", home.Namespace, Name, maxMemory)
			if err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("%s: the error does not say %q: %v", name, want, err)
			}
			if took > maxMemory {
				t.Errorf("%s: the reader asked for %d MiB", name, took>>20)
			}
		}
	}
}

// TestAReaderOfManyJournalsBoundsEach: a ConfigMap in the namespace of one control plane must not end the operator of all.
func TestAReaderOfManyJournalsBoundsEach(t *testing.T) {
	for name, text := range map[string]string{
		"blanks":  `{"apiVersion":"transplant.dev/v1alpha1"` + strings.Repeat(" ", 2<<20) + "}",
		"records": `{"apiVersion":"transplant.dev/v1alpha1","kind":"Journal","records":` + many("{}", 10_000) + "}",
	} {
		server := apitest.New(t)
		home := ObjectLocation{Namespace: "tenant-a", Memory: 1 << 20}
		home.Kube, _ = server.Clients(t)
		for at, key := range map[string]string{Name: journalKey, BeforeName: snapshotKey} {
			server.Put(t, &corev1.ConfigMap{
				ObjectMeta: metav1.ObjectMeta{Name: at, Namespace: home.Namespace}, Data: map[string]string{"last": "true"},
				BinaryData: map[string][]byte{key: zipped(t, text)},
			})
		}
		_, err := home.Open(t.Context())
		if err == nil || !strings.Contains(err.Error(), fmt.Sprintf("than %d bytes", 1<<20)) {
			t.Errorf("%s in the journal: %v", name, err)
		}
		if _, err := home.Before(t.Context()); name == "blanks" && (err == nil || !strings.Contains(err.Error(), fmt.Sprintf("than %d bytes", 1<<20))) {
			t.Errorf("%s in the snapshot from before: %v", name, err)
		}
	}
}

// TestThePartsOfAJournalShareItsMemory has parts that are well below the limit each, and above it together; also for a reader that remembers them.
func TestThePartsOfAJournalShareItsMemory(t *testing.T) {
	server := apitest.New(t)
	home := ObjectLocation{Namespace: component.Namespace, Memory: 16 << 20}
	home.Kube, _ = server.Clients(t)
	one := int64(reflect.TypeFor[placedRecord]().Size())
	var h head
	h.Journal = doc()
	for i := range journalParts {
		record := fmt.Sprintf(`{"at":%d,"record":{"id":"s","error":%q}}`, i, strings.Repeat("e", 100))
		data := zipped(t, many(record, int(home.Memory/(journalParts-1)/(one+101))))
		name := partName(Name, i+1)
		server.Put(t, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: component.Namespace}, BinaryData: map[string][]byte{partKey: data}})
		h.Kept.Parts = append(h.Kept.Parts, part{Name: name, Holds: holdsRecords, SHA256: hostaccess.SHA256(data), Bytes: len(data)})
	}
	put := func(parts int) *corev1.ConfigMap {
		some := h
		some.Kept.Parts = h.Kept.Parts[:parts]
		data, err := pack(some)
		if err != nil {
			t.Fatal(err)
		}
		cm := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: Name, Namespace: component.Namespace}, BinaryData: map[string][]byte{journalKey: data}}
		server.Put(t, cm)
		return cm
	}
	reader := NewReader(home)
	for range 2 { // the second time from memory
		if _, err := reader.Read(t.Context(), put(journalParts/2)); err != nil {
			t.Fatalf("half of the parts: %v", err)
		}
	}
	for range 2 {
		_, err := reader.Read(t.Context(), put(journalParts))
		heavy, is := errors.AsType[*jsonweight.TooHeavyError](err)
		if !is || heavy.Limit != home.Memory {
			t.Fatalf("all parts: %v", err)
		}
	}
}

// TestTheSnapshotOfAJournalIsWeighed reads one that somebody wrote, and refuses to keep one that a rollback could not read.
func TestTheSnapshotOfAJournalIsWeighed(t *testing.T) {
	server := apitest.New(t)
	home := ObjectLocation{Namespace: component.Namespace, Memory: 16 << 20}
	home.Kube, _ = server.Clients(t)
	text := fmt.Sprintf(`{"apiVersion":%q,"kind":%q,"nodes":%s}`, v1.GroupVersion, v1.KindSnapshot, many("{}", 60_000))
	server.Put(t, &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{
			Name:      BeforeName,
			Namespace: component.Namespace,
		},
		Data:       map[string]string{"last": "true"},
		BinaryData: map[string][]byte{snapshotKey: zipped(t, text)},
	})
	var err error
	took := allocated(func() { _, err = home.Before(t.Context()) })
	if _, is := errors.AsType[*jsonweight.TooHeavyError](err); !is || took > home.Memory {
		t.Errorf("%v, after %d MiB", err, took>>20)
	}
	var snap v1.Snapshot
	if err := json.Unmarshal([]byte(text), &snap); err != nil {
		t.Fatal(err)
	}
	writes := len(server.Writes())
	if _, err := home.Create(t.Context(), doc(), &snap); err == nil || !strings.Contains(err.Error(), "nothing was changed") || len(server.Writes()) != writes {
		t.Errorf("a snapshot that could not be read again was kept: %v", err)
	}
}
