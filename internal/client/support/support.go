// Package support gathers a support bundle: of a cluster with its own control plane, and of one whose control plane a
// seed hosts. What a bundle may hold, and how large it may be, is for package bundle to say.
package support

import (
	"context"
	"errors"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	v1 "github.com/transplant-dev/transplant/api/transplant/v1alpha1"
	"github.com/transplant-dev/transplant/internal/bundle"
	"github.com/transplant-dev/transplant/internal/check"
	"github.com/transplant-dev/transplant/internal/client"
	"github.com/transplant-dev/transplant/internal/component"
	"github.com/transplant-dev/transplant/internal/english"
	"github.com/transplant-dev/transplant/internal/mask"
	"github.com/transplant-dev/transplant/internal/migrate/journal"
	"github.com/transplant-dev/transplant/internal/migrate/trust"
	"github.com/transplant-dev/transplant/internal/status"
)

// noMigration is said of the files of a migration where none was started.
const noMigration = bundle.Nothing("no migration was started on this cluster")

// neverThere are said of every bundle.
var neverThere = []string{
	"No Secret was read, and no file of a host is in here. Of cloud configs the names are kept, and of environments what has not the name of a secret.",
	"What objects were like before a step changed them is left out of the journal.",
	"What looks like a secret is masked. A secret under a harmless name may not: look through the logs.",
}

// Of gathers a bundle of a cluster that runs its own control plane. The client is not connected yet. An error says that
// there is none: the API server was not reached, or the command was interrupted.
func Of(ctx context.Context, c *client.Client, o bundle.Options) (*bundle.Bundle, error) {
	if err := c.Connect(); err != nil {
		return nil, err
	}
	limited, cancel := context.WithTimeout(ctx, o.Timeout)
	defer cancel()
	doc, journalErr := status.ReadJournal(limited, c.Kube)
	cluster := c.DescribeCluster(limited, doc)
	c.NameCluster(cluster)
	b := newBundle(cluster, doc, o)
	b.Add(limited, versions(c.Kube, nil))
	addJournal(limited, b, doc, journalErr)
	if board, err := c.NewBoard(limited, false); err != nil {
		b.Lack("status.json and timeline.json", err)
	} else {
		board.Look(limited)
		addBoard(limited, b, c, board)
	}
	addControlPlane(limited, b, controlPlane{kube: c.Kube, namespace: component.Namespace, nodesOf: c.Kube})
	addSnapshot(limited, b, c, doc)
	return b, context.Cause(ctx)
}

func newBundle(cluster v1.Cluster, doc *v1.Journal, o bundle.Options) *bundle.Bundle {
	header := v1.BundleManifest{ToolVersion: client.Version, Created: client.Now().UTC(), Cluster: cluster}
	if doc != nil {
		header.Run = doc.Run
	}
	b := bundle.New(header, o)
	for _, sentence := range neverThere {
		b.Note(sentence)
	}
	return b
}

func versions(kube, seed kubernetes.Interface) bundle.Document {
	return bundle.Document{
		Name: "versions.json", What: "versions of transplant, of the API server and of the nodes",
		Read: func(ctx context.Context) (any, error) { return bundle.Versions(ctx, client.Version, kube, seed) },
	}
}

// addJournal adds the journal, and the plan in it.
func addJournal(ctx context.Context, b *bundle.Bundle, doc *v1.Journal, err error) {
	if err == nil && doc == nil || errors.Is(err, journal.ErrNoJournal) {
		err = noMigration
	}
	b.Add(ctx, bundle.Document{
		Name: "journal.json", What: "the journal of the migration, without what objects were like before",
		Read: func(context.Context) (any, error) {
			if err != nil {
				return nil, err
			}
			return withoutBackups(*doc), nil
		},
	})
	b.Add(ctx, bundle.Document{
		Name: "plan.json", What: "the plan of the migration", Read: func(context.Context) (any, error) {
			if err != nil {
				return nil, err
			}
			return doc.Plan, nil
		},
	})
}

// withoutBackups is a journal without what its records keep for a rollback. These are pieces of objects as they were,
// and may hold what no rule knows for a secret.
func withoutBackups(doc v1.Journal) v1.Journal {
	doc.TypeMeta = v1.Type(v1.KindJournal)
	doc.Records = append([]v1.StepRecord(nil), doc.Records...)
	for i := range doc.Records {
		r := &doc.Records[i]
		if r.Before != "" {
			r.Before = fmt.Sprintf("(left out: %s)", bundle.Size(int64(len(r.Before))))
		}
		r.Flags = mask.Map(r.Flags)
	}
	return doc
}

func addBoard(ctx context.Context, b *bundle.Bundle, c *client.Client, board *status.Board) {
	b.Add(ctx, bundle.Document{
		Name: "status.json", What: "what transplant status says",
		Read: func(context.Context) (any, error) { return status.Judge(board.Facts()), nil },
	})
	b.Add(ctx, bundle.Document{
		Name: "timeline.json", What: "what transplant timeline says, with the logs of this machine",
		Read: func(context.Context) (any, error) {
			t, _, err := client.Timeline(c, board, time.Time{}, "")
			return t, err
		},
	})
}

// controlPlane is where the pods of a control plane run, and whose Nodes it has.
type controlPlane struct {
	kube      kubernetes.Interface
	namespace string
	nodesOf   kubernetes.Interface
}

// addControlPlane adds what the API says of the control plane's pods: their statuses, events, Leases and logs.
func addControlPlane(ctx context.Context, b *bundle.Bundle, of controlPlane) {
	var pods []corev1.Pod
	known := false
	b.Add(ctx, bundle.Document{
		Name: "pods.json", What: "statuses of the pods of kube-apiserver and of the managers",
		Read: func(ctx context.Context) (any, error) {
			found, left, err := bundle.Pods(ctx, of.kube, of.namespace)
			pods, known = found, err == nil
			return bundle.DescribePods(found, left), err
		},
	})
	b.Add(ctx, bundle.Document{
		Name: "leases.json", What: "Leases of namespace " + of.namespace,
		Read: func(ctx context.Context) (any, error) { return bundle.Leases(ctx, of.kube, of.namespace) },
	})
	b.Add(ctx, bundle.Document{
		Name: "events.json", What: "events of namespace " + of.namespace,
		Read: func(ctx context.Context) (any, error) { return b.Events(ctx, of.kube, of.namespace, "") },
	})
	b.Add(ctx, bundle.Document{
		Name: "node-events.json", What: "events about Nodes",
		Read: func(ctx context.Context) (any, error) {
			return b.Events(ctx, of.nodesOf, metav1.NamespaceDefault, "Node")
		},
	})
	if !known {
		b.Lack("logs", errors.New("the pods of the control plane are not known: see pods.json"))
	}
	b.AddLogs(ctx, of.kube, pods)
}

// addSnapshot adds what is slow, last: the snapshot, for which hosts are reached, and what the checks say of it.
func addSnapshot(ctx context.Context, b *bundle.Bundle, c *client.Client, doc *v1.Journal) {
	o := client.PlanOptions{Options: v1.Options{LeaseName: component.MigrationLease}}
	if doc != nil && trust.CheckJournal(*doc, nil) == nil { // its options say which files of hosts are looked at
		o.Options = doc.Plan.Options
		o.Options.CredentialProvider = "" // a file of the machine that made the plan
		o.AcceptAs(&doc.Plan)
	}
	var snap *v1.Snapshot
	b.Add(ctx, bundle.Document{
		Name: "snapshot.json", What: "what transplant snapshot saves; transplant check --from-snapshot judges it",
		Read: func(ctx context.Context) (any, error) {
			if err := c.OpenHostsAndCloud(ctx); err != nil {
				c.Hosts = nil
				b.Lack("hosts and cloud, in snapshot.json", err)
			}
			snap = c.Gather(ctx, o.Options)
			if ctx.Err() != nil {
				b.Lack("part of snapshot.json", bundle.ErrOver)
			}
			noteErrors(b, snap)
			return snap, nil
		},
	})
	b.Add(ctx, bundle.Document{
		Name: "check.json", What: "what transplant check says of the snapshot",
		Read: func(context.Context) (any, error) {
			if snap == nil {
				return nil, errors.New("there is no snapshot to judge")
			}
			if err := o.Choose(c, snap); err != nil {
				return nil, err
			}
			return check.Run(snap, o.CheckOptions()), nil
		},
	})
}

// noteErrors says in the manifest that a snapshot names what it could not gather.
func noteErrors(b *bundle.Bundle, snap *v1.Snapshot) {
	if n := len(snap.Errors); n > 0 {
		b.Note(fmt.Sprintf("%s could not be gathered for snapshot.json, which lists them under errors.", english.Count(n, "fact")))
	}
}
