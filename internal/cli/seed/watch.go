package seed

import (
	"context"

	v1 "github.com/transplant-dev/transplant/api/transplant/v1alpha1"
	"github.com/transplant-dev/transplant/internal/cli/console"
	"github.com/transplant-dev/transplant/internal/cli/follow"
	"github.com/transplant-dev/transplant/internal/client/hostedrun"
	"github.com/transplant-dev/transplant/internal/status"
	"github.com/transplant-dev/transplant/internal/timeline"
)

// watchStatus shows the status until the run of the part ends.
func (h *Command) watchStatus(ctx context.Context) error {
	board, err := h.followed(ctx)
	if err != nil {
		return err
	}
	return follow.Status(ctx, h.Console, board, board.Status, follow.View{Output: h.output().Value, All: h.Verbose})
}

// Timeline says what happened when. No log of who held which lease is kept of a control plane in a seed.
func Timeline(ctx context.Context, h *Command) error {
	since, err := h.ParseSince(console.StringFlag(h.cmd, "since"))
	if err != nil {
		return err
	}
	build := func(f status.Facts) v1.Timeline { return timeline.Build(timeline.Input{Facts: f, Since: since}) }
	if console.BoolFlag(h.cmd, "watch") {
		board, err := h.followed(ctx)
		if err != nil {
			return err
		}
		return follow.Timeline(ctx, h.Console, board.Board, h.output().Value, func() (v1.Timeline, v1.Status, error) {
			f := board.Facts()
			return build(f), board.Judge(f), nil
		})
	}
	board := h.Migration.NewBoard(ctx, h.Plane)
	board.Board.Look(ctx) // the managers are not asked
	return follow.PrintTimeline(h.Console, h.output(), build(board.Facts()))
}

// followed is a board that follows both clusters.
func (h *Command) followed(ctx context.Context) (*hostedrun.Board, error) {
	w := console.WatchFlag{On: true}
	if err := w.CheckOutput(h.output().Value); err != nil {
		return nil, err
	}
	plane, err := h.reach.patient(*h.Plane)
	if err != nil {
		return nil, err
	}
	return h.Migration.NewBoard(ctx, plane), nil
}
