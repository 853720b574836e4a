package client

import (
	"context"
	"fmt"

	"github.com/gophercloud/gophercloud/v2/pagination"
)

// List returns all of a list, over its pages. Its error begins with what was being done, such as "listing ports".
func List[T any](
	ctx context.Context,
	doing string,
	pager pagination.Pager,
	extract func(pagination.Page) ([]T, error),
) ([]T, error) {
	pages, err := pager.AllPages(ctx)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", doing, Explain(err))
	}
	all, err := extract(pages)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", doing, err)
	}
	return all, nil
}
