package check

import (
	"bytes"
	"context"
	"errors"
	"sync"

	"github.com/kist-vcs/kist/remote"
	"github.com/kist-vcs/kist/remote/retry"
)

const (
	racers = 32
	rounds = 3

	// Above 16 MiB, clients of S3 often upload in parts, and on some stores
	// the end of such an upload is not conditional.
	largeSize   = 16<<20 + 1
	largeRacers = 4
)

func (p *probe) createOnce(ctx context.Context) error {
	data := p.data(recordSize)
	name, err := p.createNew(ctx, data)
	if err != nil {
		return err
	}
	for _, again := range [][]byte{p.data(recordSize), data, p.data(recordSize / 2)} {
		if err := p.wantRefusal(ctx, "create", name, func(ctx context.Context) error { return p.b.Create(ctx, name, again) }); err != nil {
			return err
		}
	}
	return p.isThere(ctx, name, data)
}

func (p *probe) putOnce(ctx context.Context) error {
	if !p.o.ExclusivePut {
		return notPromised()
	}
	again := p.data(blobSize)
	if err := p.wantRefusal(ctx, "put", p.blob, func(ctx context.Context) error {
		return p.b.Put(ctx, p.blob, bytes.NewReader(again), blobSize)
	}); err != nil {
		return err
	}
	return p.isThere(ctx, p.blob, p.blobData)
}

func notPromised() error {
	return &finding{status: Skipped, detail: "stores of this kind do not promise it, and nothing depends on it"}
}

// wantRefusal makes a call that must fail because the name is taken. The name
// stays taken, so the call may be retried.
func (p *probe) wantRefusal(ctx context.Context, op, name string, call func(ctx context.Context) error) error {
	err := retry.Do(ctx, p.o.Retry, op, call)
	switch {
	case err == nil:
		return failed("%q was there, and a second %s was accepted", name, op)
	case errors.Is(err, remote.ErrExists):
		return nil
	}
	return err
}

// createRace makes several callers create the same record at the same moment, unless the store knows that it
// is not safe.
func (p *probe) createRace(ctx context.Context) error {
	if d, ok := remote.As[remote.Doubter](p.b); ok {
		if doubt := d.Doubt(); doubt != nil {
			return failed("%v", doubt)
		}
	}

	type held struct {
		name string
		data []byte
	}

	var records []held
	for range rounds {
		bodies := make([][]byte, racers)
		for i := range bodies {
			bodies[i] = p.data(recordSize)
		}
		name, winner, err := p.runRace(ctx, contest{"create", racers, p.newRecord, func(ctx context.Context, name string, i int) error {
			return p.b.Create(ctx, name, bodies[i])
		}, func(ctx context.Context, name string) (int, error) {
			got := make([]byte, recordSize+1)
			n, err := p.b.Get(ctx, name, got, 0)
			for i, body := range bodies {
				if err == nil && bytes.Equal(got[:n], body) {
					return i, nil
				}
			}
			return -1, err
		}})
		if err != nil {
			return err
		}
		p.isStored(name, recordSize)
		records = append(records, held{name, bodies[winner]})
	}

	for _, r := range records {
		if err := p.isThere(ctx, r.name, r.data); err != nil {
			return err
		}
	}

	return nil
}

// putRace makes several callers put large bodies under the same name.
func (p *probe) putRace(ctx context.Context) error {
	if !p.o.ExclusivePut {
		return notPromised()
	}

	block := p.data(64 << 10)
	name, _, err := p.runRace(ctx, contest{"put", largeRacers, p.newBlob, func(ctx context.Context, name string, i int) error {
		return p.b.Put(ctx, name, pattern{block, i}, largeSize)
	}, func(ctx context.Context, name string) (int, error) {
		got := make([]byte, largeSize+1)
		n, err := p.b.Get(ctx, name, got, 0)
		for i := range largeRacers {
			if err == nil && n == largeSize && (pattern{block, i}).is(got[:n]) {
				return i, nil
			}
		}
		return -1, err
	}})
	if err != nil {
		return err
	}

	p.isStored(name, largeSize)
	return nil
}

// contest is the same call by several callers at the same moment, on a new name.
type contest struct {
	op      string
	callers int
	newName func() string
	call    func(ctx context.Context, name string, i int) error
	find    func(ctx context.Context, name string) (int, error) // the caller whose bytes are stored, or -1
}

// runRace runs a contest and returns the caller whose bytes are stored. A call may end
// without an answer. If all do, and nothing is stored, race retries.
func (p *probe) runRace(ctx context.Context, c contest) (name string, winner int, err error) {
	err = retry.Do(ctx, p.o.Retry, c.op, func(ctx context.Context) error {
		name = c.newName()
		var wg sync.WaitGroup
		start := make(chan struct{})
		errs := make([]error, c.callers)
		for i := range c.callers {
			wg.Go(func() {
				<-start
				errs[i] = c.call(ctx, name, i)
			})
		}
		close(start)
		wg.Wait()
		found, err := c.find(ctx, name)
		if err != nil && !errors.Is(err, remote.ErrNotFound) {
			return err
		}
		winner = found
		return judgeRace(c.op, name, errs, found, err != nil)
	})
	return name, winner, err
}

// judgeRace returns the error in the outcome of a race, or nil. Errs are the
// answers. Found is the caller whose bytes are stored, or -1: then other bytes
// are stored, or none if absent is set.
func judgeRace(op, name string, errs []error, found int, absent bool) error {
	winner, winners, exists := -1, 0, 0
	var unclear error
	for i, err := range errs {
		switch {
		case err == nil:
			winner = i
			winners++
		case errors.Is(err, remote.ErrExists):
			exists++
		case errors.Is(err, remote.ErrTemporary):
			unclear = err
		default:
			return err
		}
	}

	switch {
	case winners > 1:
		return failed("%d of %d callers got success for their %s of %q", winners, len(errs), op, name)
	case absent && winners == 0 && exists == 0:
		return unclear
	case absent && winners == 0:
		return failed("a %s of %q failed because it exists, and it is not found", op, name)
	case absent:
		return failed("a %s of %q succeeded, and it is not found", op, name)
	case found < 0:
		return failed("after %d callers' %s of %q it has bytes that are none of theirs", len(errs), op, name)
	case winners == 1 && found != winner:
		return failed("a %s of %q succeeded, and another caller's bytes are there", op, name)
	}

	return nil
}

// pattern is an endless body: a repeated block that starts at a different
// place for each caller.
type pattern struct {
	block  []byte
	caller int
}

func (b pattern) ReadAt(p []byte, off int64) (int, error) {
	at := int((off + int64(b.caller)*997) % int64(len(b.block)))
	for n := 0; n < len(p); at = 0 {
		n += copy(p[n:], b.block[at:])
	}
	return len(p), nil
}

func (b pattern) is(data []byte) bool {
	want := make([]byte, len(b.block))
	for off := 0; off < len(data); off += len(want) {
		part := data[off:min(len(data), off+len(want))]
		_, _ = b.ReadAt(want[:len(part)], int64(off))
		if !bytes.Equal(part, want[:len(part)]) {
			return false
		}
	}
	return true
}
