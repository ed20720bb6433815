package transfer

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"slices"

	"github.com/kist-vcs/kist/object"
	"github.com/kist-vcs/kist/object/disk"
)

// Promise says which content a lazy repository may lack, because a remote keeps it (AWAY_IS_CLOSED): the content of some commits and of
// all their ancestors. At the root Seq, refs of the remote reached these commits.
type Promise struct {
	Remote string   `json:"remote"` // the ID of the remote
	Seq    uint64   `json:"root"`
	Tips   []string `json:"tips"` // IDs of commits, sorted
}

// maxTips bounds the tips of a promise. The file then has at most 7 MiB.
const maxTips = 100_000

// errPromise is the cause of the error for a malformed promise.
var errPromise = errors.New("it is no promise")

// decodePromise decodes the note of a promise.
func decodePromise(file []byte) (Promise, error) {
	p, err := decodeNote[Promise](file)
	switch {
	case err != nil:
		return Promise{}, err
	case p.Remote == "" || p.Seq == 0 || len(p.Tips) > maxTips:
		return Promise{}, errPromise
	}
	for i, tip := range p.Tips {
		id, err := object.ParseID(tip)
		if err != nil || id.String() != tip || i > 0 && p.Tips[i-1] >= tip {
			return Promise{}, fmt.Errorf("%w: tip %d", errPromise, i)
		}
	}
	return p, nil
}

// ReadPromise returns the promise in the folder of a remote. It is zero if there is none. The error is an
// [*object.DamageError] if it is damaged: the next fetch makes it again.
func ReadPromise(dir string) (Promise, error) {
	path := filepath.Join(dir, promiseFile)
	data, err := disk.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return Promise{}, nil
	}
	if err != nil {
		return Promise{}, err
	}
	p, err := decodePromise(data)
	if err != nil {
		err = &object.DamageError{Name: path, Err: err, Kind: ErrState}
	}
	return p, err
}

// Commits returns the tips.
func (p Promise) Commits() []object.ID {
	ids := make([]object.ID, 0, len(p.Tips))
	for _, tip := range p.Tips {
		if id, err := object.ParseID(tip); err == nil {
			ids = append(ids, id)
		}
	}
	return ids
}

// NewPromise returns the promise of a remote to keep the content of commits, which refs of its root seq reach.
func NewPromise(remote string, seq uint64, commits []object.ID) Promise {
	p := Promise{Remote: remote, Seq: seq}
	for _, id := range commits {
		p.Tips = append(p.Tips, id.String())
	}
	slices.Sort(p.Tips)
	p.Tips = slices.Compact(p.Tips)
	return p
}

// AddPromise adds a promise to the one in the folder of a remote. It leaves out the tips among older that are not in add: others reach
// them. It replaces the promise of another remote, and a damaged one.
func AddPromise(ctx context.Context, dir string, add Promise, older []object.ID) error {
	c := &cache{dir: dir}
	if err := disk.MkdirAll(dir, 0o777); err != nil {
		return err
	}
	drop := NewPromise("", 0, older).Tips
	return c.withLock(ctx, func() error {
		p, err := ReadPromise(dir)
		if err != nil && !errors.Is(err, ErrState) {
			return err
		}
		if p.Remote != add.Remote {
			p = Promise{}
		}
		next := Promise{Remote: add.Remote, Seq: max(p.Seq, add.Seq), Tips: slices.Clone(add.Tips)}
		for _, tip := range p.Tips {
			if _, dropped := slices.BinarySearch(drop, tip); !dropped {
				next.Tips = append(next.Tips, tip)
			}
		}
		slices.Sort(next.Tips)
		next.Tips = slices.Compact(next.Tips)
		switch {
		case len(next.Tips) > maxTips:
			return fmt.Errorf("promise of %d commits: at most %d are possible", len(next.Tips), maxTips)
		case slices.Equal(next.Tips, p.Tips) && next.Seq == p.Seq:
			return nil
		}
		return c.writeNote(promiseFile, next)
	})
}

// RemovePromise removes the promise of a remote: the repository lacks nothing any more.
func RemovePromise(ctx context.Context, dir string) error {
	c := &cache{dir: dir}
	return c.withLock(ctx, func() error { return disk.RemoveAll(c.path(promiseFile)) })
}
