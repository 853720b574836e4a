package controlplane_test

import (
	"strings"
	"testing"

	"github.com/transplant-dev/transplant/internal/controlplane/kubeletfile"
)

const addedProvider = `apiVersion: kubelet.config.k8s.io/v1
kind: CredentialProviderConfig
providers:
- apiVersion: credentialprovider.kubelet.k8s.io/v1
  defaultCacheDuration: 12h
  matchImages:
  - '*.dkr.ecr.*.amazonaws.com'
  - "123.example"
  name: ecr-credential-provider
`

// inBlocks is the provider of addedProvider as it is added to a list with dashes.
const inBlocks = `- apiVersion: credentialprovider.kubelet.k8s.io/v1
  defaultCacheDuration: 12h
  matchImages:
    - '*.dkr.ecr.*.amazonaws.com'
    - 123.example
  name: ecr-credential-provider
`

const inFlow = `{"apiVersion":"credentialprovider.kubelet.k8s.io/v1","defaultCacheDuration":"12h","matchImages":["*.dkr.ecr.*.amazonaws.com","123.example"],"name":"ecr-credential-provider"}`

func indented(text, by string) string {
	return by + strings.ReplaceAll(strings.TrimSuffix(text, "\n"), "\n", "\n"+by) + "\n"
}

const head = "apiVersion: kubelet.config.k8s.io/v1beta1\nkind: CredentialProviderConfig\n"

func TestAnImageCredentialProviderIsAddedAndEveryOtherByteStays(t *testing.T) {
	one := "# managed by hand\n" + head + "providers:   # in this order\n" +
		"- name: own   # of the company\n  matchImages: [ \"*.corp.example\" ]\n  defaultCacheDuration: 0s\n" +
		"  apiVersion: credentialprovider.kubelet.k8s.io/v1\n  env:\n  - {name: TOKEN, value: 'x y'}\n"
	deep := head + "providers:\n    -   name: own\n        matchImages:\n          - a.example\n\n    # the second\n    - name: second\n" +
		"      matchImages: [b.example]\n      args:\n        - --from=here   # and there\n"
	flow := `{"apiVersion": "kubelet.config.k8s.io/v1", "kind": "CredentialProviderConfig", "providers": [` + "\n" +
		`  {"name": "own", "matchImages": ["a.example"]}` + "\n]}\n"
	for name, c := range map[string]struct{ before, want string }{
		"comments and styles":             {one, one + inBlocks},
		"deeper dashes":                   {deep, deep + indented(inBlocks, "    ")},
		"comments after the last":         {one + "# the end\n", one + inBlocks + "# the end\n"},
		"keys after the list":             {"providers:\n- name: own\n" + head, "providers:\n- name: own\n" + inBlocks + head},
		"no line break at the end":        {head + "providers:\n- name: own", head + "providers:\n- name: own\n" + strings.TrimSuffix(inBlocks, "\n")},
		"line breaks of another system":   {crlf(one), crlf(one + inBlocks)},
		"a document mark":                 {"---\n" + one, "---\n" + one + inBlocks},
		"JSON":                            {flow, strings.Replace(flow, `["a.example"]}`, `["a.example"]}, `+inFlow, 1)},
		"a list in brackets":              {head + "providers: [{name: own}]\n", head + "providers: [{name: own}, " + inFlow + "]\n"},
		"it has been added already":       {addedProvider, addedProvider},
		"it has been added in other ways": {head + "providers: [" + inFlow + "]\n", head + "providers: [" + inFlow + "]\n"},
	} {
		got, err := kubeletfile.AddCredentialProvider([]byte(c.before), []byte(addedProvider))
		if err != nil || string(got) != c.want {
			t.Errorf("%s: %v\n%s\nwant:\n%s", name, err, got, c.want)
			continue
		}
		again, err := kubeletfile.AddCredentialProvider(got, []byte(addedProvider))
		if err != nil || string(again) != c.want {
			t.Errorf("%s, a second time: %v\n%s", name, err, again)
		}
	}
}

func crlf(text string) string { return strings.ReplaceAll(text, "\n", "\r\n") }

func TestAnImageCredentialProviderIsNotAddedWhereItIsNotClearHow(t *testing.T) {
	const secret = "planted-secret"
	for name, c := range map[string]struct{ before, want string }{
		"another of that name": {
			head + "providers:\n- name: ecr-credential-provider\n  matchImages: [a.example]\n  args: [" + secret + "]\n",
			"another provider with the name ecr-credential-provider, which differs in apiVersion, args, defaultCacheDuration, matchImages",
		},
		"the same with an argument more": {
			addedProvider + "  args: [--x=" + secret + "]\n", "which differs in args, and names are unique",
		},
		"another kind":              {"apiVersion: v1\nkind: Pod\nproviders: [{name: x}]\n", "it is no CredentialProviderConfig"},
		"another group":             {"apiVersion: v1\nkind: CredentialProviderConfig\nproviders: [{name: x}]\n", "it is no CredentialProviderConfig"},
		"no providers":              {head, "it names no providers"},
		"an empty list":             {head + "providers: []\n", "it names no providers"},
		"a provider without a name": {head + "providers: [{name: a}, {args: [" + secret + "]}]\n", "its provider number 2 has no name"},
		"no YAML":                   {head + "providers: [\n" + secret, "it cannot be read as YAML"},
		"nothing":                   {"", "it is no CredentialProviderConfig"},
		"a list that stands elsewhere": {
			head + "x: &all [{name: own, args: [" + secret + "]}]\nproviders: *all\n", "add the provider to it by hand",
		},
		"a block of text at its end": {
			head + "providers:\n- name: own\n  args:\n  - |\n    " + secret + "\n", "add the provider to it by hand",
		},
		"two documents": {addedProviderOf("own") + "---\n" + addedProvider, "add the provider to it by hand"},
		"aliases without end": {
			"x: &x [*x]\n" + head + "providers: [{name: own}]\n", "",
		},
	} {
		got, err := kubeletfile.AddCredentialProvider([]byte(c.before), []byte(addedProvider))
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v\n%s", name, err, got)
			continue
		}
		if strings.Contains(err.Error(), secret) {
			t.Errorf("%s: the error repeats a value: %v", name, err)
		}
	}
	for name, add := range map[string]string{
		"two providers": addedProvider + "- name: other\n", "none": head, "no config": "kind: Pod\n",
	} {
		if _, err := kubeletfile.AddCredentialProvider([]byte(addedProviderOf("own")), []byte(add)); err == nil ||
			!strings.Contains(err.Error(), "with one provider") {
			t.Errorf("adding %s: %v", name, err)
		}
	}
}

func addedProviderOf(name string) string {
	return strings.ReplaceAll(addedProvider, "ecr-credential-provider", name)
}
