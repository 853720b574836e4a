package client

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/transplant-dev/transplant/provider/vsphere/cloudconf"
)

// Credentials are who logs in.
type Credentials func(ctx context.Context) (*url.Userinfo, error)

// ErrNoClient is that credentials are in a Secret and the manager has no client of the cluster yet.
var ErrNoClient = errors.New("the credentials are in a Secret, and the manager has no client of the cluster yet")

// CredentialsOf finds the credentials where the cloud config says they are. The client is nil until the manager has
// given one.
func CredentialsOf(conf cloudconf.VCenter, client func() kubernetes.Interface) Credentials {
	switch {
	case conf.SecretName != "":
		return func(ctx context.Context) (*url.Userinfo, error) {
			api := client()
			if api == nil {
				return nil, ErrNoClient
			}
			secret, err := api.CoreV1().Secrets(conf.SecretNamespace).Get(ctx, conf.SecretName, metav1.GetOptions{})
			if err != nil {
				return nil, unreadable(conf, err)
			}
			user, err := pick(secret.Data, conf.Server)
			if err != nil {
				return nil, fmt.Errorf("the Secret %s/%s: %w", conf.SecretNamespace, conf.SecretName, err)
			}
			return user, nil
		}
	case conf.SecretsDirectory != "":
		return func(context.Context) (*url.Userinfo, error) {
			data, err := readFiles(conf.SecretsDirectory)
			if err != nil {
				return nil, fmt.Errorf("secrets-directory: %w", err)
			}
			user, err := pick(data, conf.Server)
			if err != nil {
				return nil, fmt.Errorf("secrets-directory %s: %w", conf.SecretsDirectory, err)
			}
			return user, nil
		}
	}
	return func(context.Context) (*url.Userinfo, error) { return url.UserPassword(conf.User, conf.Password), nil }
}

// unreadable says what to do about a Secret that cannot be read.
func unreadable(conf cloudconf.VCenter, err error) error {
	advice := ""
	switch {
	case apierrors.IsNotFound(err):
		advice = fmt.Sprintf("; create it with the keys %s.username and %s.password, or correct secretName and "+
			"secretNamespace in the cloud config", conf.Server, conf.Server)
	case apierrors.IsForbidden(err):
		advice = "; give that account a Role in the namespace with the verb get on this Secret"
	}
	return fmt.Errorf("reading the Secret %s/%s: %w%s", conf.SecretNamespace, conf.SecretName, err, advice)
}

// readFiles reads a mounted Secret: one file for each key. The kubelet's own links begin with two dots.
func readFiles(directory string) (map[string][]byte, error) {
	entries, err := os.ReadDir(directory)
	if err != nil {
		return nil, err
	}
	data := map[string][]byte{}
	for _, entry := range entries {
		name := entry.Name()
		if strings.HasPrefix(name, "..") {
			continue
		}
		file := filepath.Join(directory, name)
		if info, err := os.Stat(file); err != nil || info.IsDir() {
			continue
		}
		if data[name], err = os.ReadFile(file); err != nil {
			return nil, err
		}
	}
	return data, nil
}

// pick finds the credentials of a server in the keys of a Secret. They have two forms:
//
//	<server>.username, <server>.password
//	server_X: <server>, username_X, password_X    for IPv6 addresses, which a key cannot hold
func pick(data map[string][]byte, server string) (*url.Userinfo, error) {
	text := func(key string) string { return strings.TrimRight(string(data[key]), "\r\n") }
	user, password := server+".username", server+".password"
	if _, ok := data[user]; !ok {
		for key := range data {
			if suffix, ok := strings.CutPrefix(key, "server_"); ok && strings.EqualFold(text(key), server) {
				user, password = "username_"+suffix, "password_"+suffix
			}
		}
	}
	if text(user) == "" || text(password) == "" {
		keys := make([]string, 0, len(data))
		for key := range data {
			keys = append(keys, key)
		}
		slices.Sort(keys)
		return nil, fmt.Errorf("it has no %s and %s, only the keys %s; add both, with a value, for the server as the cloud "+
			"config calls it", user, password, cmp.Or(strings.Join(keys, ", "), "(none)"))
	}
	return url.UserPassword(text(user), text(password)), nil
}
