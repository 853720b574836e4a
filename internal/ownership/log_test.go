package ownership

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	v1 "github.com/transplant-dev/transplant/api/transplant/v1alpha1"
)

func TestALogIsReadAsItWasWritten(t *testing.T) {
	want := cleanHandover().events
	var b bytes.Buffer
	if err := WriteLog(&b, want); err != nil {
		t.Fatal(err)
	}
	got, err := ReadLog(&b)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("log (-want +got):\n%s", diff)
	}
}

const goodLine = `{"time":"2026-03-01T12:00:00Z","source":"lease","lease":"kube-controller-manager","holder":"a"}`

func TestReadLog(t *testing.T) {
	for _, c := range []struct {
		name, in string
		events   int
		err      string
	}{
		{"nothing", "", 0, ""},
		{"blank lines", "\n \n" + goodLine + "\n\n", 1, ""},
		{"a last line without its end that is whole", goodLine + "\n" + goodLine, 2, ""},
		{"a last line that was cut off", goodLine + "\n" + goodLine[:40], 1, ""},
		{"windows line ends", goodLine + "\r\n" + goodLine + "\r\n", 2, ""},
		{"a line that was cut off in the middle", goodLine[:40] + "\n" + goodLine + "\n", 0, "line 1"},
		{"a line that is no event", goodLine + "\n[]\n", 0, "line 2"},
		{"an event without time", `{"source":"lease"}` + "\n", 0, "no time"},
		{"an event of an unknown source", strings.Replace(goodLine, `"source":"lease"`, `"source":"guess"`, 1) + "\n", 0, `source "guess"`},
		{"fields of a later version", strings.Replace(goodLine, `{`, `{"colour":"red",`, 1) + "\n", 1, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			events, err := ReadLog(strings.NewReader(c.in))
			if c.err == "" && err != nil || c.err != "" && (err == nil || !strings.Contains(err.Error(), c.err)) {
				t.Errorf("error is %v, want %q", err, c.err)
			}
			if len(events) != c.events {
				t.Errorf("%d events, want %d", len(events), c.events)
			}
		})
	}
}

func TestReadLogBoundsALine(t *testing.T) {
	_, err := ReadLog(strings.NewReader(strings.Repeat("x", 4<<20+1)))
	if err == nil || !strings.Contains(err.Error(), "longer than") {
		t.Errorf("error is %v", err)
	}
}

func TestReadCalls(t *testing.T) {
	calls, err := ReadCalls(strings.NewReader(""))
	if err != nil || calls == nil {
		t.Errorf("an empty audit log gives %v, %v: it is there and has no calls", calls, err)
	}
	calls, err = ReadCalls(
		strings.NewReader(`{"seq":1,"key":"K","service":"ec2","action":"CreateRoute","mutating":true,"arrived":"2026-03-01T12:00:00Z"}` + "\n" + `{"seq":2,`),
	)
	if err != nil || len(calls) != 1 || !calls[0].Mutating {
		t.Errorf("calls are %+v, %v", calls, err)
	}
	if _, err := ReadCalls(strings.NewReader(`{"seq":1}` + "\n")); err == nil {
		t.Error("a call without action and arrival was accepted")
	}
}

func TestALogFileGoesOnAfterACrash(t *testing.T) {
	path := filepath.Join(t.TempDir(), "ownership.jsonl")
	if err := os.WriteFile(path, []byte(goodLine+"\n"+strings.Repeat(goodLine, 100)[:9000]), 0o600); err != nil {
		t.Fatal(err)
	}
	log, err := OpenLog(path)
	if err != nil {
		t.Fatal(err)
	}
	event := v1.OwnershipEvent{Time: t0, Source: v1.SourceLease, Lease: "x"}
	if err := log.Append(event); err != nil {
		t.Fatal(err)
	}
	if err := log.Close(); err != nil {
		t.Fatal(err)
	}
	f, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	events, err := ReadLog(f)
	if err != nil || len(events) != 2 {
		t.Fatalf("%d events, %v, want the whole line and the new one", len(events), err)
	}
	if err := log.Append(event); err == nil {
		t.Error("appending to a closed log is no error")
	}
}

func TestALogFileIsForItsOwnerOnly(t *testing.T) {
	path := filepath.Join(t.TempDir(), "ownership.jsonl")
	log, err := OpenLog(path)
	if err != nil {
		t.Fatal(err)
	}
	if err := log.Close(); err != nil {
		t.Fatal(err)
	}
	info, err := os.Stat(path)
	if err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("mode is %v, %v", info.Mode(), err)
	}
	if _, err := OpenLog(filepath.Join(path, "below")); err == nil {
		t.Error("a path below a file was opened")
	}
}

func FuzzReadLog(f *testing.F) {
	f.Add([]byte(goodLine + "\n" + goodLine[:30]))
	f.Add([]byte("{}\n"))
	f.Add([]byte(`{"time":"2026-03-01T12:00:00Z","source":"process","pid":-1,"ended":true,"looked":"0001-01-01T00:00:00Z"}` + "\n"))
	f.Fuzz(func(t *testing.T, data []byte) {
		events, err := ReadLog(bytes.NewReader(data))
		if err != nil {
			return
		}
		var b bytes.Buffer
		if err := WriteLog(&b, events); err != nil {
			return // a year beyond 9999 can be read by nobody
		}
		again, err := ReadLog(&b)
		if err != nil || len(again) != len(events) {
			t.Errorf("%d events became %d: %v", len(events), len(again), err)
		}
		Judge(events, nil, nil, Options{}) // whatever a log says, it can be judged
	})
}
