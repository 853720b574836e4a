package build

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
)

// toolchain is the Go installation that compiles, with settings of the machine that are safe to honour.
type toolchain struct {
	command  string
	version  string // for example "go1.26.8"
	platform string // for example "linux/amd64"
	env      []string
}

// inherited are the environment variables a build may see. Everything else is left out on purpose: GOFLAGS could turn
// off the verification or change what is compiled, GOWORK could replace modules, GOOS could build for another machine.
var inherited = []string{
	"PATH", "HOME", "USER", "TMPDIR", // where programs, settings and temporary files are
	"XDG_CACHE_HOME", "XDG_CONFIG_HOME",
	"HTTP_PROXY", "HTTPS_PROXY", "NO_PROXY", "http_proxy", "https_proxy", "no_proxy", // how to reach the module proxy
	"SSL_CERT_FILE", "SSL_CERT_DIR",
	"GOMAXPROCS", "GOMEMLIMIT", // how much of the machine to use
}

// findToolchain asks the go command for its version and for the settings that say where modules come from.
func findToolchain(ctx context.Context, command string) (toolchain, error) {
	file, err := exec.LookPath(command)
	if err != nil {
		return toolchain{}, fmt.Errorf(
			"finding the go command %q (install Go 1.26 or newer, or add it to the PATH): %w",
			command,
			err,
		)
	}
	cmd := exec.CommandContext(ctx, file, "env", "-json",
		"GOVERSION", "GOHOSTOS", "GOHOSTARCH", "GOPROXY", "GOSUMDB", "GOMODCACHE", "GOCACHE")
	cmd.Env = append(os.Environ(), "GOTOOLCHAIN=local", "GOWORK=off", "GOFLAGS=")
	cmd.Dir = os.TempDir() // not inside a module: another module's go.mod must not choose the toolchain
	out, err := cmd.Output()
	if err != nil {
		var exit *exec.ExitError
		if errors.As(err, &exit) && len(exit.Stderr) > 0 {
			err = fmt.Errorf("%w: %s", err, strings.TrimSpace(string(exit.Stderr)))
		}
		return toolchain{}, fmt.Errorf("asking %q for its settings: %w", file, err)
	}
	settings := map[string]string{}
	if err := json.Unmarshal(out, &settings); err != nil {
		return toolchain{}, fmt.Errorf("reading the settings of %q: %w", file, err)
	}
	tc := toolchain{
		command:  file,
		version:  settings["GOVERSION"],
		platform: settings["GOHOSTOS"] + "/" + settings["GOHOSTARCH"],
	}
	for _, name := range inherited {
		if value, ok := os.LookupEnv(name); ok {
			tc.env = append(tc.env, name+"="+value)
		}
	}
	for _, name := range []string{"GOPROXY", "GOSUMDB", "GOMODCACHE", "GOCACHE"} {
		tc.env = append(tc.env, name+"="+settings[name])
	}
	tc.env = append(tc.env, "GOENV=off", "GOTOOLCHAIN=local", "GOWORK=off", "CGO_ENABLED=0")
	return tc, nil
}
