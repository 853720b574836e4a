package admission

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"reflect"
	"sync/atomic"

	admissionv1 "k8s.io/api/admission/v1"

	kubermatic "github.com/transplant-dev/transplant/api/kubermatic/v1"
	"github.com/transplant-dev/transplant/internal/jsonweight"
)

const (
	// maxReview is, in bytes, more than two objects of the largest size that etcd takes.
	maxReview = 8 << 20
	// maxMemory bounds what a review takes when it is decoded, and each object in it: an element of a list is two bytes
	// of it.
	maxMemory = 16 << 20
	// maxTogether bounds what all reviews take that are answered at the same time. That of a Cluster takes some 100 KiB.
	maxTogether = 96 << 20
)

// reviewMemory is what the reviews take that are being answered. Every client that reaches the port may send some.
type reviewMemory struct {
	most int64
	held atomic.Int64
}

// share is what one review takes.
type share struct {
	of   *reviewMemory
	held int64
}

// tooLargeError is the status that a review is refused with.
type tooLargeError int

func (e tooLargeError) Error() string { return fmt.Sprintf("refused with status %d", int(e)) }

// reserveMemory counts bytes, and is an error where there are too many of all reviews.
func (s *share) reserveMemory(bytes int64) error {
	s.held += bytes
	if s.of.held.Add(bytes) > s.of.most {
		return tooLargeError(http.StatusServiceUnavailable)
	}
	return nil
}

func (s *share) releaseMemory() { s.of.held.Add(-s.held) }

// counted is a body whose bytes are counted as they come.
type counted struct {
	io.Reader
	share *share
}

func (c counted) Read(p []byte) (int, error) {
	n, err := c.Reader.Read(p)
	if over := c.share.reserveMemory(int64(n)); over != nil {
		return n, over
	}
	return n, err
}

// decode reads a review, and counts what it takes.
func (s *share) decode(body io.Reader) (*admissionv1.AdmissionReview, error) {
	data, err := io.ReadAll(counted{body, s})
	if err != nil {
		return nil, err
	}
	var out admissionv1.AdmissionReview
	if err := s.reserveDocument(data, reflect.TypeFor[admissionv1.AdmissionReview]()); err != nil {
		return nil, err
	}
	if err := json.Unmarshal(data, &out); err != nil || out.Request == nil {
		return &out, err
	}
	for _, raw := range [][]byte{out.Request.Object.Raw, out.Request.OldObject.Raw} {
		// as a Cluster for the rules, and as it is for a patch
		for _, as := range []reflect.Type{reflect.TypeFor[kubermatic.Cluster](), reflect.TypeFor[any]()} {
			if err := s.reserveDocument(raw, as); err != nil {
				return nil, err
			}
		}
	}
	return &out, nil
}

// reserveDocument takes what a document will take, and its bytes, which are kept besides.
func (s *share) reserveDocument(data []byte, into reflect.Type) error {
	weight, err := jsonweight.Of(data, into, maxMemory)
	if _, heavy := errors.AsType[*jsonweight.TooHeavyError](err); heavy {
		return tooLargeError(http.StatusRequestEntityTooLarge)
	}
	if err != nil {
		return err
	}
	return s.reserveMemory(int64(len(data)) + weight)
}
