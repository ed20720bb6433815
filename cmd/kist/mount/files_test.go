package mount

import (
	"context"
	"errors"
	"fmt"
	"github.com/kist-vcs/kist"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hanwen/go-fuse/v2/fuse"

	"github.com/kist-vcs/kist/object"
	"github.com/kist-vcs/kist/remote"
	"github.com/kist-vcs/kist/tree"
	"github.com/kist-vcs/kist/tree/look/browse"
)

func entry(name string, content byte) *browse.Node {
	return &browse.Node{Entry: object.Entry{Name: name, Type: object.TypeFile, Content: object.Key{Kind: object.KindChunk, ID: object.ID{content}}}}
}

func TestInodes(t *testing.T) {
	s := newFileSystem(entry("", 0), Options{Warn: func(string) {}, Words: error.Error})
	a := s.enterNode(1, entry("a", 1))
	for what, id := range map[string]uint64{
		"another name": s.enterNode(1, entry("b", 1)), "another content": s.enterNode(1, entry("a", 2)), "another folder": s.enterNode(a, entry("a", 1)),
	} {
		if id == a {
			t.Errorf("%s: the node has the same number", what)
		}
	}
	if again := s.enterNode(1, entry("a", 1)); again != a {
		t.Error("the same node has two numbers")
	}
	s.Forget(a, 1)
	if s.findInode(a) == nil {
		t.Error("the node was forgotten before its last reference")
	}
	s.Forget(a, 1)
	if s.findInode(a) != nil || len(s.inodes) != 4 {
		t.Errorf("the node was not forgotten: %d inodes, want 4", len(s.inodes))
	}
	s.Forget(fuse.FUSE_ROOT_ID, 5)
	if s.findInode(fuse.FUSE_ROOT_ID) == nil {
		t.Error("the root was forgotten")
	}
}

func TestEqualNumbers(t *testing.T) {
	s := newFileSystem(entry("", 0), Options{Warn: func(string) {}, Words: error.Error})
	n := entry("a", 1)
	s.inodes[s.inodeNumber(1, n)] = &inode{Node: entry("other", 2), known: 1} // as if both hashes were equal
	if id := s.enterNode(1, n); s.findInode(id).Name != "a" {
		t.Error("two nodes have one number")
	}
}

func TestRequests(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cancel := make(chan struct{})
		r, done := newRequest(cancel)
		defer done()
		began := time.Now()
		close(cancel)
		if r.Err() != nil {
			t.Error("a cancelled request ended without patience")
		}
		<-r.Done()
		if waited := time.Since(began); waited != patience || !errors.Is(r.Err(), context.Canceled) {
			t.Errorf("the request ended with %v after %v, want Canceled after %v", r.Err(), waited, patience)
		}
	})
	synctest.Test(t, func(t *testing.T) {
		r, done := newRequest(make(chan struct{}))
		r.Done()
		done()
		synctest.Wait() // no goroutine stays
	})
}

func TestStatuses(t *testing.T) {
	var warned []string
	s := newFileSystem(entry("", 0), Options{
		Warn:  func(text string) { warned = append(warned, text) },
		Words: func(err error) string { return "in words: " + err.Error() },
	})
	for _, c := range []struct {
		err  error
		want fuse.Status
	}{
		{&tree.PathError{Path: "x", Err: tree.ErrNotExist}, fuse.ENOENT},
		{&tree.PathError{Path: "x", Err: tree.ErrNotDir}, fuse.ENOTDIR},
		{context.Canceled, fuse.EINTR},
		{object.ErrPurged, fuse.ENODATA},
		{&object.AbsentError{Reason: kist.ErrExpiredGone}, fuse.ENODATA},
		{&object.AbsentError{Reason: object.ErrLost}, fuse.ENODATA},
		{&object.AbsentError{}, fuse.EIO},
		{&object.CorruptError{Err: errors.New("bits")}, fuse.EIO},
		{object.NewAwayError(object.Key{}, remote.ErrArchived), fuse.EIO},
	} {
		for range 2 {
			if got := s.statusOf("x", c.err); got != c.want {
				t.Errorf("status of %v is %v, want %v", c.err, got, c.want)
			}
		}
	}
	if len(warned) != 6 || warned[5] != `"x": in words: `+object.NewAwayError(object.Key{}, remote.ErrArchived).Error() {
		t.Errorf("warnings are %q, want 6, in words", warned)
	}

	for i := range 2 * maxWarnings {
		s.statusOf(fmt.Sprint(i), object.ErrPurged)
	}
	if len(warned) != maxWarnings+1 {
		t.Errorf("%d warnings, want %d", len(warned), maxWarnings+1)
	}
}
