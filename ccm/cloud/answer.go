package cloud

import (
	"errors"
	"net/http"
	"reflect"
	"strings"
)

// answer is what the error of an SDK says that the cloud answered.
type answer struct {
	status int    // of HTTP; 0 if it is not known
	code   string // the cloud's own, "InvalidInstanceID.NotFound"
}

// answerOf looks for an answer of the cloud in an error and in everything that it wraps. SDKs share no interface. Those of AWS (smithy), hcloud and the
// lab's have methods; those of Azure, Google, gophercloud, Linode and DigitalOcean have fields. None is imported.
func answerOf(err error) answer {
	var a answer
	walk(err, func(err error) bool {
		a.methods(err)
		if a.status == 0 {
			a.fields(err)
		}
		return a.status == 0 || a.code == ""
	})
	return a
}

// walk visits an error and what it wraps, until visit has seen enough.
func walk(err error, visit func(error) bool) bool {
	for err != nil {
		if !visit(err) {
			return false
		}
		if many, ok := err.(interface{ Unwrap() []error }); ok { //nolint:errorlint // this is the walk
			for _, one := range many.Unwrap() {
				if !walk(one, visit) {
					return false
				}
			}
			return true
		}
		err = errors.Unwrap(err)
	}
	return true
}

func (a *answer) methods(err error) {
	if a.status == 0 {
		switch e := err.(type) { //nolint:errorlint // this is the walk
		case interface{ HTTPStatusCode() int }:
			a.status = status(e.HTTPStatusCode())
		case interface{ StatusCode() int }:
			a.status = status(e.StatusCode())
		case interface{ GetStatusCode() int }:
			a.status = status(e.GetStatusCode())
		}
	}
	if a.code == "" {
		switch e := err.(type) { //nolint:errorlint // this is the walk
		case interface{ ErrorCode() string }:
			a.code = e.ErrorCode()
		case interface{ ServiceErrorCode() string }:
			a.code = e.ServiceErrorCode()
		}
	}
}

// The names that SDKs give to fields with an HTTP status, a code, and the response.
var (
	statusFields   = []string{"StatusCode", "HTTPStatusCode", "Code", "Actual"}
	codeFields     = []string{"ErrorCode", "Code"}
	responseFields = []string{"Response", "RawResponse"}
)

// fields reads an error's exported fields. A field with the right name and another meaning is a number that is no error status, or text that no cloud uses.
func (a *answer) fields(err error) {
	v := reflect.ValueOf(err)
	for v.Kind() == reflect.Pointer && !v.IsNil() {
		v = v.Elem()
	}
	if v.Kind() != reflect.Struct {
		return
	}
	for _, name := range statusFields {
		if f := field(v, name); f.IsValid() && f.CanInt() && a.status == 0 {
			a.status = status(int(f.Int()))
		}
	}
	for _, name := range responseFields {
		if f := field(v, name); f.IsValid() && a.status == 0 {
			a.status = statusOf(f.Interface())
		}
	}
	for _, name := range codeFields {
		if f := field(v, name); f.Kind() == reflect.String && a.code == "" && !strings.Contains(f.String(), " ") {
			a.code = f.String()
		}
	}
}

// field is an exported field of a struct's own, or no value.
func field(v reflect.Value, name string) reflect.Value {
	f, ok := v.Type().FieldByName(name)
	if !ok || !f.IsExported() || len(f.Index) > 1 { // an embedded pointer may be nil
		return reflect.Value{}
	}
	value := v.FieldByIndex(f.Index)
	if value.Kind() == reflect.Interface {
		value = value.Elem()
	}
	return value
}

// statusOf is the status of a response.
func statusOf(value any) int {
	if response, ok := value.(*http.Response); ok && response != nil {
		return status(response.StatusCode)
	}
	return 0
}

// status is a status that says that something went wrong, or 0.
func status(code int) int {
	if ofStatus(code) == "" {
		return 0
	}
	return code
}
