package hostaccess

import (
	"bytes"
	"path"
	"strconv"
	"syscall"
)

// other tells that a process certainly runs another program now, at the cost of three system calls: an owner's end is looked for fifty times a second, and a
// machine has hundreds of processes. It is false when in doubt, also about one that has no command line, unless it is a thread of the kernel.
func (l *local) other(pid, component string) bool {
	var buffer [512]byte
	data, ok := peek(l.proc+"/"+pid+"/cmdline", buffer[:])
	if !ok {
		return false
	}
	if program, _, cut := bytes.Cut(data, []byte{0}); cut {
		return !runs(path.Base(string(program)), component)
	}
	if len(data) > 0 {
		return false
	}
	data, ok = peek(l.proc+"/"+pid+"/stat", buffer[:])
	if !ok {
		return false
	}
	rest, ok := behindLast(data, ')')
	fields := bytes.Fields([]byte(rest))
	const flags = 9 - 3 // the first field after the name is the third
	if !ok || len(fields) <= flags {
		return false
	}
	value, err := strconv.ParseUint(string(fields[flags]), 10, 32)
	const kernelThread = 0x00200000 // PF_KTHREAD
	return err == nil && value&kernelThread != 0
}

// peek reads the beginning of a file of procfs.
func peek(name string, buffer []byte) ([]byte, bool) {
	fd, err := syscall.Open(name, syscall.O_RDONLY|syscall.O_CLOEXEC, 0)
	if err != nil {
		return nil, false
	}
	defer syscall.Close(fd) //nolint:errcheck // opened for reading
	n, err := syscall.Read(fd, buffer)
	if err != nil {
		return nil, false
	}
	return buffer[:n], true
}
