package observe

import (
	"context"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"time"

	"github.com/prometheus/client_golang/api"
	promv1 "github.com/prometheus/client_golang/api/prometheus/v1"
	"sigs.k8s.io/yaml"

	"github.com/transplant-dev/transplant/lab/apiserver/process"
	"github.com/transplant-dev/transplant/lab/build"
	"github.com/transplant-dev/transplant/lab/poll"
)

// RulesFile holds the rules, below the root of the repository.
const RulesFile = "deploy/monitoring/rules.yaml"

// Interval is the time between two scrapes, and between two evaluations of the rules.
const Interval = 2 * time.Second

// Job is what is scraped in the same way.
type Job struct {
	Name    string
	Targets []string // host:port
	// Token is that of an account that may get /metrics; empty for plain HTTP without one.
	Token string
	// Labels are added to every series.
	Labels map[string]string
}

// Options describe a Prometheus.
type Options struct {
	// Dir holds everything that is written. It must exist.
	Dir      string
	Jobs     []Job
	Progress io.Writer
}

// Prometheus is one that runs, with the rules of the repository.
type Prometheus struct {
	promv1.API

	process *process.Process
	log     string
}

// startTimeout bounds a start, also on a busy machine.
const startTimeout = time.Minute

// Start starts a Prometheus and waits until it answers. The caller stops it.
func Start(ctx context.Context, o Options) (*Prometheus, error) {
	program, err := Program(ctx, o.Progress)
	if err != nil {
		return nil, err
	}
	root, err := build.FindRoot()
	if err != nil {
		return nil, err
	}
	config, err := o.config(filepath.Join(root, RulesFile))
	if err != nil {
		return nil, err
	}
	file := filepath.Join(o.Dir, "prometheus.yaml")
	if err := os.WriteFile(file, config, 0o600); err != nil {
		return nil, fmt.Errorf("writing Prometheus' configuration: %w", err)
	}
	address, err := freeAddress()
	if err != nil {
		return nil, err
	}
	client, err := api.NewClient(api.Config{Address: "http://" + address})
	if err != nil {
		return nil, fmt.Errorf("making a client of Prometheus: %w", err)
	}
	p := &Prometheus{API: promv1.NewAPI(client), log: filepath.Join(o.Dir, "prometheus.log")}
	p.process, err = process.Start(process.Options{
		Name: programName, Path: program, Dir: o.Dir, Output: p.log,
		Args: []string{
			"--config.file=" + file,
			"--storage.tsdb.path=" + filepath.Join(o.Dir, "data"),
			"--web.listen-address=" + address,
		},
	})
	if err != nil {
		return nil, err
	}
	if err := p.awaitReady(ctx); err != nil {
		p.Stop()
		return nil, err
	}
	return p, nil
}

// Stop ends it.
func (p *Prometheus) Stop() { p.process.Kill() }

func (p *Prometheus) awaitReady(ctx context.Context) error {
	err := poll.Within(ctx, Interval/10, startTimeout, "it to answer", func(ctx context.Context) error {
		select {
		case <-p.process.Done():
			return poll.Final(fmt.Errorf("it has ended: %w", p.process.Err()))
		default:
		}
		_, err := p.Runtimeinfo(ctx)
		return err
	})
	if err != nil {
		log, _ := os.ReadFile(p.log) // the error is about something else
		return fmt.Errorf("starting Prometheus: %w\n%s", err, log[max(0, len(log)-3000):])
	}
	return nil
}

// config is Prometheus' configuration. Tokens are in files, which only their owner may read.
func (o Options) config(rules string) ([]byte, error) {
	var jobs []map[string]any
	for _, j := range o.Jobs {
		job := map[string]any{
			"job_name":       j.Name,
			"static_configs": []map[string]any{{"targets": j.Targets, "labels": j.Labels}},
		}
		if j.Token != "" {
			file := filepath.Join(o.Dir, j.Name+".token")
			if err := os.WriteFile(file, []byte(j.Token), 0o600); err != nil {
				return nil, fmt.Errorf("writing the token of job %s: %w", j.Name, err)
			}
			job["scheme"] = "https"
			job["tls_config"] = map[string]any{"insecure_skip_verify": true} // managers sign for themselves
			job["authorization"] = map[string]any{"credentials_file": file}
		}
		jobs = append(jobs, job)
	}
	return yaml.Marshal(map[string]any{
		"global": map[string]any{
			"scrape_interval": Interval.String(), "scrape_timeout": Interval.String(), "evaluation_interval": Interval.String(),
		},
		"rule_files":     []string{rules},
		"scrape_configs": jobs,
	})
}

// freeAddress is a port of loopback on which nothing listens.
func freeAddress() (string, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", fmt.Errorf("finding a port for Prometheus: %w", err)
	}
	defer l.Close()
	return l.Addr().String(), nil
}
