package manual

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"regexp"
	"strconv"
	"strings"
	"unicode"

	"github.com/transplant-dev/transplant/internal/hostaccess"
	"github.com/transplant-dev/transplant/internal/shell"
)

// block is the text for one commit: comments, and commands of which each runs only when the one before it went well.
func (m *manual) block(ctx context.Context, queue []*change, staged *staged) (string, error) {
	var b strings.Builder
	for _, line := range m.console.introduction() {
		b.WriteString("# " + line + "\n")
	}
	what := "on host " + comment(m.Name())
	if m.purpose != "" {
		what += ", for step " + comment(m.purpose)
	}
	b.WriteString("# run this " + what + "\n")
	var calls []string
	var script []string
	input := ""
	end := func() {
		if len(script) > 0 {
			calls = append(calls, "ssh "+quote(m.Name())+" "+shell.Literal(strings.Join(script, " &&\n  "))+input)
		}
		script, input = nil, ""
	}
	for i, c := range queue {
		lines, err := c.commands(ctx, m)
		if err != nil {
			return "", err
		}
		if at := staged.files[i]; at != "" {
			if input != "" {
				end()
			}
			input = " < " + quote(at)
		}
		script = append(script, lines...)
	}
	end()
	b.WriteString(strings.Join(calls, " &&\n") + "\n")
	b.WriteString("# transplant looks at host " + comment(m.Name()) + " and goes on as soon as this was done\n")
	if strings.ContainsFunc(b.String(), isHidden) {
		return "", fmt.Errorf(
			"the commands for host %s have characters that are not seen, and a terminal obeys some of them: %q is not printed; no host was changed",
			m.Name(),
			b.String(),
		)
	}
	return b.String(), nil
}

// comment writes a text so that it stays in its line, and nothing in it is obeyed by a terminal.
func comment(text string) string {
	quoted := strconv.QuoteToGraphic(text)
	return strings.ReplaceAll(quoted[1:len(quoted)-1], `\"`, `"`)
}

// isHidden reports whether a character is not seen and ends no line. Commands have none.
func isHidden(r rune) bool { return r != '\n' && !unicode.IsPrint(r) }

// commands make the change on the host; a file's bytes come from the standard input.
func (c *change) commands(ctx context.Context, m *manual) ([]string, error) {
	switch c.kind {
	case changeWrite:
		return c.writing(ctx, m)
	case changeRemove:
		return []string{"sudo rm " + quote(c.path)}, nil
	case changeBackup:
		return []string{
			"sudo mkdir -p -m 0700 " + quote(path.Dir(c.path)),
			fmt.Sprintf("sudo install -m %04o %s %s", c.mode, quote(c.from), quote(c.path)),
		}, nil
	case changeReload:
		return []string{"sudo systemctl daemon-reload"}, nil
	case changeRestart:
		return []string{"sudo systemctl restart " + quote(c.unit)}, nil
	case changeStop:
		return []string{"sudo systemctl stop " + quote(c.unit)}, nil
	case changeStart:
		return []string{"sudo systemctl start " + quote(c.unit)}, nil
	}
	return nil, fmt.Errorf("a change of kind %q is not known", c.kind)
}

// writing makes the file next to its place, outside of a directory that the kubelet watches, and moves it there. A
// reader sees the old bytes or the new ones. It is made empty with its mode first, so that no other user can read a
// secret in it for a moment. A symbolic link stays, and leads to the new bytes.
func (c *change) writing(ctx context.Context, m *manual) ([]string, error) {
	dir := path.Dir(c.path)
	parent := dir
	if path.Base(dir) == "manifests" {
		parent = path.Dir(dir)
	}
	temp := path.Join(parent, ".transplant-"+path.Base(c.path)+".new")
	var out []string
	for _, d := range []string{parent, dir} {
		switch _, err := m.List(ctx, d); {
		case errors.Is(err, fs.ErrNotExist):
			mode := "0755"
			if c.mode&0o077 == 0 {
				mode = "0700"
			}
			out = append(out, "sudo mkdir -p -m "+mode+" "+quote(d))
		case err != nil:
			return nil, err
		}
		if d == dir {
			break
		}
	}
	out = append(out, fmt.Sprintf("sudo install -m %04o /dev/null %s", c.mode, quote(temp)))
	target := quote(c.path)
	switch _, _, err := hostaccess.Digest(ctx, m.Host, c.path); {
	case err == nil:
		out = append(out, "sudo chown --reference="+quote(c.path)+" "+quote(temp))
		target = `"$(sudo readlink -f ` + quote(c.path) + `)"`
	case !errors.Is(err, fs.ErrNotExist):
		return nil, err
	}
	return append(out, "sudo tee "+quote(temp)+" >/dev/null", "sudo mv -T "+quote(temp)+" "+target), nil
}

// plain is what every shell takes as it is.
var plain = regexp.MustCompile(`^[A-Za-z0-9_@%+=:,./-]+$`)

// quote makes one word of a shell.
func quote(s string) string {
	if plain.MatchString(s) {
		return s
	}
	return shell.Literal(s)
}
