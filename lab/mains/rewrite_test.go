package mains

import (
	"strings"
	"testing"
)

func TestOneImportIsChangedAndNothingElse(t *testing.T) {
	const file = "package main\n\nimport (\n\t\"fmt\"\n\t\"k8s.io/cloud-provider/app\" // the library\n\t\"k8s.io/cloud-provider/app/config\"\n)\n\n" +
		"// \"k8s.io/cloud-provider/app\" stays here.\nfunc main() { fmt.Println(app.Names, config.Config{}, \"k8s.io/cloud-provider/app\") }\n"
	for name, c := range map[string]struct{ from, want string }{
		"by its own name": {file, strings.Replace(file, `"k8s.io/cloud-provider/app" // the`, `app "example.com/ccm" // the`, 1)},
		"by another name": {
			strings.Replace(file, `"k8s.io/cloud-provider/app" // the`, `library "k8s.io/cloud-provider/app" // the`, 1),
			strings.Replace(file, `"k8s.io/cloud-provider/app" // the`, `library "example.com/ccm" // the`, 1),
		},
	} {
		got, found, err := changeImport("main.go", []byte(c.from), "example.com/ccm")
		if err != nil || !found || string(got) != c.want {
			t.Errorf("%s: %v, %v:\n%s", name, found, err, got)
		}
	}
}

func TestAnImportThatIsNotThereOnceIsTold(t *testing.T) {
	const without = "package main\n\nimport \"k8s.io/cloud-provider/app/config\"\n"
	got, found, err := changeImport("main.go", []byte(without), "example.com/ccm")
	if err != nil || found || string(got) != without {
		t.Errorf("without the import: %v, %v:\n%s", found, err, got)
	}
	for name, from := range map[string]string{
		"twice":     "package main\n\nimport (\n\t\"k8s.io/cloud-provider/app\"\n\tagain \"k8s.io/cloud-provider/app\"\n)\n",
		"no import": "package main\n\nimport {\n",
	} {
		if _, _, err := changeImport("main.go", []byte(from), "example.com/ccm"); err == nil {
			t.Errorf("%s: it is changed without an error", name)
		}
	}
}

func TestAProgramWithoutTheImportIsNotTaken(t *testing.T) {
	dir := t.TempDir()
	write(t, dir+"/main.go", "package main\n\nfunc main() {}\n")
	b := builder{Program: ThirdParty, Options: Options{Import: OurImport}, work: t.TempDir()}
	if err := b.copyMain(dir); err == nil || !strings.Contains(err.Error(), "nothing to change") {
		t.Errorf("the error is %v", err)
	}
}
