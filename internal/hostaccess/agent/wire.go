package agent

import (
	"encoding/json"
	"io/fs"
	"time"

	v1 "github.com/transplant-dev/transplant/api/transplant/v1alpha1"
	"github.com/transplant-dev/transplant/internal/hostaccess"
	"github.com/transplant-dev/transplant/internal/hostaccess/local"
)

// Protocol is what both ends have to speak; an agent of another one is of another version of the program.
const Protocol = 2

// Prefix stands before the name of every method.
const Prefix = "/v1/"

// Headers of a call.
const (
	// CallHeader is the call's ID: 1 to 64 characters of the client's choice.
	CallHeader = "Transplant-Call"
)

// Methods of an agent.
const (
	MethodHello     = "hello"
	MethodRead      = "read"
	MethodList      = "list"
	MethodDigest    = "digest"
	MethodPlace     = "place"
	MethodProcesses = "processes"
	MethodActive    = "active"
	MethodRun       = "run"
	MethodWrite     = "write"
	MethodRemove    = "remove"
	MethodUnit      = "unit"
	MethodDial      = "dial"
)

// Verbs of MethodUnit.
const (
	VerbReload         = "daemon-reload"
	VerbRestart        = "restart"
	VerbStop           = "stop"
	VerbStart          = "start"
	VerbRestartKubelet = "restart-kubelet"
)

// Request is what a call asks for; each method reads its own fields.
type Request struct {
	Path      string              `json:"path,omitempty"`
	Data      []byte              `json:"data,omitempty"`
	Mode      fs.FileMode         `json:"mode,omitempty"`
	Component string              `json:"component,omitempty"`
	Unit      string              `json:"unit,omitempty"`
	Verb      string              `json:"verb,omitempty"`
	Command   *hostaccess.Command `json:"command,omitempty"`
	// Until is when a change may be begun at the latest, on the agent's clock (see Hello); zero where that depends on no
	// lock.
	Until time.Duration `json:"until,omitempty"`
	// Before are the files to put back when a restarted kubelet does not stay up.
	Before []hostaccess.GuardedFile `json:"before,omitempty"`
}

// Answer is what came of a call.
type Answer struct {
	Error *Error `json:"error,omitempty"`

	Data      []byte       `json:"data,omitempty"`
	Mode      fs.FileMode  `json:"mode,omitempty"`
	Modified  time.Time    `json:"modified,omitzero"`
	Names     []string     `json:"names,omitempty"`
	SHA256    string       `json:"sha256,omitempty"`
	Place     *local.Place `json:"place,omitempty"`
	Processes []v1.Process `json:"processes,omitempty"`
	Active    bool         `json:"active,omitempty"`
	Hello     *Hello       `json:"hello,omitempty"`
}

// Hello is who answers.
type Hello struct {
	Protocol int       `json:"protocol"`
	Now      time.Time `json:"now"`
	// Clock is what package boottime says where the agent runs. It has nothing to do with the time of day, and goes on
	// while that machine is suspended.
	Clock time.Duration `json:"clock"`
}

// Changes reports whether a method changes the host.
func Changes(method string) bool {
	return method == MethodWrite || method == MethodRemove || method == MethodUnit
}

// keepsResult reports whether the results of a method are kept: of those that change something, or whose repetition
// could.
func keepsResult(method string) bool {
	return Changes(method) || method == MethodRun
}

func encodeAnswer(a Answer) []byte {
	data, err := json.Marshal(a)
	if err != nil { // names of files that are no text are replaced, so nothing here can fail
		data, _ = json.Marshal(Answer{Error: &Error{Message: "encoding the answer: " + err.Error()}})
	}
	return data
}
