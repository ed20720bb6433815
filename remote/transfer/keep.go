package transfer

import (
	"context"
	"encoding/hex"
	"io"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/kist-vcs/kist/object"
	"github.com/kist-vcs/kist/object/disk"
	"github.com/kist-vcs/kist/refs"
	"github.com/kist-vcs/kist/remote/rootlog"
)

// KeepNote names the keep ref of a repository on a remote. The commit of that ref reaches
// content that the repository has given away, so that the remote keeps it.
type KeepNote struct {
	ID      string       `json:"id"`      // 32 random hexadecimal digits, "" if there is no keep ref
	Commits []KeepCommit `json:"commits"` // the commits that the ref may name, the newest last
}

// KeepCommit is a commit that a keep ref names.
type KeepCommit struct {
	ID   string    `json:"commit"`
	All  bool      `json:"all"` // it reaches everything that the repository has given away
	Time time.Time `json:"time"`
}

// NewKeepNote returns the note of a new keep ref, which no commit has yet.
func NewKeepNote(random io.Reader) (KeepNote, error) {
	var id [16]byte
	_, err := io.ReadFull(random, id[:])
	return KeepNote{ID: hex.EncodeToString(id[:])}, err
}

// ReadKeep returns the note in the folder of a remote. It is empty if there is none, or if it is
// damaged: then the repository gets a new keep ref.
func ReadKeep(dir string) KeepNote {
	note, err := readNote[KeepNote](&cache{dir: dir}, keepFile)
	if id, herr := hex.DecodeString(note.ID); err != nil || herr != nil || len(id) != 16 || hex.EncodeToString(id) != note.ID {
		return KeepNote{}
	}
	return note
}

// WriteKeep replaces the note in the folder of a remote. An empty one removes it. The caller holds the
// lock of the keep refs.
func WriteKeep(ctx context.Context, dir string, note KeepNote) error {
	c := &cache{dir: dir}
	return c.withLock(ctx, func() error {
		if note.ID == "" {
			return disk.RemoveAll(c.path(keepFile))
		}
		return c.writeNote(keepFile, note)
	})
}

// Ref returns the full name of the keep ref.
func (n KeepNote) Ref() string { return refs.Keep + n.ID }

// Find returns the noted commit with an ID, or nil.
func (n KeepNote) Find(id object.ID) *KeepCommit {
	i := slices.IndexFunc(n.Commits, func(c KeepCommit) bool { return c.ID == id.String() })
	if i < 0 {
		return nil
	}
	return &n.Commits[i]
}

// KeepsAll reports whether a remote at head keeps everything that the repository has given away,
// as far as it has it.
func (n KeepNote) KeepsAll(head *rootlog.State) bool {
	at, ok := head.Refs[n.Ref()]
	c := n.Find(at.ID)
	return n.ID != "" && ok && c != nil && c.All
}

// KeepRef is a keep ref of any repository on a remote.
type KeepRef struct {
	Name   string     // full
	Commit object.Key // that it names
	Host   string     // the machine of the repository
	Time   time.Time  // when the repository made the commit; zero: it cannot be read
	Bytes  uint64     // the size of the content that only this ref lists
}

// KeepRefs returns the keep refs at head, sorted by name. Objects has the objects of the remote.
func KeepRefs(ctx context.Context, objects object.Reader, head *rootlog.State) (list []KeepRef, err error) {
	for _, name := range slices.Sorted(maps.Keys(head.Refs)) {
		if !strings.HasPrefix(name, refs.Keep) {
			continue
		}
		ref := KeepRef{Name: name, Commit: head.Refs[name]}
		c, err := object.ReadCommit(ctx, objects, ref.Commit.ID)
		switch {
		case err == nil:
			ref.Host, ref.Time, ref.Bytes = c.Host, c.Committer.Time.Time(), c.Bytes
		case !object.IsUnreadable(err):
			return nil, err
		}
		list = append(list, ref)
	}
	return list, nil
}

// HasKeeps reports whether a remote at head has keep refs.
func HasKeeps(head *rootlog.State) bool {
	for name := range head.Refs {
		if strings.HasPrefix(name, refs.Keep) {
			return true
		}
	}
	return false
}

// DropKeeps deletes the keep refs of a remote whose commits are older than age. It leaves out those whose commits cannot be read.
func DropKeeps(ctx context.Context, r *Remote, local Local, age time.Duration) error {
	head, err := HeadToWrite(ctx, r)
	if err != nil || !HasKeeps(head) {
		return err
	}
	snap, err := r.SnapshotAt(ctx, head)
	if err != nil {
		return err
	}
	list, err := KeepRefs(ctx, snap, snap.State)
	if err != nil {
		return err
	}
	push := PushOptions{Records: snap.State.Records}
	for _, ref := range list {
		if !ref.Time.IsZero() && r.o.Now().Sub(ref.Time) > age {
			push.Updates = append(push.Updates, RefUpdate{Name: ref.Name, Expect: &ref.Commit.ID})
		}
	}
	if len(push.Updates) > 0 {
		_, err = r.Push(ctx, local, push)
	}
	return err
}
