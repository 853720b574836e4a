// Package stage decides what a trial of the product on real hosts is: a kubeadm cluster with something to lose, the
// command line as an operator would use it, through the Kubernetes API alone, and a recorder of its own that looks at
// the hosts from outside, which a migration under test cannot influence.
package stage

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/utils/ptr"

	"github.com/transplant-dev/transplant/internal/ownership"
	"github.com/transplant-dev/transplant/lab/awssim"
	"github.com/transplant-dev/transplant/lab/cluster"
	"github.com/transplant-dev/transplant/lab/hosts"
	"github.com/transplant-dev/transplant/lab/trial"
)

// Stage is a cluster of real hosts under an operator's hands.
type Stage struct {
	*hosts.Cluster
	Client kubernetes.Interface
	dir    string
	token  string
}

// credentials is where an operator puts the cloud-controller-manager's, on each control-plane host, before a migration.
const credentials = "/etc/kubernetes/cloud-controller-manager.credentials"

// observer is the account with which the stage itself reads the managers' metrics.
const observer = "lab-observer"

// Open takes a cluster that runs; dir is where the trial keeps its files.
func Open(ctx context.Context, c *hosts.Cluster, dir string) (*Stage, error) {
	client, err := c.Client()
	if err != nil {
		return nil, err
	}
	s := &Stage{Cluster: c, Client: client, dir: dir}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return nil, fmt.Errorf("making the directory of the trial: %w", err)
	}
	if err := s.observe(ctx); err != nil {
		return nil, err
	}
	return s, s.prepare(ctx)
}

// prepare puts the new manager's credentials on the hosts, and says whose they are.
func (s *Stage) prepare(ctx context.Context) error {
	keys := map[string]string{}
	for _, h := range s.controlPlanes() {
		key := hosts.AccessKey(h.Name, cluster.CloudControllerManager)
		keys[key] = cluster.CloudControllerManager + "@" + h.NodeName
		keys[hosts.AccessKey(h.Name, cluster.ControllerManager)] = cluster.ControllerManager + "@" + h.NodeName
		text := fmt.Sprintf("[default]\naws_access_key_id = %s\naws_secret_access_key = lab-only\n", key)
		if err := h.WriteFile(ctx, credentials, text, 0o600); err != nil {
			return err
		}
	}
	data, err := json.MarshalIndent(keys, "", "  ")
	if err != nil {
		return err
	}
	return os.WriteFile(s.KeysFile(), append(data, '\n'), 0o644)
}

// observe makes an account that may read metrics and nothing else, and takes a token of it that lasts as long as the
// trial.
func (s *Stage) observe(ctx context.Context) error {
	made := func(_ any, err error) error {
		if apierrors.IsAlreadyExists(err) {
			return nil
		}
		return err
	}
	meta := metav1.ObjectMeta{Name: observer}
	err := errors.Join(
		made(
			s.Client.CoreV1().
				ServiceAccounts(metav1.NamespaceSystem).
				Create(ctx, &corev1.ServiceAccount{ObjectMeta: meta}, metav1.CreateOptions{}),
		),
		made(s.Client.RbacV1().ClusterRoles().Create(ctx, &rbacv1.ClusterRole{ObjectMeta: meta, Rules: []rbacv1.PolicyRule{
			{NonResourceURLs: []string{"/metrics"}, Verbs: []string{"get"}},
		}}, metav1.CreateOptions{})),
		made(s.Client.RbacV1().ClusterRoleBindings().Create(ctx, &rbacv1.ClusterRoleBinding{
			ObjectMeta: meta, RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: observer},
			Subjects: []rbacv1.Subject{{Kind: "ServiceAccount", Name: observer, Namespace: metav1.NamespaceSystem}},
		}, metav1.CreateOptions{})),
	)
	if err != nil {
		return fmt.Errorf("making the account that reads metrics: %w", err)
	}
	t, err := s.Client.CoreV1().ServiceAccounts(metav1.NamespaceSystem).CreateToken(ctx, observer,
		&authenticationv1.TokenRequest{
			Spec: authenticationv1.TokenRequestSpec{ExpirationSeconds: ptr.To[int64](6 * 3600)},
		}, metav1.CreateOptions{})
	if err != nil {
		return fmt.Errorf("asking for a token of the account that reads metrics: %w", err)
	}
	s.token = t.Status.Token
	return nil
}

func (s *Stage) controlPlanes() []*hosts.Host {
	return slices.DeleteFunc(slices.Clone(s.Hosts()), func(h *hosts.Host) bool { return !h.ControlPlane })
}

// KeysFile says which manager has which access key, as transplant report --cloud-keys wants it.
func (s *Stage) KeysFile() string { return filepath.Join(s.dir, "keys.json") }

// StateDir is where the command keeps its logs.
func (s *Stage) StateDir() string { return filepath.Join(s.dir, "state") }

// Keys says which manager has which access key.
func (s *Stage) Keys() map[string]ownership.Owner {
	out := map[string]ownership.Owner{}
	for _, h := range s.controlPlanes() {
		for _, component := range []string{cluster.CloudControllerManager, cluster.ControllerManager} {
			out[hosts.AccessKey(h.Name, component)] = ownership.Owner{Component: component, Host: h.NodeName}
		}
	}
	return out
}

// Cloud is what --cloud takes for a stage.
const Cloud = "aws:cluster=" + hosts.ClusterName

// MigrationFlags are the flags of check, plan and apply for a stage: how the new manager gets at its cloud, and how
// many megabytes it may not leave the machine with.
func (s *Stage) MigrationFlags() []string {
	return []string{
		"--ccm-env", "AWS_SHARED_CREDENTIALS_FILE=" + credentials,
		"--ccm-env", "HTTPS_PROXY=http://127.0.0.1:9",
		"--ccm-env", "NO_PROXY=127.0.0.0/8,10.0.0.0/8,169.254.169.254",
	}
}

// Command is the product's command line, with what it needs to reach this cluster, not started. Hosts are reached as
// the product does by default.
func (s *Stage) Command(args ...string) *exec.Cmd {
	cmd := exec.Command(s.CLI(), append(args, "--kubeconfig", s.Kubeconfig(), "--state-dir", s.StateDir())...)
	cmd.Env = append(
		os.Environ(),
		"AWS_ACCESS_KEY_ID="+cluster.KeyCLI,
		"AWS_SECRET_ACCESS_KEY=lab-only",
		"AWS_REGION="+hosts.Region,
		"AWS_ENDPOINT_URL="+s.CloudEndpoint(),
		"AWS_EC2_METADATA_DISABLED=true",
		"HTTPS_PROXY=http://127.0.0.1:9",
		"NO_PROXY=127.0.0.0/8,10.0.0.0/8",
	)
	return cmd
}

// Run runs a command as an operator would. narration gets standard error as it comes; nil for nowhere.
func (s *Stage) Run(ctx context.Context, narration io.Writer, args ...string) (trial.Result, error) {
	cmd := s.Command(args...)
	var out, errOut bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errOut
	if narration != nil {
		cmd.Stderr = io.MultiWriter(&errOut, narration)
	}
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if err := cmd.Start(); err != nil {
		return trial.Result{}, fmt.Errorf("running transplant %s: %w", args[0], err)
	}
	stop := context.AfterFunc(ctx, func() { _ = cmd.Process.Signal(os.Interrupt) })
	defer stop()
	err := cmd.Wait()
	r := trial.Result{Stdout: out.String(), Stderr: errOut.String()}
	var exit *exec.ExitError
	switch {
	case errors.As(err, &exit):
		r.Code = exit.ExitCode()
	case err != nil:
		return r, fmt.Errorf("running transplant %s: %w", args[0], err)
	}
	return r, nil
}

// State is what the simulated cloud holds, as JSON that two equal clouds share byte for byte.
func (s *Stage) State(ctx context.Context) (string, error) {
	data, err := s.admin(ctx, "state")
	if err != nil {
		return "", err
	}
	var out bytes.Buffer
	err = json.Indent(&out, data, "", " ")
	return out.String(), err
}

// terminate ends the instance of a host in the simulated cloud. The host itself is left as it is.
func (s *Stage) terminate(ctx context.Context, h *hosts.Host) error {
	_, err := s.control(ctx, http.MethodPut, "instances/"+h.InstanceID+"/state", `{"state":"terminated"}`)
	return err
}

// admin asks the controls of the simulated cloud.
func (s *Stage) admin(ctx context.Context, what string) ([]byte, error) {
	return s.control(ctx, http.MethodGet, what, "")
}

func (s *Stage) control(ctx context.Context, method, what, body string) ([]byte, error) {
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	url := s.AdminEndpoint() + awssim.AdminPath + what
	req, err := http.NewRequestWithContext(ctx, method, url, strings.NewReader(body))
	if err != nil {
		return nil, err
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return nil, fmt.Errorf("asking the simulated cloud: %w", err)
	}
	defer resp.Body.Close() //nolint:errcheck // it was read
	data, err := io.ReadAll(resp.Body)
	if err == nil && resp.StatusCode != http.StatusOK {
		err = fmt.Errorf("%s %s of the simulated cloud: %s: %s", method, what, resp.Status, strings.TrimSpace(string(data)))
	}
	return data, err
}
