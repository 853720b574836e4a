// Package vsphereccm decides whether our vSphere provider behaves on the wire as it should: its tests run it, on real
// govmomi, against govmomi's own simulated vCenter, and its program against a real kube-apiserver and etcd.
package vsphereccm
