package openstacklab

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httputil"
	"strconv"
	"strings"
	"time"

	"github.com/gophercloud/gophercloud/v2"
	"github.com/gophercloud/gophercloud/v2/openstack"
	"github.com/gophercloud/gophercloud/v2/openstack/compute/v2/servers"
	"k8s.io/apimachinery/pkg/util/wait"

	"github.com/transplant-dev/transplant/lab/cluster"
	"github.com/transplant-dev/transplant/lab/openstackreal"
	"github.com/transplant-dev/transplant/lab/openstackview"
)

// real is an OpenStack that runs. Each host of a lab gets a server in it, under the address that the host has.
type real struct {
	stack   *openstackreal.Stack
	compute *gophercloud.ServiceClient

	closeIdle func()
	made      []string // servers
	failure   error    // of the first one that could not be made
}

// Real is a Kind whose OpenStack is one that runs. It is for one lab.
func Real(ctx context.Context, stack *openstackreal.Stack) (Kind, error) {
	login, closeIdle, err := openstackview.Login(ctx, openstackreal.AuthURL, user, project, password)
	if err != nil {
		return Kind{}, err
	}
	compute, err := openstack.NewComputeV2(login, gophercloud.EndpointOpts{Region: region})
	if err != nil {
		return Kind{}, err
	}
	return Kind{&real{stack: stack, compute: compute, closeIdle: closeIdle}}, nil
}

func (r *real) places() places {
	return places{
		subnet: r.stack.Subnet(), external: r.stack.ExternalNetwork(), router: r.stack.Router(), flavor: r.stack.Flavor(),
	}
}

// server makes the server of a host. What fails is said when the cloud is opened.
func (r *real) server(h *cluster.Host) string {
	ctx := context.Background() //nolint:forbidigo // a Kind has no context
	if r.failure != nil {
		return ""
	}
	made, err := servers.Create(ctx, r.compute, servers.CreateOpts{
		Name: h.Name, ImageRef: r.stack.Image(), FlavorRef: r.stack.Flavor(),
		Networks: []servers.Network{{UUID: r.stack.Network(), FixedIP: h.PrivateIP}},
	}, nil).Extract()
	if err != nil {
		r.failure = fmt.Errorf("making server %s: %w", h.Name, err)
		return ""
	}
	r.made = append(r.made, made.ID)
	return made.ID
}

// starting is how long Nova may take for a server.
const starting = 3 * time.Minute

func (r *real) open(hosts []*cluster.Host) (*opened, error) {
	ctx := context.Background() //nolint:forbidigo // a Kind has no context
	if r.failure != nil {
		return nil, errors.Join(r.failure, r.remove())
	}
	for _, h := range hosts {
		status := ""
		err := wait.PollUntilContextTimeout(ctx, time.Second, starting, true, func(ctx context.Context) (bool, error) {
			one, err := servers.Get(ctx, r.compute, h.InstanceID).Extract()
			if err != nil {
				return false, err
			}
			status = one.Status
			return status == "ACTIVE", nil
		})
		if err != nil {
			return nil, errors.Join(fmt.Errorf("server %s is %s: %w", h.Name, status, err), r.remove())
		}
	}
	return &opened{
		handler: newProxy(openstackreal.Endpoints), close: r.remove,
		authURL: openstackreal.AuthURL, viewer: openstackreal.Administrator, project: openstackreal.Administrator,
		password: openstackreal.Password,
	}, nil
}

// remove deletes the servers.
func (r *real) remove() error {
	ctx := context.Background() //nolint:forbidigo // it is the end
	defer r.closeIdle()
	var errs []error
	for _, id := range r.made {
		errs = append(errs, servers.Delete(ctx, r.compute, id).ExtractErr())
	}
	return errors.Join(errs...)
}

// newProxy has all services of a real OpenStack on one address, each below its name. Answers that name an address of a
// service name the proxy's: a client that has come by it stays on it.
func newProxy(endpoints map[string]string) http.Handler {
	return &httputil.ReverseProxy{
		Rewrite: func(r *httputil.ProxyRequest) {
			service, path, _ := strings.Cut(strings.TrimPrefix(r.In.URL.Path, "/"), "/")
			r.Out.URL.Scheme, r.Out.URL.Host = "http", endpoints[service]
			r.Out.URL.Path, r.Out.URL.RawPath = "/"+path, ""
			r.Out.Host = endpoints[service]
			r.Out.Header.Del("Accept-Encoding")
			r.SetXForwarded()
		},
		ModifyResponse: func(answer *http.Response) error {
			body, err := io.ReadAll(answer.Body)
			if err != nil {
				return err
			}
			if err := answer.Body.Close(); err != nil {
				return err
			}
			for service, address := range endpoints {
				own := "http://" + answer.Request.Header.Get("X-Forwarded-Host") + "/" + service
				body = bytes.ReplaceAll(body, []byte("http://"+address), []byte(own))
			}
			answer.Body = io.NopCloser(bytes.NewReader(body))
			answer.ContentLength = int64(len(body))
			answer.Header.Set("Content-Length", strconv.Itoa(len(body)))
			return nil
		},
	}
}
