package migrate

import (
	"context"
	"errors"

	v1 "github.com/transplant-dev/transplant/api/transplant/v1alpha1"
)

// apply carries a step's edits out on the files of its unit and returns those that change.
func (x unit) apply(context.Context, v1.Step) (map[string][]byte, error) {
	return nil, errors.New("unit files are not read yet")
}

// flags are those that the files of a unit say it runs with.
func (x unit) flags(context.Context, v1.Step) (map[string]string, error) {
	return nil, errors.New("unit files are not read yet")
}
