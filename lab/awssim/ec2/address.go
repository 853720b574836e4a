package ec2

import (
	"fmt"
	"net/netip"
	"strings"
)

// NumberOf is a number made from an address, so that ids and hardware addresses are the same in every run. It is 0 for
// what is no IPv4 address.
func NumberOf(ip string) uint32 {
	a, err := netip.ParseAddr(ip)
	if err != nil || !a.Is4() {
		return 0
	}
	b := a.As4()
	return uint32(b[0])<<24 | uint32(b[1])<<16 | uint32(b[2])<<8 | uint32(b[3])
}

// InstanceID is the id of the instance with this address, when nobody chose one.
func InstanceID(ip string) string { return fmt.Sprintf("i-%017x", NumberOf(ip)) }

// MAC is the hardware address of the interface with this address.
func MAC(ip string) string {
	n := NumberOf(ip)
	return fmt.Sprintf("0a:00:%02x:%02x:%02x:%02x", byte(n>>24), byte(n>>16), byte(n>>8), byte(n))
}

// PrivateDNS is the IP-based host name that EC2 gives ("Amazon EC2 instance hostname types" in its user guide):
// us-east-1 has a domain of its own.
func PrivateDNS(ip, region string) string {
	domain := region + ".compute.internal"
	if region == "us-east-1" {
		domain = "ec2.internal"
	}
	return "ip-" + strings.ReplaceAll(ip, ".", "-") + "." + domain
}
