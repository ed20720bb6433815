package check

import (
	"bytes"
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"maps"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/kist-vcs/kist/remote"
	"github.com/kist-vcs/kist/remote/retry"
)

const (
	settling   = 10 * time.Second // longest delay of a list or a deletion
	cleaning   = 10 * time.Second // longest time for deleting the probes
	atOnce     = 8                // readers, deletions
	recordSize = 1000
)

// probe is the state of one Run.
type probe struct {
	b      remote.Backend // with retries
	o      Options
	prefix string
	random *rand.ChaCha8 // for data; not for concurrent use

	blob     string // name of the blob of putBlob
	blobData []byte

	mu       sync.Mutex
	names    int              // number of names given out
	used     map[string]bool  // names that may exist
	stored   map[string]int64 // names that exist, with sizes
	noDelete bool             // deletions are refused
}

func newProbe(b remote.Backend, o Options) (*probe, error) {
	var nonce [16]byte
	if _, err := io.ReadFull(o.Rand, nonce[:]); err != nil {
		return nil, fmt.Errorf("check store: %w", err)
	}

	var seed [32]byte
	copy(seed[:], nonce[:])
	return &probe{
		b:      retry.New(b, o.Retry),
		o:      o,
		prefix: "probe/" + hex.EncodeToString(nonce[:]) + "/",
		random: rand.NewChaCha8(seed),
		used:   map[string]bool{},
		stored: map[string]int64{},
	}, nil
}

// newName returns an unused name of a record or blob.
func (p *probe) newName(format string) string {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.names++
	name := p.prefix + fmt.Sprintf(format, p.names)
	p.used[name] = true
	return name
}

func (p *probe) newRecord() string { return p.newName("root/%020d") }
func (p *probe) newBlob() string   { return p.newName("packs/%020d") }

func (p *probe) isStored(name string, size int64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.stored[name] = size
}

// isEmpty reports whether nothing was stored yet.
func (p *probe) isEmpty() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return len(p.stored) == 0
}

func (p *probe) data(size int) []byte {
	data := make([]byte, size)
	_, _ = p.random.Read(data) // never fails
	return data
}

// createNew creates a record under a new name, after a lookup of the name.
func (p *probe) createNew(ctx context.Context, data []byte) (name string, err error) {
	return p.storeNew(ctx, "create", p.newRecord, int64(len(data)), func(ctx context.Context, name string) error {
		return p.b.Create(ctx, name, data)
	})
}

// putNew stores a blob under a new name, after a lookup of the name.
func (p *probe) putNew(ctx context.Context, data []byte) (name string, err error) {
	return p.storeNew(ctx, "put", p.newBlob, int64(len(data)), func(ctx context.Context, name string) error {
		return p.b.Put(ctx, name, bytes.NewReader(data), int64(len(data)))
	})
}

// storeNew makes a call with a new name for each attempt. It first looks each
// name up, because a store may remember that a name did not exist.
func (p *probe) storeNew(ctx context.Context, op string, newName func() string, size int64, call func(ctx context.Context, name string) error) (name string, err error) {
	err = retry.Do(ctx, p.o.Retry, op, func(ctx context.Context) error {
		name = newName()
		if err := p.isAbsent(ctx, name); err != nil {
			return err
		}
		return call(ctx, name)
	})

	switch {
	case err == nil:
		p.isStored(name, size)
	case errors.Is(err, remote.ErrPermission), errors.Is(err, remote.ErrUnsupported), errors.Is(err, remote.ErrNoStore):
		p.mu.Lock()
		delete(p.used, name)
		p.mu.Unlock()
	}

	return name, err
}

// isAbsent checks that a missing name is reported as missing.
func (p *probe) isAbsent(ctx context.Context, name string) error {
	for _, look := range []func() error{
		func() error { _, err := p.b.Get(ctx, name, make([]byte, 1), 0); return err },
		func() error { _, err := p.b.Stat(ctx, name); return err },
	} {
		switch err := look(); {
		case err == nil:
			return failed("%q was never stored, and was found", name)
		case errors.Is(err, remote.ErrPermission):
			return &finding{Failed, fmt.Sprintf("'not permitted' is the answer for a missing name: the credentials lack the permission to list (%v)", err), err}
		case errors.Is(err, remote.ErrNoStore) && p.isEmpty(): // a folder is made by the first write
		case !errors.Is(err, remote.ErrNotFound):
			return err
		}
	}

	return nil
}

// isThere reads a stored blob or record and compares all of it.
func (p *probe) isThere(ctx context.Context, name string, want []byte) error {
	got := make([]byte, len(want)+1)
	n, err := p.b.Get(ctx, name, got, 0)
	switch {
	case errors.Is(err, remote.ErrNotFound):
		return &finding{Failed, fmt.Sprintf("%q was stored, and is not found", name), err}
	case err != nil:
		return err
	case n != len(want):
		return failed("%q was stored with %d bytes, and %d came back", name, len(want), n)
	case !bytes.Equal(got[:n], want):
		return failed("%q was stored, and came back with other bytes", name)
	}

	return nil
}

// waitUntil repeats a question until the answer is yes, for as long as a store may
// be delayed. It returns the delay, 0 if the first answer was yes.
func (p *probe) waitUntil(ctx context.Context, ask func(ctx context.Context) (bool, error)) (ok bool, took time.Duration, err error) {
	notYet := &remote.Error{Op: "wait", Kind: remote.ErrTemporary}
	o := retry.Options{Now: p.o.Retry.Now, Sleep: p.o.Retry.Sleep, First: 100 * time.Millisecond, Longest: time.Second, Deadline: settling}
	start := p.o.Now()
	tries := 0
	err = retry.Do(ctx, o, "wait", func(ctx context.Context) error {
		tries++
		yes, err := ask(ctx)
		if err == nil && !yes {
			return notYet
		}
		return err
	})
	if tries > 1 {
		took = max(1, p.o.Now().Sub(start))
	}
	if errors.Is(err, notYet) {
		return false, took, nil
	}

	return err == nil, took, err
}

// cleanUp deletes all probes, even if ctx has ended. The error has the number
// of remaining probes and their prefix.
func (p *probe) cleanUp(ctx context.Context) error {
	names := slices.Sorted(maps.Keys(p.used))
	if len(names) == 0 {
		return nil
	}
	if p.noDelete {
		return fmt.Errorf("up to %d probes are left in %s: the credentials may not delete", len(names), p.prefix)
	}

	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), cleaning)
	defer cancel()
	var group errgroup.Group
	group.SetLimit(atOnce)
	errs := make([]error, len(names))
	for i, name := range names {
		group.Go(func() error {
			errs[i] = p.b.Delete(ctx, name)
			return nil
		})
	}

	_ = group.Wait()
	left := slices.DeleteFunc(errs, func(err error) bool { return err == nil })
	if len(left) > 0 {
		return fmt.Errorf("up to %d probes are left in %s: %w", len(left), p.prefix, left[0])
	}

	return nil
}
