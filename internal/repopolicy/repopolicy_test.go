package repopolicy

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/google/go-cmp/cmp"
)

func TestTheRepositoryKeepsItsRules(t *testing.T) {
	root, err := filepath.Abs(filepath.Join("..", ".."))
	if err != nil {
		t.Fatal(err)
	}
	for sentence, rule := range rules {
		t.Run(sentence, func(t *testing.T) {
			broken, err := rule(os.DirFS(root))
			if err != nil {
				t.Fatal(err)
			}
			for _, line := range broken {
				t.Error(line)
			}
		})
	}
}

func TestEveryRuleSeesWhatBreaksIt(t *testing.T) {
	tried := map[string]bool{}
	for _, c := range []struct {
		rule string
		tree map[string]string
		want []string
	}{
		{"packages stay small", manyFiles(map[string]int{"internal/good": 10, "internal/cli": 12, "internal/bad": 11, "lab/big": 20}),
			[]string{"internal/bad has 11 files, a package may have 10"}},
		{"names of one word mean one thing", map[string]string{
			"internal/a/a.go": "package a\nfunc read() {}\nfunc readPod() {}\nfunc (t T) add() {}\nfunc (t T) take() {}\nfunc Read() {}\n",
			"internal/b/a.go": "package b\nfunc read() {}\nfunc readPod() {}\nfunc (t T) add() {}\nfunc (t T) take() {}\nfunc Read() {}\n",
			"internal/c/a.go": "package c\nfunc read() {}\nfunc readPod() {}\nfunc (t T) add() {}\nfunc (t T) take() {}\nfunc Read() {}\n",
			"internal/d/a.go": "package d\nfunc read() {}\nfunc readPod() {}\nfunc (t T) add() {}\nfunc Read() {}\n", "internal/d/a_test.go": "package d\nfunc (t T) take() {}\n",
			"lab/e/a.go": "package e\nfunc (t T) take() {}\n",
		}, []string{"function read is in 4 packages, at most 3 may have it (say of what): internal/a, internal/b, internal/c, internal/d"}},
		{"predicates are named as such", map[string]string{
			"internal/good/a.go": "package good\nfunc isReady() bool { return true }\nfunc covers() bool { return true }\nfunc ready() string { return \"\" }\nfunc has() bool { return true }\n",
			"internal/bad/a.go":  "package bad\nfunc ready() bool { return true }\nfunc known() (bool, error) { return true, nil }\n",
		}, []string{"internal/bad/a.go: ready returns a bool: its name begins with is, has, should or can, or says what it does"}},
		{"commands only start", map[string]string{
			"cmd/good/main.go": "package main\n", "cmd/good/main_test.go": "package main\n", "lab/cmd/a/flags.go": "package main\n", "cmd/bad/flags.go": "package main\n",
		}, []string{"cmd/bad/flags.go: a command has its main.go alone, which starts a package"}},
		{"predicates say what they report", map[string]string{
			"internal/good/a.go": "package good\n\n// isReady reports\n// whether it is.\nfunc isReady() bool { return true }\nfunc isBare() bool { return true }\n\n// issue is one.\nfunc issue() bool { return true }\n",
			"internal/bad/a.go":  "package bad\n\n// HasAny is whether there is one.\nfunc (t T) HasAny() bool { return true }\n",
		}, []string{"internal/bad/a.go: the comment of HasAny says not that it reports whether something holds"}},
		{"files of a package begin differently", map[string]string{
			"internal/good/plan.go": "package good\n", "internal/good/plans.go": "package good\n", "internal/good/plans_test.go": "package good\n",
			"internal/good/clock_linux.go": "package good\n", "internal/good/clock_other.go": "package good\n",
			"internal/bad/volumes.go": "package bad\n", "internal/bad/volumeset.go": "package bad\n", "internal/other/volumes.go": "package other\n",
		}, []string{"internal/bad: volumes.go and volumeset.go begin alike"}},
		{"nothing embeds the engine or a draft", map[string]string{
			"internal/good/a.go": "package good\ntype part struct { engine *migrate.Engine; Env }\nfunc f(e *migrate.Engine) {}\n",
			"internal/bad/a.go":  "package bad\ntype part struct { *migrate.Engine }\n", "internal/bad/b.go": "package bad\ntype p struct { Draft }\n",
		}, []string{"internal/bad/a.go embeds Engine: give it what it needs of it", "internal/bad/b.go embeds Draft: give it what it needs of it"}},
		{"types stay small", map[string]string{
			"internal/good/a.go": "package good\ntype T struct{}\n" + methods("T", 40), "lab/a.go": "package lab\n" + methods("T", 41),
			"internal/bad/a.go": "package bad\ntype T[K any] struct{}\n" + methods("*T[K]", 40), "internal/bad/b.go": "package bad\nfunc (t T[K]) last() {}\n",
		}, []string{"internal/bad.T has 41 methods, a type may have 40"}},
		{"a field of many has its own line", map[string]string{
			"internal/a/a.go":      "package a\nvar t = T{A: 1, B: 2, C: 3}\nvar l = []T{{A: 1, B: 2, C: 3, D: 4}}\nvar m = map[string]int{a: 1, b: 2, c: 3, d: 4}\n",
			"internal/a/b.go":      "package a\nvar t = T{A: 1, B: 2,\n\tC: 3, D: 4}\nvar p = f(&p.T{A: 1, B: 2, C: 3, D: U{A: 1, B: 2, C: 3, D: 4}})\n",
			"internal/a/a_test.go": "package a\nvar t = T{A: 1, B: 2, C: 3, D: 4}\n", "lab/a.go": "package a\nvar t = T{A: 1, B: 2, C: 3, D: 4}\n",
		}, []string{"internal/a/b.go:4 has 4 fields in one line: give each its own", "internal/a/b.go:4 has 4 fields in one line: give each its own"}},
		{"lines stay narrow", map[string]string{
			"a.go": "package a\n" + wide("+", 120) + wide("é+", 60) + "var s = \"" + wide("x", 200) + "\"\nvar r = `\n" + wide("y", 130) + "`\n// https://" + wide("x", 130) +
				"//\t--->" + wide("x", 120) + "//go:embed " + wide("x", 130) + "f(" + wide("Convert", 20),
			"a_test.go": "package a\n" + wide("+", 160), "b_test.go": "package a\n" + wide("+", 161),
			"b.go": "package b\n" + wide("+", 121) + "//" + wide(" x", 60) + "f(\"a string\", " + wide("+", 117),
		}, []string{
			"b.go:2 has 121 columns, a line may have 120", "b.go:3 has 122 columns, a line may have 120", "b.go:4 has 131 columns, a line may have 120",
			"b_test.go:2 has 161 columns, a line may have 160",
		}},
		{"comments use plain words", map[string]string{
			"a.go": "package a\n// ok reports whether it was amended next to it.\nvar s = \"anew\"\n",
			"b.go": "package b\n// ok tells whether it was me" + "nded.\n", "b.md": "tells that\n",
			"c.go": "package c\n// f takes the host\n// " + "out of the plan, and carries none of its steps " + "out.\nvar s int\n",
			"d.go": "package d\n// f takes the host, and none is out of reach. It carries one, two or three.\n// Out of the\n// plan it takes nothing.\nvar s int\n",
		}, []string{
			`b.go:2 says "me` + `nded", say "repair"`, `b.go:2 says "tells whether", say "reports whether"`,
			`c.go:2 says "carries none of its steps ` + `out", say "execute"`, `c.go:2 says "takes the host ` + `out of", say "remove from, exclude"`,
		}},
		{"texts for users use plain words", map[string]string{
			"internal/a/a.go": "package a\nvar owner, s = \"nobody\", \"no manager runs it\"\n", "lab/a.go": "package a\nvar s = \"for nobody\"\n",
			"internal/a/a_test.go":            "package a\nvar s = \"for nobody\"\n",
			"internal/a/b.go":                 "package a\nvar s = f(\"for a\",\n`whoever runs it`, \"run in vain\")\n",
			"internal/a/c.go":                 "package a\nvar s = \"a step takes the \" +\n\t\"flag " + "out of %s\"\n",
			"internal/check/explain/A-1.md":   "# A-1\n\nThe manager runs.\n",
			"internal/check/explain/A-2.md":   "# A-2\n\nSomebody runs it.\n",
			"docs/explanation/whatever-it.md": "Somebody runs it.\n",
		}, []string{
			`internal/a/b.go:3 says "in vain", say "without success"`, `internal/a/b.go:3 says "whoever", name the actor`,
			`internal/a/c.go:2 says "takes the flag ` + `out of", say "remove from, exclude"`,
			`internal/check/explain/A-2.md:1 says "Somebody", name the actor`,
		}},
		{"texts for users are short", map[string]string{
			"internal/a/a.go": "package a\nvar s = \"" + strings.Repeat("word ", 25) + ": \" + \"" + strings.Repeat("word ", 25) + ".\"\n",
			"internal/a/b.go": "package a\nvar s = \"" + strings.Repeat("word ", 12) + "\" +\n\t\"" + strings.Repeat("word ", 14) + ", %s\"\n",
			"internal/a/c.go": "package a\nvar s = \"" + strings.Repeat("word ", 40) + "\"\n", "lab/a.go": "package a\nvar s = \"" + strings.Repeat("word ", 40) + ".\"\n",
		}, []string{"internal/a/b.go:2 has a sentence of 27 words: " + strings.Repeat("word ", 12)}},
		{"pages use plain words", map[string]string{
			"docs/explanation/a.md": "# A\n\nThe owner is `nobody`.\n```text\nnobody\n```\n| Somebody | looks |\n",
			"README.md":             "It is carried " + "out.\n", "deploy/rbac/a.yaml": "# for nobody\n", "CHANGELOG.md": "nobody\n", "lab/a.md": "nobody\n",
			"docs/contributing/words.md": "nobody\n",
			"deploy/rbac/b.yaml":         "kind: taken\nof: out of\n# The rule takes a host\n# " + "out of a plan.\n",
			"docs/explanation/b.md":      "# It takes `a`\nand is out of reach.\n\n1. An apply carries the steps\n   of the plan " + "out.\n2. It takes\n\nnone out of it.\n",
		}, []string{
			`README.md:1 says "carried ` + `out", say "execute"`, `deploy/rbac/a.yaml:1 says "nobody", name the actor`,
			`deploy/rbac/b.yaml:3 says "takes a host ` + `out of", say "remove from, exclude"`, `docs/explanation/a.md:7 says "Somebody", name the actor`,
			`docs/explanation/b.md:4 says "carries the steps of the plan ` + `out", say "execute"`,
		}},
		{"names use plain words", map[string]string{
			"internal/a/a.go": "package a\nfunc again() { isNextTo := nobody() }\ntype T struct{ Amended int }\n", "internal/a/a_test.go": "package a\nvar nobody int\n",
			"internal/b/b.go": "package b\nfunc lookAnew(somebody int) {}\ntype T struct{ BesideIt int }\nvar _ = func() { mended, x := 1, 2 }\n",
		}, []string{
			`internal/b/b.go:2 calls something "lookAnew": anew is no plain word (docs/contributing/words.md)`,
			`internal/b/b.go:2 calls something "somebody": somebody is no plain word (docs/contributing/words.md)`,
			`internal/b/b.go:3 calls something "BesideIt": beside is no plain word (docs/contributing/words.md)`,
			`internal/b/b.go:4 calls something "mended": mended is no plain word (docs/contributing/words.md)`,
		}},
		{"comments name the actor", map[string]string{
			"internal/a/a.go": "package a\n// The kubelet does it.\nvar s = \"nobody\"\n", "internal/a/a_test.go": "package a // for nobody\n",
			"internal/a/b.go": "package a\n// Nobody does it,\n// or someone.\nvar s int\n", "lab/a.go": "package a // for nobody\n",
		}, []string{`internal/a/b.go:2 says "Nobody", name the actor`, `internal/a/b.go:2 says "someone", name the actor`}},
		{"sentences are short", map[string]string{
			"internal/a/a.go": "package a\n// A" + strings.Repeat(" b", 24) + ", e.g. c.\n// D" + strings.Repeat(" b", 20) + ".\n//\n//\t" +
				strings.Repeat(" b", 30) + "\nvar s int\n",
			"internal/a/b.go":               "package a\n// It" + strings.Repeat(" b", 13) + "\n// does" + strings.Repeat(" b", 11) + " (https://x.y/z). C.\nvar s int\n",
			"internal/check/explain/A-1.md": "# A-1\n\nIt" + strings.Repeat(" is", 25) + ".\n", "lab/a.go": "package a\n// It" + strings.Repeat(" b", 30) + "\nvar s int\n",
		}, []string{
			"internal/a/a.go:2 has a sentence of 27 words: A" + strings.Repeat(" b", 24) + ", e.g c",
			"internal/a/b.go:2 has a sentence of 27 words: It" + strings.Repeat(" b", 13) + " does" + strings.Repeat(" b", 11) + " (htt",
			"internal/check/explain/A-1.md:1 has a sentence of 26 words: It" + strings.Repeat(" is", 19) + " ",
		}},
		{"sentences of documentation are short", map[string]string{
			"docs/a/good.md": "# A" + strings.Repeat(" b", 40) + "\n\nA" + strings.Repeat(" b", 29) + ".\nC" + strings.Repeat(" b", 20) + ":\n\n- d" +
				strings.Repeat(" b", 20) + "\n- e" + strings.Repeat(" b", 20) + "\n  1. f" + strings.Repeat(" b", 20) + "\n\n```\nA" + strings.Repeat(" b", 40) +
				"\n```\n| A" + strings.Repeat(" b", 40) + " |\n<!-- A" + strings.Repeat(" b", 40) + " -->\n",
			"docs/a/bad.md": "# A\n\n```\nx\n```\n\n- A.\n- It" + strings.Repeat(" b", 13) + "\n  does `b c`" + strings.Repeat(" b", 14) + ". C.\n",
			"README.md":     "A [b c](d)" + strings.Repeat(" b", 28) + ".\n", "lab/README.md": "A" + strings.Repeat(" b", 40) + ".\n",
		}, []string{
			"README.md:1 has a sentence of 31 words: A [b c](d)" + strings.Repeat(" b", 25),
			"docs/a/bad.md:8 has a sentence of 31 words: - It" + strings.Repeat(" b", 13) + " does `b c`" + strings.Repeat(" b", 9) + " ",
		}},
		{"links between pages lead somewhere", map[string]string{
			"README.md":   "[a](docs/a.md) [b](docs/a.md#what-it-does) [c](https://x.y/z#q) `d`[e](docs)\n",
			"docs/a.md":   "# What `it` does?\n\n[a](../README.md) [b](#what-it-does)\n```\n[c](none.md)\n```\n<a id=\"here\"></a> [d](#here)\n",
			"docs/bad.md": "[a](none.md)\n\n[b](a.md#why) [c](#why)\n",
		}, []string{
			"docs/bad.md:1 links to docs/none.md, which is not there", "docs/bad.md:3 links to #why, which docs/a.md does not have",
			"docs/bad.md:3 links to #why, which docs/bad.md does not have",
		}},
		{"the index names each page", map[string]string{
			"docs/README.md": "[a](how-to/a.md)\n", "docs/how-to/a.md": "# A\n", "docs/how-to/b.md": "# B\n", "README.md": "# R\n",
		}, []string{"docs/how-to/b.md is not in docs/README.md"}},
		{"findings are not taken apart", map[string]string{
			"internal/check/a/a.go":      "package a\nvar parts = strings.Split(f.Found, \"; \")\nvar name, _, _ = strings.Cut(strings.ToLower(bad[0].Object), \"@\")\n",
			"internal/check/a/b.go":      "package a\nvar ok = strings.Contains(bad.Objects()[0], \"x\") || strings.HasPrefix(d.Error, \"x\")\n",
			"internal/check/a/a_test.go": "package a\nvar parts = strings.Split(f.Found, \"; \")\n",
			"internal/cli/printer/a.go":  "package printer\nvar ok = strings.Fields(f.Summary)\n",
			"internal/snapshot/a.go":     "package snapshot\nvar ok = strings.Fields(line.Text)\n",
		}, []string{
			"internal/check/a/a.go:2 takes a finding's Found apart with strings.Split: keep the fact from which it was made",
			"internal/check/a/a.go:3 takes a finding's Object apart with strings.Cut: keep the fact from which it was made",
			"internal/check/a/b.go:2 takes a finding's Objects apart with strings.Contains: keep the fact from which it was made",
			"internal/cli/printer/a.go:2 takes a finding's Summary apart with strings.Fields: keep the fact from which it was made",
		}},
		{"no code is written twice", map[string]string{
			"internal/a/a.go":      "package a\nimport \"x\"\nfunc a() {\n" + numbered(8) + "}\nfunc b() {\n" + numbered(9) + "}\n",
			"internal/b/b.go":      "package b\nimport \"x\"\nfunc c() {\n" + strings.ReplaceAll(numbered(9), "\n", " // why\n\n\t{\n\t}\n") + "}\n",
			"internal/c/c.go":      "package c\nimport \"x\"\nfunc d() {\n" + strings.Replace(numbered(9), "5", "6", 1) + "}\n",
			"internal/b/b_test.go": "package b\nfunc a() {\n" + numbered(9) + "}\n", "lab/a.go": "package b\nfunc a() {\n" + numbered(9) + "}\n",
		}, []string{"internal/b/b.go:4 repeats 9 lines of internal/a/a.go:14, two places may share 8"}},
		{"providers are facts of the catalogue", map[string]string{
			"internal/plan/a.go":        "package plan\nvar ok = p.Name == cloudprovider.AWS\nfunc f() {\n\tswitch p {\n\tcase \"gce\", x:\n\t}\n}\n",
			"internal/plan/a_test.go":   "package plan\nvar ok = p.Name == cloudprovider.AWS\n",
			"internal/catalogue/b/b.go": "package b\nvar ok = p == AWS || p == \"aws\"\n",
			"internal/plan/b.go":        "package plan\nvar name = cloudprovider.AWS\nvar ok = kind == \"aws:\"\n",
			"provider/aws/a.go":         "package aws\nvar ok = name == \"aws\"\n",
			"lab/field/a.go":            "package field\nvar ok = name == \"aws\"\n",
			"ccm/proven/a.go":           "package proven\nvar all = map[string]bool{\"aws\": true}\nvar ok = \"openstack\" != p\n",
			"cmd/a/main.go":             "package main\nfunc f() {\n\tswitch p {\n\tcase \"vsphere\":\n\t}\n}\n",
		}, []string{
			"ccm/proven/a.go:3 asks for the provider openstack: make what it is asked for a fact of internal/catalogue/cloudprovider",
			"cmd/a/main.go:4 asks for the provider vsphere: make what it is asked for a fact of internal/catalogue/cloudprovider",
			"internal/plan/a.go:2 asks for the provider AWS: make what it is asked for a fact of internal/catalogue/cloudprovider",
			"internal/plan/a.go:5 asks for the provider gce: make what it is asked for a fact of internal/catalogue/cloudprovider",
		}},
		{"components are named in one place", map[string]string{
			"internal/component/a.go": "package component\nconst KCM = \"kube-controller-manager\"\n",
			"internal/a/a.go":         "package a\nvar a = []string{\"kubelet\", `kube-system`,\n\t\"etcd\", \"the kubelet\"} // \"kubelet\"\n",
			"internal/a/a_test.go":    "package a\nconst a = \"kubelet\"\n",
			"api/a.go":                "package a\nconst a = \"kubelet\"\n",
			"lab/a.go":                "package a\nconst a = \"kubelet\"\n",
		}, []string{
			`internal/a/a.go:2 holds the literal "kubelet": internal/component names it`,
			"internal/a/a.go:2 holds the literal `kube-system`: internal/component names it",
			`internal/a/a.go:3 holds the literal "etcd": internal/component names it`,
		}},
		{"what a command does knows no cobra", map[string]string{
			"internal/client/a.go":     "package client\nimport _ \"github.com/spf13/cobra\"\n",
			"internal/client/run/a.go": "package run\nimport _ \"" + modulePath + "/internal/cli/printer\"\n",
			"internal/cli/a.go":        "package cli\nimport _ \"github.com/spf13/cobra\"\n",
		}, []string{
			"internal/client imports github.com/spf13/cobra", "internal/client/run imports " + modulePath + "/internal/cli/printer",
		}},
		{"every package says what it decides", map[string]string{
			"internal/good/a.go": "package good\n", "internal/good/b.go": "// Package good decides.\npackage good\n",
			"internal/bad/a.go":      "// Something.\npackage bad\n",
			"internal/bad/a_test.go": "// Package bad is commented only in a test.\npackage bad\n",
			"cmd/good/main.go":       "// Command good runs.\npackage main\n",
			"cmd/bad/main.go":        "// Package main runs.\npackage main\n",
			"out/scratch/main.go":    "package main\n",
		}, []string{`cmd/bad: no comment that begins with "Command bad "`, `internal/bad: no comment that begins with "Package bad "`}},
		{"the page of packages names each", map[string]string{
			packagesPage: "| `internal/a` |\n| `internal/b/c` |\n", "internal/a/a.go": "", "internal/a/below/a.go": "", "internal/b/c/c.go": "",
			"internal/b/d/d.go": "", "internal/e/e.go": "", "internal/e/f/f_test.go": "",
		}, []string{"internal/b/d is not named in docs/contributing/packages.md", "internal/e is not named in docs/contributing/packages.md"}},
		{"packages are named after what they hold", map[string]string{
			"internal/util/a.go": "package util\n", "internal/lease/a.go": "package lease\n",
		}, []string{"internal/util/a.go: package util says nothing about what it holds"}},
		{"files stay short", map[string]string{
			"a.go": strings.Repeat("\n", 600), "b.go": strings.Repeat("\n", 601), "data.json": strings.Repeat("\n", 9000),
			"cmd/a/main.go": strings.Repeat("\n", 60), "cmd/b/main.go": strings.Repeat("\n", 61),
			"a_test.go": strings.Repeat("\n", 750), "b_test.go": strings.Repeat("\n", 751),
		}, []string{"b.go has 601 lines, a file may have 600", "b_test.go has 751 lines, a test's file may have 750", "cmd/b/main.go has 61 lines, a main.go may have 60"}},
		{"files name no machine's paths", map[string]string{
			"a.go":       "package a\nconst dir = \"" + "/ho" + "me/somebody/src\"\n",
			"b.sh":       "cd " + "/wo" + "rk/main\n",
			"c.md":       "A homework/work/notes file, /etc/kubernetes/pki /tmp/transplant-lab and " + "/ro" + "ot/ are nobody's.\n",
			"d.yaml":     "kubeconfig: " + "/ro" + "ot/.kube/config\n",
			"image.png":  "\x00 " + "/ro" + "ot/x\n",
			".git/index": "/ro" + "ot/x\n",
		}, []string{"a.go:2 names a path of one machine: /ho" + "me/somebody/", "b.sh:1 names a path of one machine: /wo" + "rk/",
			"d.yaml:1 names a path of one machine: /ro" + "ot/."}},
		{"files hold no unfinished business", map[string]string{
			"a.go": "// TO" + "DO: later\nvar ctx = context.TO" + "DO()\n", "b.md": "FIX" + "ME\n",
		}, []string{"a.go:1 leaves something undone: TO" + "DO", "b.md:1 leaves something undone: FIX" + "ME"}},
		{"the product can be installed with go", map[string]string{
			"go.mod": "module m\n\n// replace nothing\nreplace a => b\nexclude c v1.0.0\n", "lab/go.mod": "replace a => ../\n",
		}, []string{"go.mod:4 cannot be installed with this directive: replace", "go.mod:5 cannot be installed with this directive: exclude"}},
		{"what decides knows no client", map[string]string{
			"internal/check/a.go":      "package check\nimport \"" + modulePath + "/internal/facts\"\n",
			"internal/facts/a.go":      "package facts\nimport _ \"k8s.io/client-go/kubernetes\"\n",
			"internal/plan/a.go":       "package plan\nimport _ \"k8s.io/client-gopher\"\n",
			"internal/plan/a_test.go":  "package plan\nimport _ \"k8s.io/client-go/kubernetes\"\n",
			"internal/snapshot/get.go": "package snapshot\nimport _ \"k8s.io/client-go/kubernetes\"\n",
		}, []string{"internal/check -> internal/facts imports k8s.io/client-go/kubernetes"}},
		{"the product does not know the lab", map[string]string{
			"internal/a/a.go": "package a\nimport _ \"" + modulePath + "/lab/edge\"\n",
			"lab/b/b.go":      "package b\nimport _ \"" + modulePath + "/lab/edge\"\n",
			"internal/c/c.go": "package c\nimport _ \"" + modulePath + "/labour\"\n",
		}, []string{"internal/a imports " + modulePath + "/lab/edge"}},
		{"a cluster's kubeconfig has one reader", map[string]string{
			"internal/kubeconfig/a.go":            clientcmdFile("clientcmd", "clientcmd.Load(data)"),
			"internal/snapshot/host/authority.go": clientcmdFile("clientcmd", "clientcmd.Load(data)"),
			"internal/snapshot/write.go":          clientcmdFile("clientcmd", "clientcmd.Write(config)"),
			"internal/other/load.go":              clientcmdFile("clientcmd", "clientcmd.Load(data)"),
			"internal/other/rest.go":              clientcmdFile("clientcmd", "clientcmd.RESTConfigFromKubeConfig(data)"),
			"internal/other/renamed.go":           clientcmdFile("cc", "cc.NewClientConfigFromBytes(data)"),
			"internal/other/value.go":             clientcmdFile("clientcmd", "func() any { f := clientcmd.NewDefaultClientConfig; return f }()"),
			"internal/other/dot.go":               clientcmdFile(".", "Load(data)"),
			"internal/other/a_test.go":            clientcmdFile("clientcmd", "clientcmd.Load(data)"),
			"lab/pki/a.go":                        clientcmdFile("clientcmd", "clientcmd.Load(data)"),
			"internal/client/client.go":           clientcmdFile("clientcmd", "clientcmd.NewDefaultClientConfigLoadingRules()"),
			"internal/cli/seed/connect.go":        clientcmdFile("clientcmd", "clientcmd.RESTConfigFromKubeConfig(data)"),
			"internal/other/codec.go":             "package other\nimport _ \"k8s.io/client-go/tools/clientcmd/api/latest\"\n",
			"internal/other/plugins.go":           "package other\nimport _ \"k8s.io/client-go/plugin/pkg/client/auth/oidc\"\n",
			"internal/other/exec.go":              "package other\nvar c = rest.Config{ExecProvider: p, Host: h}\nfunc f() { c.BearerTokenFile = name }\n",
		}, []string{
			"internal/cli/seed/connect.go:3 uses clientcmd.RESTConfigFromKubeConfig: read a cluster's kubeconfig with internal/kubeconfig",
			"internal/other/codec.go:2 imports k8s.io/client-go/tools/clientcmd/api/latest: read a cluster's kubeconfig with internal/kubeconfig",
			"internal/other/dot.go:2 imports k8s.io/client-go/tools/clientcmd without a name: read a cluster's kubeconfig with internal/kubeconfig",
			"internal/other/exec.go:2 sets ExecProvider: read a cluster's kubeconfig with internal/kubeconfig",
			"internal/other/exec.go:3 sets BearerTokenFile: read a cluster's kubeconfig with internal/kubeconfig",
			"internal/other/load.go:3 uses clientcmd.Load: read a cluster's kubeconfig with internal/kubeconfig",
			"internal/other/plugins.go:2 imports k8s.io/client-go/plugin/pkg/client/auth/oidc: read a cluster's kubeconfig with internal/kubeconfig",
			"internal/other/renamed.go:3 uses clientcmd.NewClientConfigFromBytes: read a cluster's kubeconfig with internal/kubeconfig",
			"internal/other/rest.go:3 uses clientcmd.RESTConfigFromKubeConfig: read a cluster's kubeconfig with internal/kubeconfig",
			"internal/other/value.go:3 uses clientcmd.NewDefaultClientConfig: read a cluster's kubeconfig with internal/kubeconfig",
		}},
		{"blockers have codes", map[string]string{
			"api/transplant/v1alpha1/a.go": "package v1alpha1\nconst (\n\tBlockerGood BlockerCode = \"Good\"\n\tBlockerRead BlockerCode = \"Read\"\n\tOther = \"Other\"\n)\n",
			"internal/good/a.go":           "package good\nvar b = v1.Blocker{Code: v1.BlockerGood}\nvar l = []v1.Blocker{{Code: code}, b}\nvar m = map[string]*v1.Blocker{\"a\": {Code: code}}\nvar f = v1.Finding{Level: level}\n",
			"internal/bad/a.go": "package bad\nvar b = v1.Blocker{Level: level}\nvar l = []v1.Blocker{\n\t{Code: code},\n\t{},\n}\n" +
				"var p = []*v1.Blocker{{}}\nvar m = map[string]v1.Blocker{\"a\": {}}\nvar q = map[string]*v1.Blocker{\"a\": {}}\n" +
				"var n = map[string][]v1.Blocker{\"a\": {{Code: code}, {}}}\nvar o = &v1.Blocker{}\nvar z = new(v1.Blocker)\n",
			"internal/bad/a_test.go":         "package bad\nvar b = v1.Blocker{}\n",
			"internal/cli/printer/series.go": "package printer\nvar reads = v1.BlockerRead\n",
		}, []string{
			"internal/bad/a.go:10 makes a blocker without a code", "internal/bad/a.go:11 makes a blocker without a code",
			"internal/bad/a.go:12 makes a blocker without a code", "internal/bad/a.go:2 makes a blocker without a code",
			"internal/bad/a.go:5 makes a blocker without a code", "internal/bad/a.go:7 makes a blocker without a code",
			"internal/bad/a.go:8 makes a blocker without a code", "internal/bad/a.go:9 makes a blocker without a code",
			"no blocker is made with the code BlockerRead",
		}},
	} {
		t.Run(c.rule, func(t *testing.T) {
			tried[c.rule] = true
			tree := fstest.MapFS{}
			for name, content := range c.tree {
				tree[name] = &fstest.MapFile{Data: []byte(content)}
			}
			got, err := rules[c.rule](tree)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(c.want, got); diff != "" {
				t.Errorf("what breaks the rule (-want +got):\n%s", diff)
			}
		})
	}
	for sentence := range rules {
		if !tried[sentence] {
			t.Errorf("no tree that breaks the rule %q", sentence)
		}
	}
}

// manyFiles are packages of so many files, with tests that do not count.
func manyFiles(packages map[string]int) map[string]string {
	tree := map[string]string{}
	for dir, count := range packages {
		for i := range count {
			tree[fmt.Sprintf("%s/f%d.go", dir, i)] = "package p\n"
			tree[fmt.Sprintf("%s/f%d_test.go", dir, i)] = "package p\n"
		}
	}
	return tree
}

// methods are so many methods of a type.
func methods(of string, count int) string {
	var b strings.Builder
	for i := range count {
		fmt.Fprintf(&b, "func (t %s) m%d() {}\n", of, i)
	}
	return b.String()
}

// clientcmdFile is a file that imports client-go's reader of kubeconfigs by a name, and does something with it.
func clientcmdFile(name, does string) string {
	return "package p\nimport " + name + " \"" + clientcmdPath + "\"\nvar _ = " + does + "\n"
}

// numbered are so many lines, none like another.
func numbered(count int) string {
	var b strings.Builder
	for i := range count {
		fmt.Fprintf(&b, "x.F(%d)\n", i)
	}
	return b.String()
}

// wide is a line of n times the same.
func wide(s string, n int) string { return strings.Repeat(s, n) + "\n" }
