package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// contestant is a tool with its repository of this round.
type contestant struct {
	tool
	repository
	dir    string
	remote *prefix // nil: none
}

// event is a race of the tools on one data set.
type event struct {
	*bench
	*folder
	set         string  // the name in results
	place       string  // of the repositories, or of kist's remotes
	server      *server // nil: they are folders
	ssh         *sshServer
	contestants []*contestant
	out         map[string]bool // tools that do not take part, or failed
	round       int
}

// Places of repositories, or of remotes of kist. Each is the suffix of the sets there.
const (
	here      = ""        // a folder; kist has no remote
	onFolder  = "-folder" // a remote in a folder
	onServer  = "-s3"
	onDemand  = "-lazy"  // as onServer, but kist and git-annex clone without content, and git's server is its own
	onSSH     = "-ssh"   // a remote in a folder, by SSH
	onSlowSSH = "-ssh20" // the same, with a round trip of 20 ms
)

// event returns a race and adds its set to the report.
func (b *bench) event(f *folder, place string, server *server) *event {
	e := &event{bench: b, folder: f, set: f.name + place, place: place, server: server, out: map[string]bool{}}
	title := f.title
	if f.then != "" {
		title += "; then " + f.then
	}
	switch place {
	case onFolder:
		title = "to a remote in a folder: " + title
	case onDemand:
		title = "parts of a version, from a server on the same machine whose answers are 20 ms late: " + title
	case onSSH:
		title = "to a remote by SSH on the same machine: " + title
	case onSlowSSH:
		title = "to a remote by SSH, with 20 ms for each round trip: " + title
	case onServer:
		title = "to an S3 server on the same machine: " + title
	}
	for _, t := range b.tools {
		e.out[t.name] = f.alone && t.name != kistTool || !slices.Contains(t.places, place)
	}
	b.report.Sets = append(b.report.Sets, Set{Name: e.set, Title: title})
	return e
}

// standard does the work on a set of files.
func (e *event) standard(ctx context.Context) error {
	save := func(c *contestant) (Sample, error) { return c.save(ctx, "bench") }
	took, err := readAll(ctx, e.path)
	if err != nil {
		return err
	}
	e.report.add(e.set, workFirst, floorTool, Sample{Round: e.round, Seconds: took.Seconds()})
	if err := e.each(ctx, workFirst, 0, save); err != nil {
		return err
	}
	if err := e.flush(ctx); err != nil {
		return err
	}
	if err := e.each(ctx, workUnchanged, 0, save); err != nil {
		return err
	}
	err = e.each(ctx, workStatus, 0, func(c *contestant) (Sample, error) {
		s, ok := c.repository.(statuser)
		if !ok {
			return Sample{}, errors.ErrUnsupported
		}
		return s.status(ctx)
	})
	if err != nil {
		return err
	}
	if err := e.fullMetadata(ctx); err != nil {
		return err
	}
	if err := e.change(); err != nil {
		return err
	}
	if err := e.each(ctx, workChanged, 0, save); err != nil {
		return err
	}
	if e.place != here {
		return errors.Join(e.exchange(ctx), e.restore(ctx))
	}
	if err := e.look(ctx); err != nil {
		return err
	}
	if e.held.files > listFiles {
		if err := e.request(ctx); err != nil {
			return err
		}
	}
	if err := e.restore(ctx); err != nil || !e.compacts {
		return err
	}
	return e.compact(ctx)
}

// exchange measures a push of all, and fetches without news.
func (e *event) exchange(ctx context.Context) error {
	measure := func(work string, step int, do func(exchanger) (Sample, error)) error {
		return e.each(ctx, work, step, func(c *contestant) (Sample, error) {
			x, ok := c.repository.(exchanger)
			if !ok {
				return Sample{}, errors.ErrUnsupported
			}
			return do(x)
		})
	}
	err := measure(workPush, 0, func(x exchanger) (Sample, error) { return x.push(ctx) })
	for step := 1; step <= pairs && err == nil; step++ {
		err = measure(workFetch, step, func(x exchanger) (Sample, error) { return x.fetch(ctx) })
	}
	if err != nil || e.place != onFolder {
		return err
	}
	return e.copyRemotes(ctx)
}

// fullMetadata measures a first version with all metadata, in another repository.
func (e *event) fullMetadata(ctx context.Context) error {
	if e.place != here {
		return nil
	}
	return e.each(ctx, workMetadata, 0, func(c *contestant) (Sample, error) {
		k, ok := c.repository.(kistRepository)
		if !ok {
			return Sample{}, errors.ErrUnsupported
		}
		k, err := openKistWith(ctx, k.beside("full"), "--metadata", "full")
		if err != nil {
			return Sample{}, err
		}
		return k.save(ctx, "bench")
	})
}

// compact measures the gc of each tool that has one.
func (e *event) compact(ctx context.Context) error {
	return e.each(ctx, workCompact, 0, func(c *contestant) (Sample, error) {
		s, ok := c.repository.(compacter)
		if !ok {
			return Sample{}, errors.ErrUnsupported
		}
		return s.compact(ctx)
	})
}

// flush measures the time in which the disk stores as many bytes as kist has stored.
func (e *event) flush(ctx context.Context) error {
	samples := e.report.samples(e.set, workFirst, kistTool)
	if len(samples) == 0 {
		return nil
	}
	if err := e.settle(ctx); err != nil {
		return err
	}
	took, err := writeDurably(ctx, filepath.Join(e.dir, "flushed"), samples[len(samples)-1].Stored)
	e.report.add(e.set, workFlush, floorTool, Sample{Round: e.round, Seconds: took.Seconds()})
	return err
}

// restore measures the restore of the last version to a new folder, and checks the result.
func (e *event) restore(ctx context.Context) error {
	target := filepath.Join(e.dir, "restored")
	copied := func(work func() (Sample, error)) (s Sample, err error) {
		if err := os.Mkdir(target, 0o777); err != nil {
			return s, err
		}
		s, err = work()
		if err == nil {
			err = os.RemoveAll(filepath.Join(target, ".kist")) // of a clone
		}
		if err == nil {
			err = same(e.path, target)
		}
		return s, errors.Join(err, os.RemoveAll(target))
	}
	err := e.each(ctx, workRestore, 0, func(c *contestant) (Sample, error) {
		return copied(func() (Sample, error) { return c.repository.restore(ctx, target) })
	})
	if err == nil && e.place == onFolder {
		err = e.cloneByWeb(ctx, target, copied)
	}
	if err != nil {
		return err
	}
	if err := e.settle(ctx); err != nil {
		return err
	}
	floor, err := copied(func() (Sample, error) {
		return e.runner.run(ctx, command{args: []string{"cp", "-R", e.path + "/.", target}})
	})
	floor.Round = e.round
	e.report.add(e.set, workRestore, floorTool, floor)
	return err
}

// run makes one round. It makes new repositories, and removes them at the end.
func (e *event) run(ctx context.Context, round int, work func(context.Context) error) (err error) {
	if err := e.age(ctx, e.log); err != nil {
		return err
	}
	set := e.report.set(e.set)
	set.Files, set.Bytes = e.held.files, e.held.bytes
	e.round, e.contestants = round, nil
	defer func() {
		for _, c := range e.contestants {
			err = errors.Join(err, c.remove(context.WithoutCancel(ctx)))
		}
	}()
	// Each round starts with another tool.
	for i := range e.tools {
		t := e.tools[(i+round-1)%len(e.tools)]
		if e.out[t.name] {
			continue
		}
		c := &contestant{tool: t, dir: filepath.Join(e.dir, "of-"+t.name)}
		switch e.place {
		case onFolder:
			c.remote = &prefix{name: filepath.Join(c.dir, "remote")}
		case onSSH, onSlowSSH:
			c.remote = &prefix{name: filepath.Join(c.dir, "remote"), ssh: e.ssh}
		case onServer, onDemand:
			c.remote = &prefix{server: e.server, name: fmt.Sprintf("%s/%s-%s-%d", filepath.Base(e.dir), e.set, t.name, e.round)}
		}
		e.contestants = append(e.contestants, c)
		c.repository, err = t.open(ctx, opening{e.runner, t.program, c.dir, e.path, c.remote})
		if err != nil {
			if err := e.failed(c, err); err != nil {
				return err
			}
		}
	}
	return work(ctx)
}

func (c *contestant) remove(ctx context.Context) error {
	err := os.RemoveAll(c.dir)
	if c.remote != nil {
		err = errors.Join(err, c.remote.remove(ctx))
	}
	return err
}

// storeNothing are the pieces of work after which the repository has the same size.
var storeNothing = []string{workRestore, workMetadata, workPush, workFetch, workCopy, workWeb, workLazy, workOpen, workPart, workAgain, workLarge}

// each calls do for each contestant and adds the sample to the report. Do returns
// errors.ErrUnsupported if the tool cannot do the work. Step is 0, or the number of the step of
// work with steps.
func (e *event) each(ctx context.Context, work string, step int, do func(*contestant) (Sample, error)) error {
	for _, c := range slices.Clone(e.contestants) {
		if e.out[c.name] {
			continue
		}
		if err := e.settle(ctx); err != nil {
			return err
		}
		s, err := e.counted(c, do)
		if errors.Is(err, errors.ErrUnsupported) {
			continue
		}
		if err == nil && !slices.Contains(storeNothing, work) {
			s.Stored, err = c.stored(ctx)
		}
		if err != nil {
			if err := e.failed(c, err); err != nil {
				return err
			}
			continue
		}
		s.Round, s.Step = e.round, step
		e.report.add(e.set, work, c.name, s)
		fmt.Fprintf(e.log, "%-9s round %d/%d  %-9s %-9s %8.2f s  %7.2f s CPU  %8s\n",
			e.set, e.round, e.opts.rounds, work+strings.Repeat(fmt.Sprintf(" %d", step), min(step, 1)), c.name, s.Seconds, s.cpu(), byteSize(s.Peak))
	}
	return nil
}

// counted calls do and counts the traffic with the server.
func (e *event) counted(c *contestant, do func(*contestant) (Sample, error)) (Sample, error) {
	if e.server == nil || e.server.relay == nil {
		return do(c)
	}
	return e.server.relay.countTransfers(func() (Sample, error) { return do(c) })
}

// stored returns the size of the repository in bytes.
func (c *contestant) stored(ctx context.Context) (int64, error) {
	if c.remote != nil {
		return c.remote.stored(ctx)
	}
	held, err := count(c.folders()...)
	return held.disk, err
}

// failed removes a tool that failed from this race, and notes it in the report. It returns the
// error if the tool is kist, or if the error is not that of a command.
func (e *event) failed(c *contestant, err error) error {
	var failed *CommandError
	if c.name == kistTool || c.name == encryptedTool || !errors.As(err, &failed) {
		return err
	}
	e.out[c.name] = true
	why := strings.Join(strings.Fields(strings.ReplaceAll(failed.Stderr, e.dir, "…")), " ")
	e.report.skip(c.name+" on "+e.set, fmt.Sprintf("failed with exit status %d: %s", failed.Status, why))
	fmt.Fprintf(e.log, "%s on %s: %v\n", c.name, e.set, err)
	return nil
}
