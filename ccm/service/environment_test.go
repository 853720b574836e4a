package service

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

func TestFingerprintsCoverACloudConfigWithoutItsSecrets(t *testing.T) {
	const password = "correct horse battery"
	for name, config := range map[string]string{
		"of OpenStack":                  "[Global]\nauth-url=https://keystone\nusername=ccm\npassword=" + password + "\nregion=REGION\n",
		"with quotes":                   "[Global]\npassword = \"" + password + "\"\nregion=REGION\n",
		"with a value over two lines":   "[Global]\npassword = a\\\n  " + password + "\nregion=REGION\n",
		"with what looks like a switch": "[Global]\npassword = 7 " + password + "\nregion=REGION\n",
		"with an old one in a comment":  "[Global]\n# password = " + password + "\nregion=REGION\n",
		"of vSphere":                    "global:\n  user: ccm\n  password: " + password + "\nvcenter:\n  a:\n    datacenters: [REGION]\n",
		"of Azure":                      `{"aadClientId": "ccm", "aadClientSecret": "` + password + `", "location": "REGION"}`,
		"of Azure, with tabs":           "{\n\t\"aadClientSecret\": \"" + password + "\",\n\t\"location\": \"REGION\"\n}\n",
		"with a secret key":             "[Global]\napi-key = ccm\nsecret-key = " + password + "\nzone = REGION\n",
		"of another kind":               "client_secret: " + password + "\nregion: REGION\nnot: yaml: at all\n",
	} {
		t.Run(name, func(t *testing.T) {
			is := withoutSecrets(config)
			for _, word := range strings.Fields(password) {
				if strings.Contains(is, word) {
					t.Errorf("%q is covered:\n%s", word, is)
				}
			}
			if rotated := withoutSecrets(strings.ReplaceAll(config, password, "a new one")); rotated != is {
				t.Errorf("a rotated password changes it (-before +after):\n%s", cmp.Diff(is, rotated))
			}
			if moved := withoutSecrets(strings.ReplaceAll(config, "REGION", "another")); moved == is {
				t.Errorf("another region does not change it:\n%s", is)
			}
		})
	}
	for _, config := range []string{"", "[Global]\nZone=b", "[Global]\nuse-token-auth=true\nsecret-name=a/b", "a: [b, c]\nd: true\n", "[Networking]\npublic-network-name = public\n"} {
		if got := withoutSecrets(config); got != config {
			t.Errorf("without a secret it changes (-before +after):\n%s", cmp.Diff(config, got))
		}
	}
}

func TestARotatedPasswordEnsuresNothingAndAnotherRegionEverything(t *testing.T) {
	for name, c := range map[string]struct {
		environment string
		want        []string
	}{
		"a rotated password": {"[Global]\npassword=two\nregion=a\n", nil},
		"another region":     {"[Global]\npassword=one\nregion=b\n", []string{"ensure s0 [n1 n2]", "ensure s1 [n1 n2]", "ensure s2 [n1 n2]"}},
	} {
		t.Run(name, func(t *testing.T) {
			inWorld(t, func(w *world) {
				w.environment = "[Global]\npassword=one\nregion=a\n"
				led(w).leave()
				w.took()
				w.environment = c.environment
				w.start()
				w.settle(20 * time.Second)
				if diff := cmp.Diff(c.want, w.took().Calls, inAnyOrder); diff != "" {
					t.Errorf("calls (-want +got):\n%s", diff)
				}
			})
		})
	}
}
