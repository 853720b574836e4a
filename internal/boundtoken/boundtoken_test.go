package boundtoken

import (
	"encoding/base64"
	"errors"
	"strings"
	"testing"
	"time"
)

func token(payload string) string {
	return "e30." + base64.RawURLEncoding.EncodeToString([]byte(payload)) + ".c2lnbmF0dXJl"
}

func TestReadSaysWhoseATokenIsAndWhenItEnds(t *testing.T) {
	c, err := Read(
		token(`{"sub":"system:serviceaccount:kube-system:cloud-controller-manager","iat":1000,"exp":4000,"kubernetes.io":{"serviceaccount":{"uid":"u-1"}}}`) + "\n",
	)
	want := Claims{Namespace: "kube-system", Account: "cloud-controller-manager", UID: "u-1", Issued: time.Unix(1000, 0).UTC(), Expires: time.Unix(4000, 0).UTC()}
	if err != nil || c != want {
		t.Fatalf("claims %+v, error %v; want %+v", c, err, want)
	}
	if c.IsDue(time.Unix(1999, 0)) || !c.IsDue(time.Unix(2001, 0)) {
		t.Error("a token of 3000 s is due after 1000 s")
	}
}

func TestReadRefusesWhatIsNoBoundToken(t *testing.T) {
	for name, text := range map[string]string{
		"empty": "", "a word": "s3cret-word", "two dots": "a.s3cret.c", "not JSON": token("s3cret"), "another subject": token(`{"sub":"s3cret","exp":1}`), "no name": token(
			`{"sub":"system:serviceaccount:s3cret","exp":1}`,
		),
	} {
		_, err := Read(text)
		if err == nil || errors.Is(err, ErrEndless) {
			t.Errorf("%s: error %v", name, err)
		} else if strings.Contains(err.Error(), "s3cret") {
			t.Errorf("%s: the error quotes the content: %v", name, err)
		}
	}
	c, err := Read(token(`{"sub":"system:serviceaccount:kube-system:x","kubernetes.io":{}}`))
	if !errors.Is(err, ErrEndless) || c.Account != "x" {
		t.Errorf("a token without an end: %+v, %v", c, err)
	}
}
