package hosts

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/transplant-dev/transplant/lab/hosts/machine"
	"github.com/transplant-dev/transplant/lab/poll"
)

// diskSize is the size of a host's own file system: its /etc, /var/lib/kubelet and so on, but no images, logs or etcd.
const diskSize = "512M"

// data are the host's directories that lie outside of its disk.
var data = map[string]string{"/var/lib/containerd": "containerd", "/var/lib/etcd": "etcd", "/var/log": "log"}

const (
	startTimeout = 30 * time.Second
	stopTimeout  = 30 * time.Second
)

// prepare makes the host's disk and directories, unless they are there.
func (h *Host) prepare(ctx context.Context) error {
	c := machine.Config{
		HostName: h.NodeName,
		Disk:     filepath.Join(h.dir(), "disk.img"),
		Root:     filepath.Join(h.dir(), "root"),
		Usr:      h.cluster.usrDir(),
		Upper:    filepath.Join(h.dir(), "usr"),
		Work:     filepath.Join(h.dir(), "usr-work"),
		Data:     map[string]string{},
		Metadata: h.cluster.endpoint(portCloud),
		Services: []string{"containerd", "kubelet"},
	}
	dirs := []string{c.Root, c.Upper, c.Work}
	for path, name := range data {
		c.Data[path] = filepath.Join(h.dir(), "data", name)
		dirs = append(dirs, c.Data[path])
	}
	for _, dir := range dirs {
		if err := os.MkdirAll(dir, 0o755); err != nil {
			return fmt.Errorf("making directory of host %s: %w", h.Name, err)
		}
	}
	if _, err := os.Stat(c.Disk); err != nil {
		if err := run(ctx, "truncate", "-s", diskSize, c.Disk); err != nil {
			return err
		}
		if err := run(ctx, "mkfs.ext4", "-q", "-m", "0", c.Disk); err != nil {
			return err
		}
	}
	text, err := json.MarshalIndent(c, "", "  ")
	if err != nil {
		return fmt.Errorf("encoding configuration of host %s: %w", h.Name, err)
	}
	if err := os.WriteFile(h.config(), text, 0o644); err != nil {
		return fmt.Errorf("writing configuration of host %s: %w", h.Name, err)
	}
	return nil
}

// Up gives the host power: with its disk as it is, at its address. It returns when the host's services have been
// started.
func (h *Host) Up(ctx context.Context) error {
	if h.Running() {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, startTimeout)
	defer cancel()
	if err := h.prepare(ctx); err != nil {
		return err
	}
	if err := makeCgroups(h.cluster.cgroup(), h.cgroup()); err != nil {
		return err
	}
	if err := weigh(h.cluster.cgroup(), len(h.cluster.hosts)); err != nil {
		return err
	}
	p, err := h.spawn()
	if err != nil {
		return err
	}
	if err := errors.Join(h.connect(ctx, p.pid), p.proceed(ctx)); err != nil {
		said, _ := os.ReadFile(filepath.Join(h.dir(), "init.log"))
		_ = syscall.Kill(p.pid, syscall.SIGKILL)
		return fmt.Errorf("starting host %s: %w: %s", h.Name, err, strings.TrimSpace(string(said)))
	}
	return nil
}

// booting is the first process of a host that is about to start.
type booting struct {
	pid     int
	in, out *os.File
}

// spawn starts the host's first process in namespaces of its own. It does not end with this process.
func (h *Host) spawn() (*booting, error) {
	log, err := os.OpenFile(filepath.Join(h.dir(), "init.log"), os.O_CREATE|os.O_TRUNC|os.O_WRONLY, 0o644)
	if err != nil {
		return nil, fmt.Errorf("opening log of host %s: %w", h.Name, err)
	}
	defer log.Close() //nolint:errcheck // the child has its own descriptor
	theirIn, in, err := os.Pipe()
	if err != nil {
		return nil, fmt.Errorf("starting host %s: %w", h.Name, err)
	}
	out, theirOut, err := os.Pipe()
	if err != nil {
		return nil, errors.Join(fmt.Errorf("starting host %s: %w", h.Name, err), theirIn.Close(), in.Close())
	}
	cmd := exec.Command(filepath.Join(h.cluster.binDir(), "lab-init"), h.config())
	cmd.Dir = "/"
	cmd.Env = []string{"PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"}
	cmd.Stdin, cmd.Stdout, cmd.Stderr = theirIn, theirOut, log
	cmd.SysProcAttr = &syscall.SysProcAttr{
		Setsid: true,
		Cloneflags: syscall.CLONE_NEWNS | syscall.CLONE_NEWUTS | syscall.CLONE_NEWIPC | syscall.CLONE_NEWNET |
			syscall.CLONE_NEWPID,
	}
	err = cmd.Start()
	_, _ = theirIn.Close(), theirOut.Close() // the child has its own
	if err != nil {
		_, _ = in.Close(), out.Close()
		return nil, fmt.Errorf("starting host %s: %w", h.Name, err)
	}
	go cmd.Wait() //nolint:errcheck // so that it leaves no zombie while this process lives
	return &booting{pid: cmd.Process.Pid, in: in, out: out}, nil
}

// proceed tells the process that its network is there, and waits until it has started the services.
func (p *booting) proceed(ctx context.Context) error {
	defer p.in.Close()  //nolint:errcheck // nothing was left to write
	defer p.out.Close() //nolint:errcheck // it was read
	if _, err := io.WriteString(p.in, "network\n"); err != nil {
		return fmt.Errorf("telling it about its network: %w", err)
	}
	if deadline, ok := ctx.Deadline(); ok {
		if err := p.out.SetReadDeadline(deadline); err != nil {
			return fmt.Errorf("bounding its start: %w", err)
		}
	}
	line, err := bufio.NewReader(p.out).ReadString('\n')
	if err != nil || line != "started\n" {
		return fmt.Errorf("it ended early or took too long: %w", err)
	}
	return nil
}

// Down takes the host's power away: nothing on it ends in an orderly way. Its disk stays.
func (h *Host) Down(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, stopTimeout)
	defer cancel()
	pid, err := h.pid()
	if err == nil {
		err = end(ctx, pid, syscall.SIGKILL)
	}
	if err != nil && !errors.Is(err, ErrDown) {
		return err
	}
	if err := h.awaitDisk(ctx); err != nil {
		return err
	}
	// What a real machine loses with its power: its link and its control groups. The latter would hold up the next kubelet
	// for seconds each.
	return errors.Join(removeLink(ctx, h.veth()), removeCgroups(ctx, h.cgroup()))
}

// awaitDisk waits until the kernel has release the host's disk: a file system that is mounted twice is soon damaged.
func (h *Host) awaitDisk(ctx context.Context) error {
	disk := filepath.Join(h.dir(), "disk.img")
	return poll.Until(ctx, 20*time.Millisecond, "the disk of host "+h.Name+" to be released", func(context.Context) error {
		backing, err := filepath.Glob("/sys/block/loop*/loop/backing_file")
		if err != nil {
			return fmt.Errorf("listing loop devices: %w", err)
		}
		for _, file := range backing {
			// A device that is released meanwhile has no such file any more.
			if name, err := os.ReadFile(file); err == nil && strings.TrimSpace(string(name)) == disk {
				return fmt.Errorf("%s still has it", strings.Split(file, "/")[3])
			}
		}
		return nil
	})
}

// Reboot is a power cut and a start with the disk kept.
func (h *Host) Reboot(ctx context.Context) error {
	if err := h.Down(ctx); err != nil {
		return err
	}
	return h.Up(ctx)
}

// connect gives the host its link, address and route.
func (h *Host) connect(ctx context.Context, pid int) error {
	if err := removeLink(ctx, h.veth()); err != nil {
		return err
	}
	target := strconv.Itoa(pid)
	inside := func(args ...string) []string { return append([]string{"nsenter", "-t", target, "-n", "ip"}, args...) }
	for _, argv := range [][]string{
		{"ip", "link", "add", h.veth(), "type", "veth", "peer", "name", "eth0", "netns", target},
		{"ip", "link", "set", h.veth(), "master", h.cluster.bridge(), "up"},
		inside("link", "set", "lo", "up"),
		inside("addr", "add", "169.254.169.254/32", "dev", "lo"),
		inside("addr", "add", h.Address+"/24", "dev", "eth0"),
		inside("link", "set", "eth0", "up"),
		inside("route", "add", "default", "via", h.cluster.address(1)),
	} {
		if err := run(ctx, argv...); err != nil {
			return err
		}
	}
	return nil
}
