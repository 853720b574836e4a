package schematest

import (
	"os"
	"path/filepath"
	"testing"
	"testing/fstest"
	"time"

	"github.com/google/go-cmp/cmp"
)

type inner struct {
	Name string `json:"name"`
}

type embedded struct {
	Kind string `json:"kind"`
}

type kept struct {
	embedded `json:",inline"`
	At       *time.Time       `json:"at,omitempty"`
	Parts    []inner          `json:"parts"`
	By       map[string]inner `json:"by"`
	Whole    float64
	Left     int `json:"-"`
}

const listing = "schematest.kept\n  Whole float64\n  at time.Time\n  by map[string]schematest.inner\n  kind string\n  parts []schematest.inner\nschematest.inner\n  name string\n"

func TestFieldsAreListedAtAnyDepth(t *testing.T) {
	if diff := cmp.Diff(listing, Listing(kept{})); diff != "" {
		t.Errorf("(-want +have):\n%s", diff)
	}
}

func TestAChangedFieldNeedsANewNumber(t *testing.T) {
	form := Form{Name: "kept", Constant: "v1.KeptSchema", Number: 2, Of: []any{kept{}}}
	const one = "# kept, schema 1, released\nschematest.kept\n  kind string\n"
	for _, c := range []struct {
		name, one, two string
		want           []string
	}{
		{"as listed", one, "# kept, schema 2, released\n" + listing, nil},
		{"a field came", one, "# kept, schema 2, released\n" + listing[:len(listing)-len("schematest.inner\n  name string\n")], []string{
			"kept-2.txt: the fields are not those of schema 2 (+schematest.inner.name string); raise v1.KeptSchema to 3, and list its fields with go test ./internal/repopolicy -update; add documents of schema 2 " +
				"that the tests read, continue and revert (testdata/kept of internal/migrate and internal/hosted); write a conversion where an older one means something else",
		}},
		{"another type", one, "# kept, schema 2, not released\n" + listing + "  size int\n", []string{
			"kept-2.txt: the fields are not those of schema 2 (-schematest.inner.size int); schema 2 was never released: list its fields again with go test ./internal/repopolicy -update",
		}},
		{"a field of before went", one + "  gone string\n", "# kept, schema 2, released\n" + listing, []string{
			"kept-1.txt: what was kept under schema 1 can no longer be read, for these fields are gone or of another type: schematest.kept.gone string; keep them, or convert such documents where they are read",
		}},
		{"a number too many", "# kept, schema 1, not released\n", "# kept, schema 2, released\n" + listing, []string{
			"kept-1.txt: schema 1 is not released, and there is schema 2 already: v1.KeptSchema need not be raised before it is",
		}},
		{"nothing listed", one, "", []string{"kept-2.txt: the fields of schema 2 are not listed: write them with go test ./internal/repopolicy -update"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			tree := fstest.MapFS{"kept-1.txt": {Data: []byte(c.one)}}
			if c.two != "" {
				tree["kept-2.txt"] = &fstest.MapFile{Data: []byte(c.two)}
			}
			got, err := form.Broken(tree)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(c.want, got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
	if _, err := form.Broken(fstest.MapFS{"kept-1.txt": {Data: []byte("# kept\n")}}); err == nil {
		t.Error("a listing that does not say whether it was released is believed")
	}
}

func TestAListingThatWasReleasedIsNotWrittenOver(t *testing.T) {
	dir := t.TempDir()
	form := Form{Name: "kept", Constant: "v1.KeptSchema", Number: 1, Of: []any{kept{}}}
	at := filepath.Join(dir, "kept-1.txt")
	if err := form.Update(dir); err != nil {
		t.Fatal(err)
	}
	if broken, err := form.Broken(os.DirFS(dir)); err != nil || len(broken) > 0 {
		t.Errorf("what was just listed: %v, %v", broken, err)
	}
	for state, want := range map[string]string{released: "x\n", pending: listing} {
		if err := os.WriteFile(at, []byte("# kept, schema 1, "+state+"\nx\n"), 0o644); err != nil {
			t.Fatal(err)
		}
		if err := form.Update(dir); err != nil {
			t.Fatal(err)
		}
		data, err := os.ReadFile(at)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff("# kept, schema 1, "+state+"\n"+want, string(data)); diff != "" {
			t.Errorf("%s (-want +have):\n%s", state, diff)
		}
	}
}
