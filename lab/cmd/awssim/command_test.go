package main

import (
	"bytes"
	"context"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// announced hands over the program's first line, which names its address.
type announced struct{ lines chan string }

func (a announced) Write(text []byte) (int, error) {
	a.lines <- string(text)
	return len(text), nil
}

func TestTheProgramServesTheConfiguredAccountUntilItIsStopped(t *testing.T) {
	dir := t.TempDir()
	config, audit := filepath.Join(dir, "account.yaml"), filepath.Join(dir, "calls.jsonl")
	if err := os.WriteFile(
		config,
		[]byte("instances:\n- privateIP: 10.0.0.11\nkeys:\n  AKIALABCLI: read-only\nauditFile: overridden.jsonl\n"),
		0o600,
	); err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	out := announced{make(chan string, 1)}
	cmd := newCommand()
	cmd.SetArgs([]string{"--listen", "127.0.0.1:0", "--config", config, "--audit", audit})
	cmd.SetOut(out)
	ended := make(chan error, 1)
	go func() { ended <- cmd.ExecuteContext(ctx) }()
	var line string
	select {
	case line = <-out.lines:
	case err := <-ended:
		t.Fatalf("ended early: %v", err)
	}
	address := regexp.MustCompile(`http://127\.0\.0\.1:\d+`).FindString(line)
	if address == "" {
		t.Fatalf("announced %q", line)
	}
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	for _, c := range []struct{ method, path, body, says string }{
		{http.MethodPost, "/", "Action=DescribeInstances&Version=2016-11-15", "ip-10-0-0-11.ec2.internal"},
		{http.MethodPost, "/", "Action=DeleteSecurityGroup&Version=2016-11-15&GroupId=sg-nodes", "UnauthorizedOperation"},
		{http.MethodGet, "/_sim/state", "", "rtb-lab"},
		{http.MethodGet, "/_sim/audit", "", "DescribeInstances"},
	} {
		r, err := http.NewRequestWithContext(t.Context(), c.method, address+c.path, strings.NewReader(c.body))
		if err != nil {
			t.Fatal(err)
		}
		r.Header.Set("Authorization", "AWS4-HMAC-SHA256 Credential=AKIALABCLI/20261121/us-east-1/ec2/aws4_request")
		answer, err := client.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		text, err := io.ReadAll(answer.Body)
		answer.Body.Close()
		if err != nil || !strings.Contains(string(text), c.says) {
			t.Errorf("%s %s %s: %q (%v), want %q in it", c.method, c.path, c.body, text, err, c.says)
		}
	}
	stop()
	if err := <-ended; err != nil {
		t.Errorf("stopping: %v", err)
	}
	log, err := os.ReadFile(audit)
	if err != nil || strings.Count(string(log), "\n") != 2 {
		t.Errorf("the audit log is %q (%v), want two lines", log, err)
	}
}

func TestTheProgramSaysWhatIsWrongWithItsFlags(t *testing.T) {
	dir := t.TempDir()
	bad, wrong := filepath.Join(dir, "bad.yaml"), filepath.Join(dir, "wrong.yaml")
	for file, text := range map[string]string{bad: "instance:\n- privateIP: 10.0.0.11\n", wrong: "vpcCIDR: everything\n"} {
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for name, c := range map[string]struct {
		args []string
		says string
	}{
		"an address for everybody":     {[]string{"--listen", "0.0.0.0:0"}, "is not a loopback address"},
		"a name for an address":        {[]string{"--listen", "localhost:0"}, "is not a loopback address"},
		"no port":                      {[]string{"--listen", "127.0.0.1"}, "missing port"},
		"a port that cannot be":        {[]string{"--listen", "127.0.0.1:99999"}, "listening on 127.0.0.1:99999"},
		"a config that is not there":   {[]string{"--config", filepath.Join(dir, "none")}, "reading the account"},
		"an unknown field":             {[]string{"--config", bad}, `unknown field "instance"`},
		"an account that cannot be":    {[]string{"--listen", "127.0.0.1:0", "--config", wrong}, `vpcCIDR "everything"`},
		"an argument":                  {[]string{"account.yaml"}, "unknown command"},
		"an audit log in no directory": {[]string{"--listen", "127.0.0.1:0", "--audit", filepath.Join(dir, "none", "calls")}, "opening the audit log"},
	} {
		t.Run(name, func(t *testing.T) {
			cmd := newCommand()
			cmd.SetArgs(c.args)
			cmd.SetOut(io.Discard)
			if err := cmd.ExecuteContext(t.Context()); err == nil || !strings.Contains(err.Error(), c.says) {
				t.Errorf("the error is %v, want it to say %q", err, c.says)
			}
		})
	}
}

func TestHelpHasAnExample(t *testing.T) {
	var out bytes.Buffer
	cmd := newCommand()
	cmd.SetArgs([]string{"--help"})
	cmd.SetOut(&out)
	if err := cmd.Execute(); err != nil {
		t.Fatal(err)
	}
	for _, part := range []string{"--listen", "--config", "--audit", "aws ec2 describe-instances", "/_sim/faults"} {
		if !strings.Contains(out.String(), part) {
			t.Errorf("the help lacks %q:\n%s", part, out.String())
		}
	}
}
