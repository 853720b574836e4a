package jsonlines

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestALogIsContinuedBehindItsLastWholeLine(t *testing.T) {
	path := filepath.Join(t.TempDir(), "log.jsonl")
	long := `{"a":"` + strings.Repeat("x", 9000) + `"}`
	if err := os.WriteFile(path, []byte("{\"a\":\"1\"}\n"+long+"\n"+long[:8000]), 0o600); err != nil {
		t.Fatal(err)
	}
	f, err := Open[map[string]string](path, "the log")
	if err != nil {
		t.Fatal(err)
	}
	if err := f.Append(map[string]string{"a": "2"}); err != nil {
		t.Fatal(err)
	}
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if want := "{\"a\":\"1\"}\n" + long + "\n{\"a\":\"2\"}\n"; string(data) != want {
		t.Errorf("the log is %d bytes, want %d", len(data), len(want))
	}
}

func TestALineThatCannotBeReadIsNamedUnlessItIsTheLastAndCutOff(t *testing.T) {
	bad := errors.New("bad")
	refuse := func(line []byte) error {
		if strings.HasPrefix(string(line), "x") {
			return bad
		}
		return nil
	}
	if err := Each(strings.NewReader("a\n\nx\nb\n"), refuse); !errors.Is(err, bad) || !strings.Contains(err.Error(), "line 3") {
		t.Errorf("error is %v", err)
	}
	if err := Each(strings.NewReader("a\nx"), refuse); err != nil {
		t.Errorf("a last line that was cut off is an error: %v", err)
	}
}

func TestAClosedFileKeepsItsError(t *testing.T) {
	f, err := Open[int](filepath.Join(t.TempDir(), "log.jsonl"), "the log")
	if err != nil {
		t.Fatal(err)
	}
	if err := f.file.Close(); err != nil {
		t.Fatal(err)
	}
	first := f.Append(1)
	if first == nil || !errors.Is(f.Append(2), os.ErrClosed) || !errors.Is(f.Close(), os.ErrClosed) {
		t.Errorf("error is %v", first)
	}
}
