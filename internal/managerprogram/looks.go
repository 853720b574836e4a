package managerprogram

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"

	"github.com/go-logr/logr"
	"github.com/spf13/cobra"
	"k8s.io/klog/v2"

	v1 "github.com/transplant-dev/transplant/api/transplant/v1alpha1"
	"github.com/transplant-dev/transplant/internal/cloudprogram"
	"github.com/transplant-dev/transplant/internal/inventory"
	"github.com/transplant-dev/transplant/internal/preview"
)

// Looks are what a provider's program answers to transplant about a cloud, without a manager running. One that is nil
// is no sub-command of the program.
type Looks struct {
	// Inventory opens what the cloud holds for a cluster, by the settings of --cloud.
	Inventory func(ctx context.Context, settings map[string]string) (inventory.Source, error)
	// Preview opens the provider itself, by its cloud config, to be asked about these nodes.
	Preview func(ctx context.Context, cloudConfig []byte, nodes []v1.Node) (*preview.Source, error)
	// Orphans says what may be removed of Services that are gone, by the settings of --cloud, and removes one of it. It
	// is the only one that changes something.
	Orphans OrphansFunc
}

// OrphansFunc answers a question about orphans.
type OrphansFunc func(
	ctx context.Context,
	settings map[string]string,
	nodes []v1.Node,
	q cloudprogram.OrphanQuestion,
) ([]v1.Orphan, error)

// Commands are the sub-commands for what there is.
func (l Looks) Commands(version string) []*cobra.Command {
	var out []*cobra.Command
	if l.Inventory != nil {
		out = append(out, command(
			cloudprogram.Inventory, version,
			"Answer what the cloud holds for a cluster, as transplant --cloud asks: JSON in and out",
			l.inventory,
		))
	}
	if l.Preview != nil {
		out = append(out, command(
			cloudprogram.Preview, version,
			"Answer what this manager would write about nodes, as transplant --prove asks: JSON in and out",
			l.preview,
		))
	}
	if l.Orphans != nil {
		out = append(out, command(
			cloudprogram.Orphans, version,
			"Answer what is left of Services that are gone, and remove it, as transplant remove-orphans asks: JSON in and out",
			l.orphans,
		))
	}
	return out
}

func (l Looks) orphans(ctx context.Context, q cloudprogram.Question, a *cloudprogram.Answer) (err error) {
	if q.Orphans == nil {
		return errors.New("the question names no objects")
	}
	a.Orphans, err = l.Orphans(ctx, q.Settings, q.Nodes, *q.Orphans)
	return err
}

func (l Looks) inventory(ctx context.Context, q cloudprogram.Question, a *cloudprogram.Answer) error {
	source, err := l.Inventory(ctx, q.Settings)
	if err == nil && !q.OnlyOpen {
		a.Inventory = source.Inventory(ctx, q.Nodes)
	}
	return err
}

func (l Looks) preview(ctx context.Context, q cloudprogram.Question, a *cloudprogram.Answer) error {
	source, err := l.Preview(ctx, q.CloudConfig, q.Nodes)
	if err == nil && !q.OnlyOpen {
		a.Preview = source.Preview(ctx, q.Nodes)
	}
	return err
}

type answerFunc func(context.Context, cloudprogram.Question, *cloudprogram.Answer) error

func command(name, version, short string, answer answerFunc) *cobra.Command {
	return &cobra.Command{
		Use: name, Short: short, Args: cobra.NoArgs, SilenceUsage: true,
		RunE: func(cmd *cobra.Command, _ []string) error {
			klog.SetLogger(logr.Discard()) // the provider's code logs what it does as if it were the manager
			return serve(cmd.Context(), cmd.InOrStdin(), cmd.OutOrStdout(), version, answer)
		},
	}
}

// serve answers one question. What is wrong with it or with the cloud is an answer, too. The error is that there is
// none.
func serve(ctx context.Context, in io.Reader, out io.Writer, version string, answer answerFunc) error {
	if ctx == nil {
		return errors.New("the command was run without a context")
	}
	ctx, cancel := context.WithTimeout(ctx, cloudprogram.TimeLimit)
	defer cancel()
	a := cloudprogram.Answer{Protocol: cloudprogram.Protocol, Version: version}
	var q cloudprogram.Question
	if err := json.NewDecoder(in).Decode(&q); err != nil {
		return fmt.Errorf("reading the question from standard input, where transplant writes it: %w", err)
	}
	if q.Protocol != cloudprogram.Protocol {
		a.Error = fmt.Sprintf(
			"transplant asks by protocol %d, and this program answers by %d: use both of the same release",
			q.Protocol,
			cloudprogram.Protocol,
		)
	} else if err := answer(ctx, q, &a); err != nil {
		a.Error = err.Error()
	}
	return json.NewEncoder(out).Encode(a)
}
