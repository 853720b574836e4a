package client

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"

	"github.com/vmware/govmomi/vapi/rest"
	"github.com/vmware/govmomi/vapi/tags"
	"github.com/vmware/govmomi/vim25"
	"github.com/vmware/govmomi/vim25/methods"
	"github.com/vmware/govmomi/vim25/soap"
	"github.com/vmware/govmomi/vim25/types"

	"github.com/transplant-dev/transplant/provider/transport"
	"github.com/transplant-dev/transplant/provider/vsphere/cloudconf"
)

// bounded has a bound of lists be another one for a test.
func bounded(t *testing.T, of *transport.List, bound transport.List) {
	before := *of
	t.Cleanup(func() { *of = before })
	*of = bound
}

// named is a vCenter whose session is already open.
func named(s *opened) *VCenter {
	v := New(Options{Config: cloudconf.VCenter{Name: "a", Server: "vc.test"}})
	v.session = s
	return v
}

// endless is a vCenter that names a next page in each.
type endless struct{ pages int }

func (e *endless) RoundTrip(_ context.Context, _, answer soap.HasFault) error {
	switch out := answer.(type) {
	case *methods.RetrievePropertiesExBody:
		out.Res = &types.RetrievePropertiesExResponse{Returnval: &types.RetrieveResult{Token: "0"}}
	case *methods.ContinueRetrievePropertiesExBody:
		if e.pages++; e.pages > 100 {
			return io.EOF
		}
		out.Res = &types.ContinueRetrievePropertiesExResponse{Returnval: types.RetrieveResult{Token: fmt.Sprint(e.pages)}}
	}
	return nil
}

// TestAListOfMachinesEnds: a proxy that says in each page that there is another one would take the manager's memory.
func TestAListOfMachinesEnds(t *testing.T) {
	bounded(t, &lists, transport.List{MaxBytes: 1000, MaxPages: 5})
	wire := &endless{}
	v := named(&opened{soap: &vim25.Client{RoundTripper: wire}, view: &Ref{Type: "ContainerView", Value: "v"}})
	_, err := v.List(t.Context())
	const want = "the list of virtual machines: it has more than 5 pages or 1000 bytes, and is not read on: look at what answers at vCenter a"
	if err == nil || !strings.Contains(err.Error(), want) || wire.pages != 5 {
		t.Errorf("%d pages were read after the first: %v", wire.pages, err)
	}
}

// TestTagsEnd: each tag of an answer is asked for, and an answer could name as many as fit into it.
func TestTagsEnd(t *testing.T) {
	for name, c := range map[string]struct {
		bound transport.List
		asked int
	}{
		"too many tags":  {transport.List{MaxBytes: 1 << 20, MaxPages: 5}, 4},
		"too many bytes": {transport.List{MaxBytes: 5000, MaxPages: 1000}, 1}, // the category comes without being asked for
	} {
		t.Run(name, func(t *testing.T) {
			bounded(t, &tagLists, c.bound)
			asked := 0
			server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				id := r.URL.Path[strings.LastIndex(r.URL.Path, "/")+1:]
				switch {
				case r.URL.Query().Has("~action"):
					var ids []string
					for i := range 50 {
						ids = append(ids, fmt.Sprintf(`"urn:vmomi:InventoryServiceTag:%d:GLOBAL"`, i))
					}
					fmt.Fprintf(w, `{"value":[{"object_id":{"type":"HostSystem","id":"h"},"tag_ids":[%s]}]}`, strings.Join(ids, ","))
				case strings.Contains(r.URL.Path, "Category"):
					fmt.Fprint(w, `{"value":{"id":"urn:vmomi:InventoryServiceCategory:0:GLOBAL","name":"zone"}}`)
				default:
					asked++
					fmt.Fprintf(w, `{"value":{"id":%q,"category_id":"urn:vmomi:InventoryServiceCategory:0:GLOBAL","name":%q,"description":%q}}`, id, id, strings.Repeat("d", 8000))
				}
			}))
			defer server.Close()
			address, err := url.Parse(server.URL)
			if err != nil {
				t.Fatal(err)
			}
			plain := &vim25.Client{Client: soap.NewClient(address, true)}
			v := named(&opened{soap: plain})
			v.wrap(plain.Client)
			client := rest.NewClient(plain)
			v.wrap(client.Client)
			v.session.rest = tags.NewManager(client)
			_, err = v.AttachedTags(t.Context(), []Ref{{Type: "HostSystem", Value: "h"}})
			if err == nil || !strings.Contains(err.Error(), "the list of tags: it has more than") || asked != c.asked {
				t.Errorf("%d tags were asked for: %v", asked, err)
			}
			client.CloseIdleConnections()
		})
	}
}
