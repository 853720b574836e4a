package aws

import (
	"testing"

	"go.uber.org/goleak"
)

// The provider's batchers are never told to stop.
func TestMain(m *testing.M) {
	goleak.VerifyTestMain(m, goleak.IgnoreAnyFunction("k8s.io/cloud-provider-aws/pkg/providers/v1/batcher.(*Batcher[...]).run"))
}
