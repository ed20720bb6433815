package main

import (
	"context"
	"fmt"
	"path/filepath"
	"slices"
	"time"
)

// schedule collects the stages of a run.
type schedule struct {
	*bench
	stages  []stage
	folders []*folder
	files   int64 // disk space of all folders, in bytes
	most    int64 // the most disk space that a stage needs beside them, in bytes
}

// roundOf does the work of a stage in one round.
type roundOf func(ctx context.Context, round int) error

// plan adds the stages that the options ask for. The caller calls cleanup at the end.
func (p *schedule) plan(ctx context.Context) (cleanup func()) {
	for _, set := range dataSets(p.opts) {
		if p.wants(set.stage) {
			p.add(ctx, here, set, func(f *folder) roundOf { return p.race(f, here, nil) })
		}
	}
	if p.wants(setVersions) {
		set, dirs := releasesSet(ctx, p.opts.releases)
		p.add(ctx, here, set, func(f *folder) roundOf {
			e := p.event(f, here, nil)
			return func(ctx context.Context, round int) error {
				return e.run(ctx, round, func(ctx context.Context) error { return e.releases(ctx, dirs) })
			}
		})
	}
	if p.wants(setCommands) {
		p.planCommands()
	}
	if p.wants(setGrowth) {
		p.add(ctx, here, historySet(), func(f *folder) roundOf {
			return func(ctx context.Context, round int) error {
				if round > 1 {
					return nil
				}
				return p.growHistory(ctx, f)
			}
		})
	}
	if p.wants(setFolder) {
		p.planRemotes(ctx, onFolder, nil)
	}
	if p.wants(setSSH) {
		p.planSSH(ctx, onSSH, 0)
		p.planSSH(ctx, onSlowSSH, 20*time.Millisecond)
	}
	if p.wants(setS3) || p.wants(setLazy) {
		return p.planServer(ctx)
	}
	return func() {}
}

// remoteSets are the sets of the races to remotes.
var remoteSets = []string{"media", "src", "many"}

// sshSets are the sets of the races to remotes by SSH.
var sshSets = []string{"src", "many"}

// planRemotes adds the races to remotes in a place.
func (p *schedule) planRemotes(ctx context.Context, place string, server *server) {
	for _, set := range dataSets(p.opts) {
		if slices.Contains(remoteSets, set.name) {
			p.add(ctx, place, set, func(f *folder) roundOf { return p.race(f, place, server) })
		}
	}
}

// planSSH adds the races of text to remotes by SSH. Trip is the delay of a round trip.
func (p *schedule) planSSH(ctx context.Context, place string, trip time.Duration) {
	ssh, err := newSSHServer(filepath.Join(p.dir, "sshd"+place), trip)
	if err != nil {
		p.report.skip(setSSH, err.Error())
		return
	}
	for _, set := range dataSets(p.opts) {
		if slices.Contains(sshSets, set.name) {
			p.add(ctx, place, set, func(f *folder) roundOf {
				e := p.event(f, place, nil)
				e.ssh = ssh
				return func(ctx context.Context, round int) error { return e.run(ctx, round, e.standard) }
			})
		}
	}
}

// planServer adds the stages that need a server.
func (p *schedule) planServer(ctx context.Context) (cleanup func()) {
	server, err := findServer()
	if err != nil {
		p.report.skip(setS3+" and "+setLazy, err.Error())
		return func() {}
	}
	if p.wants(setS3) {
		p.planRemotes(ctx, onServer, server)
	}
	if p.wants(setLazy) {
		set := mixedSet(p.opts.scale(10, 3), int64(p.opts.scale(1024, 64))*mib)
		p.add(ctx, onDemand, set, func(f *folder) roundOf {
			e := p.event(f, onDemand, server)
			return func(ctx context.Context, round int) error {
				return e.run(ctx, round, func(ctx context.Context) error { return e.readParts(ctx, lateness) })
			}
		})
	}
	return server.close
}

func (p *schedule) wants(name string) bool { return slices.Contains(p.opts.sets, name) }

// add adds a stage for a set in a place, if the set is available.
func (p *schedule) add(ctx context.Context, place string, set dataSet, run func(*folder) roundOf) {
	if f := p.use(ctx, set); f != nil {
		p.most = max(p.most, p.room(f, place))
		p.stages = append(p.stages, stage{set.name + place, run(f)})
	}
}

// use returns the folder of a set. Several stages may share it. If the set is not available, use
// notes that in the report and returns nil.
func (p *schedule) use(ctx context.Context, set dataSet) *folder {
	if i := slices.IndexFunc(p.folders, func(f *folder) bool { return f.name == set.name }); i >= 0 {
		return p.folders[i]
	}
	about, err := set.about(ctx)
	if err != nil {
		p.report.skip(set.name, err.Error())
		return nil
	}
	f := &folder{dataSet: set, path: filepath.Join(p.dir, "data-"+set.name), held: about}
	p.files += about.disk
	p.folders = append(p.folders, f)
	return f
}

// race returns a race of all tools with repositories in a place.
func (p *schedule) race(f *folder, place string, server *server) roundOf {
	e := p.event(f, place, server)
	return func(ctx context.Context, round int) error { return e.run(ctx, round, e.standard) }
}

// checkRoom returns an error if the disk has too little space.
func (p *schedule) checkRoom() error {
	room, err := free(p.dir)
	if err == nil && p.files+p.most > room {
		err = fmt.Errorf("the run needs %s of free disk, and %s are free: choose another folder with -dir, or fewer sets with -sets",
			byteSize(p.files+p.most), byteSize(room))
	}
	return err
}

// room returns the disk space that a race needs beside its files, in bytes: a repository for each
// tool, and one copy. With remotes, these are beside the repositories, and the copy is a clone; a push goes to one more.
func (b *bench) room(f *folder, place string) int64 {
	tools := len(b.tools)
	if f.alone {
		tools = 1
	}
	copies := 1 + tools
	if place != here {
		copies = 3 + 2*tools
	}
	need := f.held.disk * int64(copies)
	return need + need/8 + 64*mib
}
