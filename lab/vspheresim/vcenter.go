// Package vspheresim decides what tests get as a vCenter: govmomi's simulator, which answers SOAP and REST, behind an
// HTTPS server of ours that counts the calls and makes them fail.
//
//	client --HTTPS--> front: count, fault? --> govmomi's simulator
//	test   --HTTP, a session of its own------> govmomi's simulator
package vspheresim

import (
	"bytes"
	"context"
	"crypto/tls"
	"encoding/pem"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"path"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/vmware/govmomi"
	"github.com/vmware/govmomi/object"
	"github.com/vmware/govmomi/simulator"
	"github.com/vmware/govmomi/vapi/rest"
	"github.com/vmware/govmomi/vapi/tags"
	"github.com/vmware/govmomi/vim25/mo"
	"github.com/vmware/govmomi/vim25/types"

	// the REST API with tags
	_ "github.com/vmware/govmomi/vapi/simulator"
)

// The user and the password that a vCenter begins with.
const (
	User     = "administrator@vsphere.local"
	Password = "secret"
)

// sessionHeader has the session of a REST request.
const sessionHeader = "vmware-api-session-id"

// Options are the settings of a VCenter.
type Options struct {
	// Machines is how many virtual machines it begins with; at least 1.
	Machines int
	// Number goes into the machines' names and addresses; a small one.
	Number int
	// Front is put in front of the vCenter; nil for nothing.
	Front func(http.Handler) http.Handler
}

// Fault makes requests fail.
type Fault struct {
	// Operation is a SOAP operation, or the last part of a REST request's path; empty for all.
	Operation string
	// Times is how many requests fail; 0 for all from now on.
	Times int
	// Status and Body are the answer; 0 closes the connection without one.
	Status int
	Body   string
	// Hang keeps the client waiting until it leaves.
	Hang bool
	// Half sends the first half of vCenter's own answer: with CutOff the connection is closed then, and else the answer
	// is as long as that half.
	Half   bool
	CutOff bool
}

// VCenter is a simulated vCenter.
type VCenter struct {
	model  *simulator.Model
	server *simulator.Server
	front  *httptest.Server
	admin  *govmomi.Client
	number int

	mu      sync.Mutex
	calls   []string
	faults  []*Fault
	page    int             // objects of a page of a list; 0 for all
	expired map[string]bool // REST sessions
	issued  map[string]bool
}

// Start serves a new vCenter on free ports of loopback. Close ends it.
func Start(ctx context.Context, o Options) (*VCenter, error) {
	model := simulator.VPX()
	model.Host, model.Cluster, model.ClusterHost, model.Machine = 0, 1, 2, max(o.Machines, 1)
	if err := model.Create(); err != nil {
		return nil, fmt.Errorf("creating the inventory: %w", err)
	}
	model.Service.RegisterEndpoints = true
	model.Service.Listen = &url.URL{Host: "127.0.0.1:0", User: url.UserPassword(User, Password)}
	v := &VCenter{model: model, number: o.Number, expired: map[string]bool{}, issued: map[string]bool{}}
	v.server = model.Service.NewServer()
	front := http.Handler(v)
	if o.Front != nil {
		front = o.Front(v)
	}
	v.front = httptest.NewTLSServer(front)
	var err error
	if v.admin, err = govmomi.NewClient(ctx, v.server.URL, true); err != nil {
		v.Close()
		return nil, fmt.Errorf("logging in: %w", err)
	}
	machines, err := v.Machines(ctx)
	for i, m := range machines {
		v.SetGuest(m, fmt.Sprintf("node-%d-%d", o.Number, i), fmt.Sprintf("10.%d.%d.%d", o.Number, i/200, i%200+10))
	}
	if err != nil {
		v.Close()
		return nil, err
	}
	return v, nil
}

// Close ends the vCenter.
func (v *VCenter) Close() {
	v.front.CloseClientConnections()
	v.front.Close()
	if v.admin != nil {
		v.admin.CloseIdleConnections()
	}
	v.server.Close()
	v.model.Remove()
}

// Address is the host and the port of the vCenter.
func (v *VCenter) Address() (host, port string) {
	host, port, _ = net.SplitHostPort(v.front.Listener.Addr().String())
	return host, port
}

// CA is the certificate of the vCenter, in PEM.
func (v *VCenter) CA() []byte {
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: v.front.Certificate().Raw})
}

// ServingTLS is what another server needs to show the same certificate.
func (v *VCenter) ServingTLS() *tls.Config {
	return &tls.Config{Certificates: v.front.TLS.Certificates}
}

// Certificate is the certificate of the vCenter, in DER.
func (v *VCenter) Certificate() []byte { return v.front.Certificate().Raw }

// Config is the vCenter's part of a cloud config in YAML, with more lines of its own.
func (v *VCenter) Config(name string, more ...string) string {
	host, port := v.Address()
	lines := []string{
		"  " + name + ":", "    server: " + host, "    port: " + port, "    user: " + User,
		"    password: " + Password,
	}
	for _, line := range more {
		lines = append(lines, "    "+line)
	}
	return strings.Join(lines, "\n") + "\n"
}

// Machine is a virtual machine.
type Machine struct {
	Ref  types.ManagedObjectReference
	Name string
	UUID string
}

// Machines are the virtual machines, in the order in which they were made.
func (v *VCenter) Machines(context.Context) (all []Machine, _ error) {
	for _, entity := range v.model.Map().All("VirtualMachine") {
		vm, ok := entity.(*simulator.VirtualMachine)
		if !ok {
			return nil, fmt.Errorf("a virtual machine is a %T", entity)
		}
		all = append(all, Machine{Ref: vm.Self, Name: vm.Name, UUID: vm.Config.Uuid})
	}
	slices.SortFunc(all, func(a, b Machine) int {
		if len(a.Name) != len(b.Name) {
			return len(a.Name) - len(b.Name)
		}
		return strings.Compare(a.Name, b.Name)
	})
	return all, nil
}

// SetGuest gives a machine's guest a host name and addresses, on the network "VM Network".
func (v *VCenter) SetGuest(m Machine, hostName string, addresses ...string) {
	nics := []types.GuestNicInfo{}
	if len(addresses) > 0 {
		nics = append(nics, types.GuestNicInfo{Network: "VM Network", IpAddress: addresses, DeviceConfigId: 4000, Connected: true})
	}
	v.Update(m, types.PropertyChange{Name: "guest.hostName", Val: hostName}, types.PropertyChange{Name: "guest.net", Val: nics})
}

// Update changes properties of a machine.
func (v *VCenter) Update(m Machine, changes ...types.PropertyChange) {
	entity := v.model.Map().Get(m.Ref)
	v.model.Map().AtomicUpdate(v.model.Service.Context, entity, changes)
}

// SetUUID gives a machine another UUID.
func (v *VCenter) SetUUID(m Machine, uuid string) {
	v.Update(m, types.PropertyChange{Name: "config.uuid", Val: uuid}, types.PropertyChange{Name: "summary.config.uuid", Val: uuid})
}

// SetDiskUUID has a machine show its guest the UUIDs of disks or not, by the flag that vCenter shows.
func (v *VCenter) SetDiskUUID(m Machine, shows *bool) {
	v.Update(m, types.PropertyChange{Name: "config.flags", Val: types.VirtualMachineFlagInfo{DiskUuidEnabled: shows}})
}

// SetOption writes an entry into the file of a machine.
func (v *VCenter) SetOption(ctx context.Context, m Machine, key, value string) error {
	entry := &types.OptionValue{Key: key, Value: value}
	spec := types.VirtualMachineConfigSpec{ExtraConfig: []types.BaseOptionValue{entry}}
	task, err := object.NewVirtualMachine(v.admin.Client, m.Ref).Reconfigure(ctx, spec)
	if err != nil {
		return err
	}
	return task.Wait(ctx)
}

// PowerOff powers a machine off.
func (v *VCenter) PowerOff(ctx context.Context, m Machine) error {
	task, err := object.NewVirtualMachine(v.admin.Client, m.Ref).PowerOff(ctx)
	if err != nil {
		return err
	}
	return task.Wait(ctx)
}

// PowerOn powers a machine on.
func (v *VCenter) PowerOn(ctx context.Context, m Machine) error {
	task, err := object.NewVirtualMachine(v.admin.Client, m.Ref).PowerOn(ctx)
	if err != nil {
		return err
	}
	return task.Wait(ctx)
}

// Destroy removes a machine.
func (v *VCenter) Destroy(ctx context.Context, m Machine) error {
	vm := object.NewVirtualMachine(v.admin.Client, m.Ref)
	if err := v.PowerOff(ctx, m); err != nil {
		return err
	}
	task, err := vm.Destroy(ctx)
	if err != nil {
		return err
	}
	return task.Wait(ctx)
}

// Tag makes a tag of a category, which is made if there is none, and attaches it to an object. An object is the first
// of a type.
func (v *VCenter) Tag(ctx context.Context, category, tag, kind string) error {
	client := rest.NewClient(v.admin.Client)
	if err := client.Login(ctx, url.UserPassword(User, Password)); err != nil {
		return err
	}
	defer func() { _ = client.Logout(ctx) }()
	manager := tags.NewManager(client)
	if _, err := manager.GetCategory(ctx, category); err != nil {
		if _, err := manager.CreateCategory(ctx, &tags.Category{Name: category, Cardinality: "MULTIPLE"}); err != nil {
			return err
		}
	}
	id, err := manager.CreateTag(ctx, &tags.Tag{Name: tag, CategoryID: category})
	if err != nil {
		return err
	}
	entity := v.model.Map().Any(kind)
	if entity == nil {
		return fmt.Errorf("there is no %s", kind)
	}
	return manager.AttachTag(ctx, id, mo.Reference(entity.Reference()))
}

// EndSessions ends all sessions but the test's own, as a restart of vCenter does.
func (v *VCenter) EndSessions(ctx context.Context) error {
	own, err := v.admin.SessionManager.UserSession(ctx)
	if err != nil {
		return err
	}
	keys, err := v.sessions(ctx)
	if err != nil {
		return err
	}
	keys = slices.DeleteFunc(keys, func(key string) bool { return key == own.Key })
	if len(keys) > 0 {
		if err := v.admin.SessionManager.TerminateSession(ctx, keys); err != nil {
			return err
		}
	}
	v.mu.Lock()
	defer v.mu.Unlock()
	maps.Copy(v.expired, v.issued)
	return nil
}

func (v *VCenter) sessions(ctx context.Context) (keys []string, _ error) {
	var manager mo.SessionManager
	if err := v.admin.RetrieveOne(ctx, *v.admin.ServiceContent.SessionManager, []string{"sessionList"}, &manager); err != nil {
		return nil, err
	}
	for _, session := range manager.SessionList {
		keys = append(keys, session.Key)
	}
	return keys, nil
}

// Sessions is how many SOAP sessions there are but the test's own.
func (v *VCenter) Sessions(ctx context.Context) (int, error) {
	keys, err := v.sessions(ctx)
	return len(keys) - 1, err
}

// SetPassword has another password taken from now on. Sessions stay.
func (v *VCenter) SetPassword(password string) {
	v.model.Service.Listen.User = url.UserPassword(User, password)
}

// Calls are the calls that were made since the last call of Calls: SOAP operations, and REST methods with paths.
func (v *VCenter) Calls() []string {
	v.mu.Lock()
	defer v.mu.Unlock()
	calls := v.calls
	v.calls = nil
	return calls
}

// SetPageSize has lists come in pages of so many objects, as vCenter has them; 0 for one page.
func (v *VCenter) SetPageSize(objects int) {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.page = objects
}

// Inject adds a rule of vcsim's own fault injection for an operation, and returns what removes all rules.
func (v *VCenter) Inject(rule simulator.FaultInjectionRule) (remove func()) {
	rule.ObjectType, rule.ObjectName, rule.Probability, rule.Enabled = "*", "*", 1, true
	v.model.Service.AddFaultRule(&rule)
	return v.model.Service.ClearFaultRules
}

// Add adds a fault, and returns what takes it away.
func (v *VCenter) Add(f Fault) (remove func()) {
	v.mu.Lock()
	defer v.mu.Unlock()
	added := &f
	v.faults = append(v.faults, added)
	return func() {
		v.mu.Lock()
		defer v.mu.Unlock()
		v.faults = slices.DeleteFunc(v.faults, func(f *Fault) bool { return f == added })
	}
}

func (v *VCenter) fault(operation string) *Fault {
	for i, f := range v.faults {
		if f.Operation != "" && f.Operation != operation {
			continue
		}
		if f.Times == 1 {
			v.faults = slices.Delete(v.faults, i, i+1)
		} else if f.Times > 0 {
			f.Times--
		}
		return f
	}
	return nil
}

var soapOperation = regexp.MustCompile(`<(?:\w+:)?Body[^>]*>\s*<(?:\w+:)?(\w+)`)

// emptyOptions are those of a list for which the client asks for no size of pages.
var emptyOptions = []byte("<options></options>")

// paged asks for pages of a list in the name of the client, who leaves their size to vCenter.
func (v *VCenter) paged(body []byte) []byte {
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.page == 0 {
		return body
	}
	size := fmt.Appendf(nil, "<options><maxObjects>%d</maxObjects></options>", v.page)
	return bytes.Replace(body, emptyOptions, size, 1)
}

// sendHalf sends the first half of an answer.
func (v *VCenter) sendHalf(w http.ResponseWriter, r *http.Request, cutOff bool) {
	whole := httptest.NewRecorder()
	v.model.Service.ServeMux.ServeHTTP(whole, r)
	answer := whole.Body.Bytes()
	maps.Copy(w.Header(), whole.Header())
	if w.Header().Set("Content-Length", strconv.Itoa(len(answer)/2)); cutOff {
		w.Header().Set("Content-Length", strconv.Itoa(len(answer)))
	}
	w.WriteHeader(whole.Code)
	_, _ = w.Write(answer[:len(answer)/2]) // the client may be gone
	if cutOff {
		panic(http.ErrAbortHandler) // net/http closes the connection
	}
}

// ServeHTTP implements http.Handler.
func (v *VCenter) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return // the client left
	}
	body = v.paged(body)
	r.Body, r.ContentLength = io.NopCloser(bytes.NewReader(body)), int64(len(body))
	operation, call := path.Base(r.URL.Path), r.Method+" "+path.Base(r.URL.Path)
	if match := soapOperation.FindSubmatch(body); match != nil {
		operation, call = string(match[1]), string(match[1])
	}
	if operation == "session" && r.URL.Query().Get("~action") == "get" {
		call = "GET session" // it is asked for, and not opened
	}
	session := r.Header.Get(sessionHeader)
	v.mu.Lock()
	v.calls = append(v.calls, call)
	fault, ended := v.fault(operation), v.expired[session]
	if session != "" {
		v.issued[session] = true
	}
	v.mu.Unlock()
	switch {
	case fault != nil && fault.Hang:
		<-r.Context().Done()
	case fault != nil && fault.Half:
		v.sendHalf(w, r, fault.CutOff)
	case fault != nil && fault.Status == 0:
		panic(http.ErrAbortHandler) // net/http closes the connection
	case fault != nil:
		w.WriteHeader(fault.Status)
		_, _ = w.Write([]byte(fault.Body)) // the client may be gone
	case ended:
		http.Error(w, "the session has ended", http.StatusUnauthorized)
	default:
		v.model.Service.ServeMux.ServeHTTP(w, r)
	}
}
