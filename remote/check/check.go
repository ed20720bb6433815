// Package check finds out whether a store can be trusted as a remote, by using
// it. That many writers can share a remote rests on a few properties of its
// store: a record is created at most once whoever else tries at that moment, is
// seen by all from then on, and what is absent is said to be absent. Some stores
// take a conditional request and ignore the condition, or check it too early;
// nothing but trying tells.
//
// [Run] tries all that in a corner of the store, probe/<nonce>/, which it
// leaves empty. The [Report] says what it found: Report.Shared is whether the
// store may be shared, Report.Usable whether it may be used by one writer. A
// store that does well once can still fail under load or after a fault; the
// check finds stores that are unfit, it does not prove one fit.
//
// Credentials that may not delete are enough to push, fetch and clone. They get
// a note, and probes stay behind.
package check

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/kist-vcs/kist/remote"
	"github.com/kist-vcs/kist/remote/retry"
)

// Options say what is checked, and how.
type Options struct {
	Now  func() time.Time // the clock; must be set
	Rand io.Reader        // for names and data; nil: the system's

	// ExclusivePut says that stores of this kind store a blob, like a record,
	// at most once, as S3 does with a condition and a folder with a link. Then
	// that is checked as well, with 68 MB of uploads.
	ExclusivePut bool

	// Retry says how trouble is borne. Its Now may be unset.
	Retry retry.Options

	// Progress is told of each check when it is done; nil: no one is told.
	Progress func(Result)
}

// The names of the checks.
const (
	Absent         = "absent"           // what was never stored is not found
	Put            = "put"              // a blob can be stored
	Create         = "create"           // a record can be created
	ReadAfterWrite = "read-after-write" // what was stored is read back at once, by all
	Ranges         = "ranges"           // parts of a blob can be read
	List           = "list"             // what was stored is listed
	CreateOnce     = "create-once"      // a record is not overwritten
	CreateRace     = "create-race"      // of creates at the same moment, one wins
	PutOnce        = "put-once"         // a blob is not overwritten
	PutRace        = "put-race"         // of large puts at the same moment, one wins
	Delete         = "delete"           // what is deleted is gone
	CleanUp        = "clean-up"         // only there if probes were left behind
)

// step is one check.
type step struct {
	name, what string
	run        func(*probe, context.Context) error // nil, a *finding, or the error of a call
	needs      []string                            // skipped unless these passed
	exclusive  bool                                // matters to several writers only
	optional   bool                                // may be skipped
}

var steps = []step{
	{name: Absent, what: "what was never stored is not found", run: (*probe).absent},
	{name: Put, what: "blobs can be stored", run: (*probe).putBlob, needs: []string{Absent}},
	{name: Create, what: "records can be created", run: (*probe).createRecord, needs: []string{Absent}},
	{name: ReadAfterWrite, what: "what was stored is read back at once", run: (*probe).readAfterWrite, needs: []string{Put, Create}},
	{name: Ranges, what: "parts of a blob can be read", run: (*probe).ranges, needs: []string{ReadAfterWrite}},
	{name: List, what: "what was stored is listed", run: (*probe).list, needs: []string{Put, Create}},
	{name: CreateOnce, what: "a record is not overwritten", run: (*probe).createOnce, needs: []string{ReadAfterWrite}, exclusive: true},
	{name: CreateRace, what: fmt.Sprintf("of %d creates at once, one wins", racers), run: (*probe).createRace, needs: []string{ReadAfterWrite}, exclusive: true},
	{name: PutOnce, what: "a blob is not overwritten", run: (*probe).putOnce, needs: []string{ReadAfterWrite}, exclusive: true, optional: true},
	{name: PutRace, what: fmt.Sprintf("of %d large puts at once, one wins", largeRacers), run: (*probe).putRace, needs: []string{ReadAfterWrite}, exclusive: true, optional: true},
	{name: Delete, what: "what is deleted is gone", run: (*probe).delete, needs: []string{Put, Create}},
}

// Run checks a store. b is the backend as it was opened, without package
// retry's wrapper.
//
// The error, with a report of the checks until then, says that the store could
// not be checked: ctx ended, or a call failed for a reason that tells nothing
// of what the store does, with [remote.ErrTemporary], [remote.ErrCredentials],
// [remote.ErrCertificate], [remote.ErrNoStore] or [remote.ErrFull], or with a
// [*remote.ForeignError]. What was stored is deleted in any
// case.
func Run(ctx context.Context, b remote.Backend, o Options) (*Report, error) {
	if o.Rand == nil {
		o.Rand = rand.Reader
	}
	if o.Retry.Now == nil {
		o.Retry.Now = o.Now
	}
	p, err := newProbe(b, o)
	if err != nil {
		return nil, err
	}
	r := &Report{Prefix: p.prefix}
	for i := range steps {
		if err = p.step(ctx, r, &steps[i]); err != nil {
			break
		}
	}
	if err := p.cleanUp(ctx); err != nil {
		r.add(o, Result{Name: CleanUp, What: "probes are removed", Status: Note, Detail: err.Error()})
	}
	return r, err
}

// step runs a step and adds its result to r, or returns the error that ends
// all.
func (p *probe) step(ctx context.Context, r *Report, s *step) error {
	result := Result{Name: s.name, What: s.what, Status: OK}
	for _, name := range s.needs {
		for i := range steps {
			if steps[i].name == name && !r.passed(&steps[i]) {
				result.Status, result.Detail = Skipped, fmt.Sprintf("needs that %s", steps[i].what)
			}
		}
	}
	if result.Status == OK {
		start := p.o.Now()
		err := s.run(p, ctx)
		result.Took = max(0, p.o.Now().Sub(start))
		switch f, ok := errors.AsType[*finding](err); {
		case ok:
			result.Status, result.Detail, result.Err = f.status, f.detail, f.err
		case err != nil && endsRun(ctx, err):
			return err
		case err != nil:
			result.Status, result.Detail, result.Err = Failed, err.Error(), err
		}
	}
	r.add(p.o, result)
	return nil
}

// endsRun reports whether an error says nothing about what the store does.
func endsRun(ctx context.Context, err error) bool {
	if _, foreign := errors.AsType[*remote.ForeignError](err); foreign {
		return true
	}
	for _, kind := range []error{remote.ErrTemporary, remote.ErrCredentials, remote.ErrCertificate, remote.ErrNoStore, remote.ErrFull} {
		if errors.Is(err, kind) {
			return true
		}
	}
	return ctx.Err() != nil
}

func (r *Report) add(o Options, c Result) {
	r.Checks = append(r.Checks, c)
	if o.Progress != nil {
		o.Progress(c)
	}
}

// finding is what a check found.
type finding struct {
	status Status
	detail string
	err    error // may be nil
}

func (f *finding) Error() string { return f.detail }
func (f *finding) Unwrap() error { return f.err }

func failed(format string, args ...any) error {
	return &finding{status: Failed, detail: fmt.Sprintf(format, args...)}
}

func note(err error, format string, args ...any) error {
	return &finding{status: Note, detail: fmt.Sprintf(format, args...), err: err}
}
