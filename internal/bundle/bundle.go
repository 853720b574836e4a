// Package bundle decides what of a cluster and of a migration is handed on to ask for help. It says which files there
// are, how large they may be, and what of them is masked.
//
// A bundle leaves the cluster, and is read by people who may not read the cluster. So no Secret is read for it, and
// each text goes through package mask once more, whatever it went through before. The names of its files are this
// program's own, since a pod is called what its author likes.
package bundle

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"time"

	v1 "github.com/transplant-dev/transplant/api/transplant/v1alpha1"
	"github.com/transplant-dev/transplant/internal/mask"
	"github.com/transplant-dev/transplant/internal/visible"
)

// Options bound a bundle.
type Options struct {
	// MaxBytes bounds all files together, unpacked.
	MaxBytes int64
	// Timeout bounds the whole, LogTimeout one log.
	Timeout, LogTimeout time.Duration
	// Lines and LogBytes bound one log, of which the end is kept.
	Lines    int64
	LogBytes int
	// Since leaves out what logs and events say of the time before; zero for nothing.
	Since time.Time
}

// Usual bounds. That of one log is below the one of a request, which would not say which log it was.
const (
	DefaultMaxBytes   = 50 << 20
	DefaultTimeout    = 5 * time.Minute
	DefaultLogTimeout = 10 * time.Second
	DefaultLines      = 5000
	DefaultLogBytes   = 2 << 20
	// MinBytes is the least that a bundle may be bounded to: the documents of a small cluster.
	MinBytes = 1 << 20
)

// Nothing says that there is nothing to put into a file. That is no failure.
type Nothing string

func (n Nothing) Error() string { return string(n) }

// Document is a file of a bundle that is written as JSON.
type Document struct {
	// Name in the archive, which must be this program's own, and What it is.
	Name, What string
	// Read returns the document. Its error may be a Nothing.
	Read func(context.Context) (any, error)
}

// Bundle is what was gathered so far.
type Bundle struct {
	options  Options
	manifest v1.BundleManifest
	files    []file
	timedOut bool
}

// file is a file of a bundle, with a sum and a size once it is known what of it is left.
type file struct {
	v1.BundleFile
	data []byte
	// isLog: its end alone may be kept.
	isLog bool
}

// New returns a bundle that holds nothing. The header is the manifest without its files.
func New(header v1.BundleManifest, o Options) *Bundle {
	header.TypeMeta = v1.Type(v1.KindBundleManifest)
	header.Limits = v1.BundleLimits{
		MaxBytes:          o.MaxBytes,
		LogBytes:          o.LogBytes,
		LogLines:          o.Lines,
		Since:             o.Since,
		TimeoutSeconds:    o.Timeout.Seconds(),
		LogTimeoutSeconds: o.LogTimeout.Seconds(),
	}
	return &Bundle{options: o, manifest: header}
}

// Note adds a sentence to the manifest.
func (b *Bundle) Note(sentence string) { b.manifest.Notes = append(b.manifest.Notes, clean(sentence)) }

// Lack says in the manifest what could not be read.
func (b *Bundle) Lack(what string, err error) {
	if isOver(err) {
		b.timedOut = true
	}
	b.manifest.Missing = append(
		b.manifest.Missing,
		v1.BundleGap{What: clean(what), Error: visible.Cut(clean(mask.Error(err)), maxReason)},
	)
}

// IsTimedOut reports whether the time was over before all was read.
func (b *Bundle) IsTimedOut() bool { return b.timedOut }

// maxReason bounds what is said of a failure: the other end of a connection has its words in it.
const maxReason = 2 << 10

func clean(text string) string { return visible.Line(mask.Text(text)) }

// ErrOver says that no time was left for a part.
var ErrOver = errors.New("the time was over before it was read: give more with --timeout")

func isOver(err error) bool { return errors.Is(err, ErrOver) }

// Add reads a document. What cannot be read is said in the manifest.
func (b *Bundle) Add(ctx context.Context, d Document) {
	if ctx.Err() != nil {
		b.Lack(d.Name, ErrOver)
		return
	}
	doc, err := d.Read(ctx)
	var nothing Nothing
	switch {
	case errors.As(err, &nothing):
		b.Note(d.Name + " is not there: " + string(nothing))
		return
	case err != nil && ctx.Err() != nil:
		err = fmt.Errorf("%w (%w)", ErrOver, err)
	case err == nil:
		var data []byte
		if data, err = encodeDocument(doc); err == nil {
			b.files = append(b.files, file{BundleFile: v1.BundleFile{Name: d.Name, What: d.What}, data: data})
			return
		}
	}
	b.Lack(d.Name, err)
}

// Manifest is the manifest of all that was gathered, with what is left out to keep the bound of the size.
func (b *Bundle) Manifest() v1.BundleManifest {
	m, _ := b.fit()
	return m
}

// manifestBytes are kept free for the manifest.
const manifestBytes = 256 << 10

// fit decides what has room: documents first, then what runs now, then what ran before. Of a log the end has room.
func (b *Bundle) fit() (v1.BundleManifest, []file) {
	m := b.manifest
	m.Missing = append([]v1.BundleGap(nil), m.Missing...)
	left := b.options.MaxBytes - manifestBytes
	kept := make([]*file, len(b.files))
	for _, wanted := range []func(file) bool{
		func(f file) bool { return !f.isLog },
		func(f file) bool { return f.isLog && !f.Previous },
		func(f file) bool { return f.isLog && f.Previous },
	} {
		for i, f := range b.files {
			if !wanted(f) {
				continue
			}
			if int64(len(f.data)) > left && f.isLog {
				f.data = newestLines(f.data, int(left))
				f.Cut = join(f.Cut, "older lines: --max-size left room for these alone")
			}
			if int64(len(f.data)) > left || f.isLog && len(f.data) == 0 && len(b.files[i].data) > 0 {
				m.Missing = append(m.Missing, v1.BundleGap{What: f.Name, Error: fmt.Sprintf(
					"it has %s, and --max-size leaves room for %s", Size(int64(len(b.files[i].data))), Size(left),
				)})
				continue
			}
			left -= int64(len(f.data))
			sum := sha256.Sum256(f.data)
			f.Bytes, f.SHA256 = int64(len(f.data)), hex.EncodeToString(sum[:])
			kept[i] = &f
		}
	}
	var out []file
	m.Files = []v1.BundleFile{}
	for _, f := range kept {
		if f != nil {
			out = append(out, *f)
			m.Files = append(m.Files, f.BundleFile)
		}
	}
	return m, out
}

func join(a, b string) string {
	if a == "" {
		return b
	}
	return a + "; " + b
}

// Size is a number of bytes in words.
func Size(bytes int64) string {
	switch {
	case bytes < 1<<10:
		return fmt.Sprintf("%d bytes", bytes)
	case bytes < 1<<20:
		return fmt.Sprintf("%d KiB", (bytes+1<<9)>>10)
	}
	return fmt.Sprintf("%.1f MiB", float64(bytes)/(1<<20))
}
