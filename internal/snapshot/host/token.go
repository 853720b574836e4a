package host

import (
	v1 "github.com/transplant-dev/transplant/api/transplant/v1alpha1"
	"github.com/transplant-dev/transplant/internal/boundtoken"
)

// DescribeToken keeps when a token expires, and nothing else of it.
func DescribeToken(from string, data []byte) *v1.ManagerToken {
	claims, err := boundtoken.Read(string(data))
	out := &v1.ManagerToken{Path: from, Expires: claims.Expires}
	if err != nil {
		out.Error = err.Error()
	}
	return out
}
