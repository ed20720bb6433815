package rootlog

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/fxamacker/cbor/v2"

	"github.com/kist-vcs/kist/remote/remotetest"
)

// A confirmation counts while the ref has the confirmed value, and in later roots.
func TestConfirm(t *testing.T) {
	m := remotetest.NewMemory()
	l := newLog(t, m)
	s := grow(t, l, 2)
	const main = "refs/heads/main"
	if at := s.Confirmed(main); !at.IsZero() {
		t.Errorf("confirmed at %v, and nobody did", at)
	}

	later := noon.Add(time.Hour)
	s = mustAppend(t, l, s, Change{Time: later, Confirm: []string{main}})
	s = mustAppend(t, l, s, move("side", 0, 7))
	head := mustHead(t, newLog(t, m), nil)
	for _, s := range []*State{s, head} {
		if at := s.Confirmed(main); !at.Equal(later) {
			t.Errorf("confirmed at %v, want %v", at, later)
		}
		if at := s.Confirmed("refs/heads/side"); !at.IsZero() {
			t.Errorf("the other branch is confirmed at %v", at)
		}
	}

	s = mustAppend(t, l, head, move("main", 2, 3))
	if at := s.Confirmed(main); !at.IsZero() || len(s.extra) != 0 {
		t.Errorf("confirmed at %v after a move; fields %v", at, s.extra)
	}
	if _, err := l.Append(ctx, s, Change{Time: noon, Confirm: []string{"refs/heads/none"}}); !errors.Is(err, ErrInvalid) {
		t.Errorf("confirm a ref that does not exist: error %v", err)
	}
}

// Programs that do not know confirmations copy them, also when they move the ref. A field of
// another form is no damage.
func TestConfirmOfOthers(t *testing.T) {
	l := newLog(t, remotetest.NewMemory())
	s := mustAppend(t, l, grow(t, l, 2), Change{Time: noon, Confirm: []string{"refs/heads/main"}})
	old := s.extra
	s = mustAppend(t, l, s, move("main", 2, 3))
	s.extra = old
	if at := s.Confirmed("refs/heads/main"); !at.IsZero() {
		t.Errorf("confirmed at %v, at another commit", at)
	}

	for _, field := range []any{5, "x", map[string]any{"refs/heads/main": 5}, map[string]any{"refs/heads/main": []any{[]any{1, 2_000_000_000}, cbor.ByteString(encodeKey(commit(3)))}}} {
		value, err := encoding.Marshal(field)
		if err != nil {
			t.Fatal(err)
		}
		s.extra = extra{confirmedField: value}
		if at := s.Confirmed("refs/heads/main"); !at.IsZero() {
			t.Errorf("field %v: confirmed at %v", field, at)
		}
		next := mustAppend(t, l, s, Change{Time: noon, Confirm: []string{"refs/heads/main"}})
		if at := next.Confirmed("refs/heads/main"); !at.Equal(noon) {
			t.Errorf("after field %v: confirmed at %v", field, at)
		}
		s = next
	}
}

// The field has a limit. The newest confirmations stay.
func TestConfirmMany(t *testing.T) {
	l := newLog(t, remotetest.NewMemory())
	c := move("main", 0, 1)
	for i := range 500 {
		c.Refs = append(c.Refs, RefChange{Name: fmt.Sprintf("refs/heads/%03d%s", i, strings.Repeat("x", 40)), New: commit(1)})
	}
	s := mustAppend(t, l, mustHead(t, l, nil), c)

	var all []string
	for name := range s.Refs {
		if name != "refs/heads/main" {
			all = append(all, name)
		}
	}
	s = mustAppend(t, l, s, Change{Time: noon, Confirm: all})
	s = mustAppend(t, l, s, Change{Time: noon.Add(time.Hour), Confirm: []string{"refs/heads/main"}})
	kept := 0
	for name := range s.Refs {
		if !s.Confirmed(name).IsZero() {
			kept++
		}
	}
	if size := len(s.extra[confirmedField]); size > maxConfirmed || kept < 100 || kept == 501 || s.Confirmed("refs/heads/main").IsZero() {
		t.Errorf("%d bytes, %d confirmations, the newest at %v", size, kept, s.Confirmed("refs/heads/main"))
	}
}
