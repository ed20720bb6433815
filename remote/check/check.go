// Package check finds out whether a store is suitable as a remote, by trying
// it. Safe sharing by many writers rests on a few properties of the store: a
// record is created at most once even if others try at the same moment,
// all clients see it from then on, and missing names are reported as missing.
// Some stores accept a conditional request and ignore the condition, or check
// it too early. Only a trial reveals that.
//
// [Run] makes its trials below probe/<nonce>/ and cleans up there.
// The [Report] has the results: Report.Shared reports whether the store may be
// shared, Report.Usable whether a single writer may use it. A store that
// passes can still fail under load or after a fault: the check finds
// unsuitable stores, but proves nothing.
//
// Credentials without the right to delete are enough to push, fetch and clone.
// They get a note, and probes stay behind.
package check

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"os/exec"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/kist-vcs/kist/remote"
	"github.com/kist-vcs/kist/remote/retry"
)

// Options configure [Run].
type Options struct {
	Now  func() time.Time // the clock; must be set
	Rand io.Reader        // for names and data; nil: the system's

	// ExclusivePut means that stores of this kind store a blob, like a record,
	// at most once: S3 by a condition, a folder by a link. Then Run checks
	// that as well, with 68 MB of uploads.
	ExclusivePut bool

	// Retry configures retries. Its Now may be unset.
	Retry retry.Options

	// Progress receives the result of each check. It may be nil.
	Progress func(Result)
}

// The names of the checks.
const (
	Absent         = "absent"           // a name that was never stored is not found
	Put            = "put"              // a blob can be stored
	Create         = "create"           // a record can be created
	ReadAfterWrite = "read-after-write" // stored data is read back at once, by all
	Ranges         = "ranges"           // parts of a blob can be read
	List           = "list"             // stored names are listed
	CreateOnce     = "create-once"      // a record is not overwritten
	CreateRace     = "create-race"      // of creates at the same moment, one wins
	PutOnce        = "put-once"         // a blob is not overwritten
	PutRace        = "put-race"         // of large puts at the same moment, one wins
	Delete         = "delete"           // a deleted name is gone
	CleanUp        = "clean-up"         // exists only if probes stayed behind
)

// step is one check.
type step struct {
	name, what string
	run        func(*probe, context.Context) error // nil, a *finding, or the error of a call
	needs      []string                            // skipped unless these passed
	exclusive  bool                                // matters only for several writers
	optional   bool                                // may be skipped
}

var steps = []step{
	{name: Absent, what: "missing names are reported as missing", run: (*probe).checkAbsent},
	{name: Put, what: "blobs can be stored", run: (*probe).putBlob, needs: []string{Absent}},
	{name: Create, what: "records can be created", run: (*probe).createRecord, needs: []string{Absent}},
	{name: ReadAfterWrite, what: "stored data is read back at once", run: (*probe).readAfterWrite, needs: []string{Put, Create}},
	{name: Ranges, what: "parts of a blob can be read", run: (*probe).checkRanges, needs: []string{ReadAfterWrite}},
	{name: List, what: "stored names are listed", run: (*probe).checkList, needs: []string{Put, Create}},
	{name: CreateOnce, what: "a record is not overwritten", run: (*probe).createOnce, needs: []string{ReadAfterWrite}, exclusive: true},
	{name: CreateRace, what: fmt.Sprintf("of %d creates at once, one wins", racers), run: (*probe).createRace, needs: []string{ReadAfterWrite}, exclusive: true},
	{name: PutOnce, what: "a blob is not overwritten", run: (*probe).putOnce, needs: []string{ReadAfterWrite}, exclusive: true, optional: true},
	{name: PutRace, what: fmt.Sprintf("of %d large puts at once, one wins", largeRacers), run: (*probe).putRace, needs: []string{ReadAfterWrite}, exclusive: true, optional: true},
	{name: Delete, what: "deleted names are gone", run: (*probe).checkDelete, needs: []string{Put, Create}},
}

// Run checks a store. b is the opened backend, without the wrapper of package
// retry.
//
// An error means that the store could not be checked: ctx ended, or a call
// failed for a reason unrelated to the checks. It matches [remote.ErrTemporary],
// [remote.ErrCredentials], [remote.ErrCertificate], [remote.ErrHostKey],
// [remote.ErrProgram], [remote.ErrNoStore] or [remote.ErrFull], or is a [*remote.ForeignError] or an error of this machine,
// such as too many open files. The report then has the checks so far. Run tries
// to delete its probes, even after an error. A note of the report names the
// probes that remain.
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
		if err = p.runStep(ctx, r, &steps[i]); err != nil {
			break
		}
	}
	if err := p.cleanUp(ctx); err != nil {
		r.addResult(o, Result{Name: CleanUp, What: "probes are removed", Status: Note, Detail: err.Error()})
	}

	return r, err
}

// runStep runs a step and adds its result to r. It returns an error if the run
// must end.
func (p *probe) runStep(ctx context.Context, r *Report, s *step) error {
	result := Result{Name: s.name, What: s.what, Status: OK}
	for _, name := range s.needs {
		for i := range steps {
			if steps[i].name == name && !r.hasPassed(&steps[i]) {
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

	r.addResult(p.o, result)
	return nil
}

// endsRun reports whether an error is unrelated to the checks.
func endsRun(ctx context.Context, err error) bool {
	if _, foreign := errors.AsType[*remote.ForeignError](err); foreign {
		return true
	}
	if isLocal(err) {
		return true
	}
	return ctx.Err() != nil || slices.ContainsFunc([]error{
		remote.ErrTemporary, remote.ErrCredentials, remote.ErrCertificate, remote.ErrHostKey, remote.ErrProgram, remote.ErrNoStore, remote.ErrFull,
	}, func(kind error) bool { return errors.Is(err, kind) })
}

// isLocal reports whether an error is no answer of the store, but one of this machine, such
// as too many open files, or a program that is not there.
func isLocal(err error) bool {
	if _, program := errors.AsType[*exec.Error](err); program {
		return true
	}
	e, ok := errors.AsType[*remote.Error](err)
	_, system := errors.AsType[syscall.Errno](err)
	return ok && e.Kind == nil && system
}

func (r *Report) addResult(o Options, c Result) {
	r.Checks = append(r.Checks, c)
	if o.Progress != nil {
		o.Progress(c)
	}
}

// finding is the result of a check that did not simply pass.
type finding struct {
	status Outcome
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

// Outcome is the outcome of a check.
type Outcome string

// The outcomes of a check.
const (
	OK      Outcome = "ok"
	Note    Outcome = "note"    // passed, with a remark
	Failed  Outcome = "failed"  // the store does not behave as kist needs
	Skipped Outcome = "skipped" // not requested, or useless after a failure
)

// Result is the result of one check.
type Result struct {
	Name   string        `json:"name" doc:"the check, as in create-race"`
	What   string        `json:"what" doc:"the property that it shows"`
	Status Outcome       `json:"status" doc:"its outcome" values:"ok|note|failed|skipped"`
	Detail string        `json:"detail,omitempty" doc:"the reason, if it did not pass"`
	Took   time.Duration `json:"took_ns" doc:"how long it took, in nanoseconds"`
	Err    error         `json:"-"` // error of the failed call, if any
}

// Report has the results for a store, in the order in which the checks ran. It
// has all checks unless [Run] returned an error.
type Report struct {
	Prefix string   `json:"prefix"` // prefix of all names used, such as "probe/3f…/"
	Checks []Result `json:"checks"`
}

// Shared reports whether the store is safe for any number of writers: all
// checks ran, and none failed.
func (r *Report) Shared() bool { return r.allPassed(func(*step) bool { return true }) }

// Usable reports whether the store is safe for one writer at a time: nothing
// failed except checks for several writers. A store that refuses conditional
// requests, instead of ignoring the condition, is not usable as it was opened.
func (r *Report) Usable() bool { return r.allPassed(func(s *step) bool { return !s.exclusive }) }

// allPassed reports whether all steps passed that matter, and neither [RunLock] nor [RunClass] has failed.
func (r *Report) allPassed(matters func(*step) bool) bool {
	for i := range steps {
		if matters(&steps[i]) && !r.hasPassed(&steps[i]) {
			return false
		}
	}
	return !slices.ContainsFunc(r.Checks, func(c Result) bool {
		return (c.Name == lockStep.name || c.Name == Class) && c.Status == Failed
	})
}

// hasPassed reports whether a step has passed.
func (r *Report) hasPassed(s *step) bool {
	for _, c := range r.Checks {
		if c.Name == s.name {
			return c.Status == OK || c.Status == Note || c.Status == Skipped && s.optional
		}
	}
	return false
}

// String returns the report as text: one line for each check, with details if
// it is not OK.
func (r *Report) String() string {
	width := 0
	for _, c := range r.Checks {
		width = max(width, len(c.What))
	}
	var b strings.Builder
	for _, c := range r.Checks {
		fmt.Fprintf(&b, "%-7s  %-*s  %s\n", c.Status, width, c.What, c.Took.Round(time.Millisecond))
		if c.Detail != "" {
			fmt.Fprintf(&b, "         %s\n", c.Detail)
		}
	}
	return b.String()
}
