package vsphere

import (
	"fmt"
	"slices"
	"strings"

	"github.com/transplant-dev/transplant/provider/vsphere/client"
)

// instanceType is the value of the node's label for it, as the external provider writes it. In tree it was empty.
func instanceType(m *client.Machine) string {
	return fmt.Sprintf("vsphere-vm.cpu-%d.mem-%dgb.os-%s", m.CPUs, m.MemoryMB/1024, guestOS(m.GuestID))
}

// plainGuests are the guests, without the suffix Guest, whose name in the label is their own without _64. The external
// provider knows these and the others below, and calls any later one unknown.
const plainGuests = ` asianux3_64 asianux3 asianux4_64 asianux4 asianux5_64 asianux7_64 centos6_64 centos64 centos6
 centos7_64 centos7 centos darwin debian10_64 debian10 debian4_64 debian4 debian5_64 debian5 debian6_64 debian6
 debian7_64 debian7 debian8_64 debian8 debian9_64 debian9 dos eComStation2 eComStation fedora freebsd mandrake mandriva
 netware4 netware5 netware6 nld9 oes openServer5 openServer6 opensuse oracleLinux6_64 oracleLinux6 oracleLinux7_64
 oracleLinux7 oracleLinux os2 other rhel2 rhel3_64 rhel3 rhel4_64 rhel4 rhel5_64 rhel5 rhel6_64 rhel6 rhel7_64 rhel7
 rhel8_64 rhel9_64 rhel10_64 sjds sles10_64 sles10 sles11_64 sles11 sles12_64 sles12 sles64 sles solaris10_64 solaris10
 solaris11_64 solaris6 solaris7 solaris8 solaris9 suse ubuntu vmkernel5 vmkernel65 vmkernel6 vmkernel win31 win95 win98 `

// lowerGuests are those whose name in the label is in small letters, without 64.
const lowerGuests = ` turboLinux64 turboLinux unixWare7 win2000AdvServ win2000Pro win2000Serv windowsHyperV
 winLonghorn64 winLonghorn winMe winNetBusiness winNetDatacenter64 winNetDatacenter winNetEnterprise64 winNetEnterprise
 winNetStandard64 winNetStandard winNetWeb winNT winVista64 winVista winXPHome winXPPro64 winXPPro `

// oddGuests are those that follow no rule.
var oddGuests = map[string]string{
	"genericLinux": "linux", "other24xLinux64": "linux", "other24xLinux": "linux", "other26xLinux64": "linux",
	"other26xLinux": "linux", "other3xLinux64": "linux", "other3xLinux": "linux", "otherLinux64": "linux",
	"otherLinux": "linux", "otherGuest64": "other", "redhat": "rhel", "vmwarePhoton64": "photon",
	"coreos64": "coreos", "fedora64": "fedora", "freebsd64": "freebsd", "mandriva64": "mandriva",
	"opensuse64": "opensuse", "oracleLinux64": "oracleLinux", "suse64": "suse", "ubuntu64": "ubuntu",
	"darwin64": "darwin", "darwin10_64": "darwin", "darwin10": "darwin", "darwin11_64": "darwin", "darwin11": "darwin",
	"darwin12_64": "darwin", "darwin13_64": "darwin", "darwin14_64": "darwin", "darwin15_64": "darwin",
	"darwin16_64": "darwin",
	"windows7_64": "win7", "windows7": "win7", "windows7Server64": "win7server",
	"windows8_64": "win8", "windows8": "win8", "windows8Server64": "win8server",
	"windows9_64": "win10", "windows9": "win10", "windows9Server64": "win10server",
}

// guestOS is the guest's name in the label.
func guestOS(id string) string {
	name := strings.TrimSuffix(id, "Guest")
	switch {
	case oddGuests[name] != "":
		return oddGuests[name]
	case hasName(plainGuests, name):
		return strings.TrimSuffix(name, "_64")
	case hasName(lowerGuests, name):
		return strings.ToLower(strings.TrimSuffix(name, "64"))
	}
	return "unknown"
}

func hasName(names, name string) bool { return slices.Contains(strings.Fields(names), name) }
