package host

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"slices"
	"strings"

	v1 "github.com/transplant-dev/transplant/api/transplant/v1alpha1"
	"github.com/transplant-dev/transplant/internal/component"
	"github.com/transplant-dev/transplant/internal/controlplane"
	"github.com/transplant-dev/transplant/internal/hostaccess"
	"github.com/transplant-dev/transplant/internal/mask"
	"github.com/transplant-dev/transplant/internal/snapshot/collect"
	"github.com/transplant-dev/transplant/internal/together"
)

// defaultLeaderMigration is where the documentation puts the leader migration config.
const defaultLeaderMigration = "/etc/kubernetes/leadermigration.conf"

// alwaysReadFiles are files on a control-plane host that every snapshot tells of.
var alwaysReadFiles = []string{
	defaultLeaderMigration,
	"/etc/kubernetes/controller-manager.conf",
	"/etc/kubernetes/cloud-controller-manager.conf",
}

// GatherHosts reads every host; they do not wait for each other.
func GatherHosts(ctx context.Context, g *collect.Collector) {
	if len(g.Hosts) == 0 && g.Seed != nil {
		return // where a seed hosts the control plane, the only hosts are those of the nodes
	}
	if len(g.Hosts) == 0 {
		g.Unknown(
			"hosts",
			"no host was given: leave --host-access=none out, and hosts are read through pods; or name each control-plane host, e.g. --host-access=local:cp-1=/mnt/cp-1",
		)
		return
	}
	out := make([]v1.Host, len(g.Hosts))
	var wg together.Group
	g.Progress.AddHosts(len(g.Hosts))
	for i, h := range g.Hosts {
		wg.Go(func() {
			defer g.Progress.ReadHost(h.Name())()
			look := hostReader{Collector: g, access: h, host: v1.Host{Name: h.Name()}}
			look.read(ctx)
			out[i] = look.host
		})
	}
	wg.Wait()
	slices.SortFunc(out, func(a, b v1.Host) int { return strings.Compare(a.Name, b.Name) })
	g.Snap.Hosts = out
}

// hostReader reads one host.
type hostReader struct {
	*collect.Collector
	access hostaccess.Host
	host   v1.Host
	// manifests are the files of the manifests directory that the kubelet reads, whatever they hold; units are those of
	// the components' units.
	manifests, units []string
}

// fact is the path of a fact of this host.
func (l *hostReader) fact(parts ...string) string {
	return strings.Join(append([]string{"hosts", l.host.Name}, parts...), "/")
}

func (l *hostReader) read(ctx context.Context) {
	l.kubelet(ctx) // first: it says where the manifests lie
	if !l.readManifests(ctx) {
		return
	}
	l.services(ctx)
	slices.SortStableFunc(l.host.Components, func(a, b v1.Component) int { return strings.Compare(a.Name, b.Name) })
	l.host.ControlPlane = slices.ContainsFunc(
		l.host.Components,
		func(c v1.Component) bool { return c.Name == component.KCM || c.Name == component.KAS },
	)
	l.processes(ctx)
	l.clock(ctx)
	l.authority(ctx)
	l.cloudConfigs(ctx)
	if l.host.ControlPlane {
		l.leaderMigration(ctx)
		l.managerToken(ctx)
	}
	l.files(ctx)
}

// manifestDir is where the kubelet looks for static pods.
func (l *hostReader) manifestDir() string {
	k := l.host.Kubelet
	if k != nil && k.Flags["pod-manifest-path"] != "" {
		return k.Flags["pod-manifest-path"]
	}
	if k != nil && k.Config != nil && strings.HasPrefix(k.Config.StaticPodPath, "/") {
		return k.Config.StaticPodPath
	}
	return controlplane.ManifestDir
}

// readManifests reads the manifests directory. It returns false when nothing of the host can be read.
func (l *hostReader) readManifests(ctx context.Context) bool {
	dir := l.manifestDir()
	names, err := l.access.List(ctx, dir)
	if errors.Is(err, fs.ErrNotExist) {
		return true // a worker has none
	}
	if err != nil {
		l.Unknown(l.fact(), err.Error())
		return false
	}
	slices.Sort(names)
	for _, name := range names {
		// The kubelet skips dot-files and nothing else: a .bak file is a pod.
		if strings.HasPrefix(name, ".") {
			continue
		}
		at := path.Join(dir, name)
		file, err := l.access.ReadFile(ctx, at)
		if errors.Is(err, fs.ErrNotExist) {
			continue // gone since it was listed
		}
		if err != nil {
			l.Unknown(l.fact("manifests", name), err.Error())
			continue
		}
		l.manifests = append(l.manifests, at)
		if c, ok := readComponent(at, file.Data); ok {
			l.host.Components = append(l.host.Components, c)
		}
	}
	return true
}

// readComponent returns what a file in the manifests directory says. It is false for another pod, and for what is no
// pod and speaks of none of the components.
func readComponent(at string, data []byte) (v1.Component, bool) {
	out := v1.Component{Manifest: at, SHA256: hostaccess.SHA256(data)}
	m, err := controlplane.Parse(data)
	if err != nil {
		out.Name = meant(at, data)
		out.Error = mask.Text(err.Error())
		return out, out.Name != ""
	}
	out.Name = m.Component()
	if !slices.Contains(collect.ComponentNames, out.Name) {
		return out, false
	}
	out.Image, out.Command, out.Flags = m.Image(), mask.Command(m.Command()), mask.Map(m.Flags())
	out.EnvNames, out.HostPaths, out.Address, out.Remarks = m.EnvNames(), m.HostPaths(), m.Address(), mask.Texts(
		m.Remarks(),
	)
	return out, true
}

// meant guesses which component a broken manifest is of: by its name, else by what it mentions.
func meant(at string, data []byte) string {
	for _, name := range collect.ComponentNames {
		if strings.Contains(path.Base(at), name) {
			return name
		}
	}
	for _, name := range collect.ComponentNames {
		if bytes.Contains(data, []byte(name)) {
			return name
		}
	}
	return ""
}

// processes asks for each component that a manifest names; two manifests of one component share its processes.
func (l *hostReader) processes(ctx context.Context) {
	asked := map[string][]v1.Process{}
	for i, c := range l.host.Components {
		if _, done := asked[c.Name]; !done {
			found, err := l.access.Processes(ctx, c.Name)
			if err != nil {
				l.Unknown(l.fact("processes", c.Name), err.Error())
			}
			for j := range found {
				found[j].Args = mask.Command(found[j].Args)
			}
			asked[c.Name] = found
		}
		l.host.Components[i].Processes = asked[c.Name]
	}
}

// leaderMigration reads the config that each manager names, and the one at the documented path if none does.
func (l *hostReader) leaderMigration(ctx context.Context) {
	used := map[string]bool{}
	for _, c := range l.host.Components {
		in := c.Flags["leader-migration-config"]
		if in == "" || c.Name != component.KCM && c.Name != component.CCM {
			continue
		}
		at := hostPath(c, in)
		used[at] = true
		file, err := l.access.ReadFile(ctx, at)
		if err != nil {
			l.Unknown(l.fact("leader-migration", c.Name), fmt.Sprintf("leader migration config of %s: %v", c.Name, err))
			continue
		}
		l.host.LeaderMigration = append(
			l.host.LeaderMigration,
			v1.LeaderMigrationFile{Path: at, UsedBy: c.Name, Content: mask.Document(file.Data)},
		)
	}
	if used[defaultLeaderMigration] {
		return
	}
	if file, err := l.access.ReadFile(ctx, defaultLeaderMigration); err == nil {
		l.host.LeaderMigration = append(
			l.host.LeaderMigration,
			v1.LeaderMigrationFile{Path: defaultLeaderMigration, Content: mask.Document(file.Data)},
		)
	}
}

// managerToken notes when the manager's token expires, and nothing else of it.
func (l *hostReader) managerToken(ctx context.Context) {
	if l.TokenFile == "" {
		return
	}
	file, err := l.access.ReadFile(ctx, l.TokenFile)
	if errors.Is(err, fs.ErrNotExist) {
		return
	}
	if err != nil {
		l.Unknown(l.fact("manager-token"), fmt.Sprintf("token of %s: %v", component.CCM, err))
		return
	}
	l.host.ManagerToken = DescribeToken(l.TokenFile, file.Data)
}

// hostPath is where a path in a component's container lies on the host: under the longest mount path that contains it.
func hostPath(c v1.Component, in string) string {
	best, out := -1, in
	for mount, host := range c.HostPaths {
		mount = strings.TrimSuffix(mount, "/")
		if in == mount && len(mount) > best {
			best, out = len(mount), host
		} else if rest, ok := strings.CutPrefix(in, mount+"/"); ok && len(mount) > best {
			best, out = len(mount), path.Join(host, rest)
		}
	}
	return out
}

// files describes every file that a migration reads or writes, present or not; on a worker of those that hold
// credentials.
func (l *hostReader) files(ctx context.Context) {
	var wanted []string
	if l.host.ControlPlane {
		wanted = slices.Concat(alwaysReadFiles, l.Files, l.manifests, l.units)
	}
	for _, f := range l.host.LeaderMigration {
		wanted = append(wanted, f.Path)
	}
	configs := l.host.CloudConfigs
	if l.host.CloudConfig != nil {
		configs = append(slices.Clone(configs), *l.host.CloudConfig)
	}
	for _, c := range configs {
		wanted = append(wanted, c.Path)
		wanted = append(wanted, filesOf(c.Settings)...)
	}
	if k := l.host.Kubelet; k != nil && k.Credentials != nil && k.Credentials.ConfigPath != "" {
		wanted = append(wanted, k.Credentials.ConfigPath)
	}
	slices.Sort(wanted)
	for i := range wanted {
		wanted[i] = strings.ReplaceAll(wanted[i], "{host}", l.host.Name)
	}
	for _, at := range slices.Compact(wanted) {
		if f, err := l.file(ctx, at); err != nil {
			l.Unknown(l.fact("files")+at, err.Error())
		} else {
			l.host.Files = append(l.host.Files, f)
		}
	}
}

// filesOf are the files that settings of a cloud config name, such as that of an authority's certificate.
func filesOf(settings map[string]string) []string {
	var out []string
	for key, value := range settings {
		key = strings.ToLower(key)
		if path.IsAbs(value) && (strings.Contains(key, "file") || strings.Contains(key, "cert")) {
			out = append(out, value)
		}
	}
	return out
}

// file describes one file, present or not.
func (l *hostReader) file(ctx context.Context, at string) (v1.File, error) {
	file, err := l.access.ReadFile(ctx, at)
	if errors.Is(err, fs.ErrNotExist) {
		return v1.File{Path: at}, nil
	}
	if err != nil {
		return v1.File{}, err
	}
	return v1.File{
		Path:    at,
		Present: true,
		SHA256:  hostaccess.SHA256(file.Data),
		Mode:    fmt.Sprintf("%04o", file.Mode.Perm()),
	}, nil
}
