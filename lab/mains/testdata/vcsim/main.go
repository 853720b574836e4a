// Command vcsim is a simulated vCenter with one virtual machine that is to become a node.
package main

import (
	"crypto/tls"
	"flag"
	"log"
	"net/url"
	"os"
	"os/signal"
	"syscall"

	"github.com/vmware/govmomi/simulator"
	_ "github.com/vmware/govmomi/vapi/simulator" // sessions and tags
	"github.com/vmware/govmomi/vim25/types"
)

func main() {
	listen := flag.String("listen", "", "host:port to serve at")
	host := flag.String("host", "", "host name that the guest reports")
	address := flag.String("address", "", "address that the guest reports")
	uuid := flag.String("uuid", "", "UUID of the virtual machine")
	flag.Parse()

	model := simulator.VPX()
	if err := model.Create(); err != nil {
		log.Fatal(err)
	}
	defer model.Remove()
	vm := model.Map().Any("VirtualMachine").(*simulator.VirtualMachine)
	vm.Config.Uuid, vm.Summary.Config.Uuid = *uuid, *uuid
	vm.Guest.HostName = *host
	vm.Guest.Net = []types.GuestNicInfo{{Network: "VM Network", IpAddress: []string{*address}, DeviceConfigId: 4000}}

	model.Service.Listen = &url.URL{Host: *listen}
	model.Service.TLS = new(tls.Config)
	model.Service.RegisterEndpoints = true
	server := model.Service.NewServer()
	defer server.Close()
	ended := make(chan os.Signal, 1)
	signal.Notify(ended, syscall.SIGTERM)
	<-ended
}
