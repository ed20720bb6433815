package kist

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"slices"
	"strings"

	"github.com/kist-vcs/kist/gc"
	"github.com/kist-vcs/kist/object"
	"github.com/kist-vcs/kist/object/disk"
)

// lostFile is the file, in the .kist folder, with the objects whose loss was
// accepted. It is never sent anywhere: nobody can make another repository accept
// a loss.
const lostFile = "lost"

const maxLostSize = 64 << 20 // of the file, in bytes

// ErrLostList is matched by the error for a damaged list of accepted losses. Such
// a list is not used.
var ErrLostList = fmt.Errorf("%s is damaged: %w", lostFile, object.ErrCorrupt)

// Lost returns the objects whose loss was accepted and that are missing still.
func (r *Repository) Lost(ctx context.Context) ([]object.Key, error) { return r.objects.Lost(ctx) }

// readLost returns the objects whose loss was accepted.
func readLost(dir string) ([]object.Key, error) {
	path := dir + "/" + lostFile
	info, err := disk.Lstat(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil, nil
	case err != nil:
		return nil, err
	case !info.Mode().IsRegular() || info.Size() > maxLostSize:
		return nil, ErrLostList
	}
	data, err := disk.ReadFile(path)
	if err != nil {
		return nil, err
	}
	return decodeLost(data)
}

// encodeLost returns the file for a list: a line for each object, sorted, and a
// line with the checksum.
func encodeLost(keys []object.Key) []byte {
	keys = slices.Clone(keys)
	slices.SortFunc(keys, object.Key.Compare)
	lines := make([]string, len(keys))
	for i, key := range keys {
		lines[i] = key.Kind.String() + " " + key.ID.String()
	}
	return disk.WithSum([]byte(strings.Join(lines, "\n")))
}

func decodeLost(file []byte) (keys []object.Key, err error) {
	data, summed, err := disk.CutSum(file)
	if err != nil || !summed {
		return nil, ErrLostList
	}
	for line := range strings.SplitSeq(string(data), "\n") {
		name, id, _ := strings.Cut(line, " ")
		key := object.Key{}
		for kind := object.KindChunk; kind.Valid(); kind++ {
			if kind.String() == name {
				key.Kind = kind
			}
		}
		if key.ID, err = object.ParseID(id); err != nil || !key.Kind.Valid() {
			return nil, ErrLostList
		}
		keys = append(keys, key)
	}
	if !bytes.Equal(encodeLost(keys), file) {
		return nil, ErrLostList
	}
	return keys, nil
}

// orphans returns, if the loss of a commit was accepted, all commits that are
// here. Those before the lost one are reachable by no name, and have to stay.
func (r *Repository) orphans(ctx context.Context) ([]gc.Root, error) {
	lost, err := r.Lost(ctx)
	if err != nil || !slices.ContainsFunc(lost, func(key object.Key) bool { return key.Kind == object.KindCommit }) {
		return nil, err
	}
	ids, err := r.objects.Prefix(ctx, object.KindCommit, "", math.MaxInt)
	roots := make([]gc.Root, len(ids))
	for i, id := range ids {
		roots[i] = gc.Root{Name: lostFile, Key: object.Key{Kind: object.KindCommit, ID: id}, Hint: true}
	}
	return roots, err
}

// repairLostList puts a damaged list back if one bit of it has changed. Otherwise
// it moves the list away: missing objects count as damage again.
func (p *repairer) repairLostList(context.Context) error {
	if _, err := readLost(p.dir); !errors.Is(err, ErrLostList) {
		return err
	}
	how := "removed: what is missing is damage again, until the loss is accepted"
	data, err := disk.ReadFile(p.path(lostFile))
	mended := err == nil && len(data) < 1<<16 && disk.Mend(data, func(data []byte) bool {
		_, err := decodeLost(data)
		return err == nil
	})
	if mended {
		how = "one bit of it had changed"
	}
	if !p.o.DryRun {
		p.damage = append(p.damage, &gc.Problem{Where: lostFile, Err: ErrLostList})
		if err := p.keep(lostFile); err != nil {
			return err
		}
		if mended {
			err = disk.WriteFile(p.path(lostFile), data)
		} else {
			err = disk.Remove(p.path(lostFile))
		}
		if err != nil {
			return err
		}
		lost, err := readLost(p.dir)
		if err != nil {
			return err
		}
		p.objects.SetLost(lost)
	}
	p.fixed(lostFile, how)
	return nil
}

// acceptLoss accepts the loss of the objects that stay missing, if that is asked
// for. If records were lost just now, these objects may have expired: a person
// looks at them first. Objects that came back are not in the list any more.
func (p *repairer) acceptLoss(ctx context.Context) error {
	if p.o.AcceptLoss && !p.unsure {
		missing := func(problem *gc.Problem) bool {
			return !problem.Key.IsZero() && errors.Is(problem.Err, object.ErrNotFound)
		}
		for _, problem := range p.result.Lost {
			if missing(problem) {
				p.result.Accepted = append(p.result.Accepted, problem)
			}
		}
		p.result.Lost = slices.DeleteFunc(p.result.Lost, missing)
	}
	if p.o.DryRun {
		return nil
	}
	before, err := readLost(p.dir)
	if err != nil {
		return err
	}
	lost, err := p.objects.Lost(ctx)
	if err != nil || len(lost) == len(before) && len(p.result.Accepted) == 0 {
		return err
	}
	for _, problem := range p.result.Accepted {
		lost = append(lost, problem.Key)
	}
	if len(lost) == 0 {
		return disk.Remove(p.path(lostFile))
	}
	p.objects.SetLost(lost)
	return disk.WriteFile(p.path(lostFile), encodeLost(lost))
}
