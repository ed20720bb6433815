package transfer

import (
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/kist-vcs/kist/object"
	"github.com/kist-vcs/kist/object/disk"
)

// tipOf returns the ID of a promised commit.
func tipOf(n byte) object.ID { return object.ID{n} }

// A promise collects the tips of several fetches, and drops tips that others reach.
func TestAddPromise(t *testing.T) {
	t.Parallel()
	ctx, dir := t.Context(), filepath.Join(t.TempDir(), "remotes", "origin")
	for i, step := range []struct {
		remote         string
		head           uint64
		commits, older []object.ID
		want           []object.ID
		wantSeq        uint64
	}{
		{"one", 3, []object.ID{tipOf(2), tipOf(1)}, nil, []object.ID{tipOf(1), tipOf(2)}, 3},
		{"one", 5, []object.ID{tipOf(4)}, []object.ID{tipOf(1)}, []object.ID{tipOf(2), tipOf(4)}, 5},
		{"one", 4, []object.ID{tipOf(4)}, []object.ID{tipOf(4)}, []object.ID{tipOf(2), tipOf(4)}, 5},
		{"other", 1, []object.ID{tipOf(9)}, nil, []object.ID{tipOf(9)}, 1},
	} {
		if err := AddPromise(ctx, dir, NewPromise(step.remote, step.head, step.commits), step.older); err != nil {
			t.Fatal(err)
		}
		p, err := ReadPromise(dir)
		if err != nil || !slices.Equal(p.Commits(), step.want) || p.Seq != step.wantSeq || p.Remote != step.remote {
			t.Errorf("step %d: promise %+v, %v", i, p, err)
		}
	}

	if err := os.WriteFile(filepath.Join(dir, promiseFile), []byte("{}"), 0o666); err != nil {
		t.Fatal(err)
	}
	if _, err := ReadPromise(dir); !errors.Is(err, ErrState) {
		t.Errorf("a damaged promise: %v", err)
	}
	if err := AddPromise(ctx, dir, NewPromise("one", 7, []object.ID{tipOf(3)}), nil); err != nil {
		t.Fatal(err)
	}
	if p, err := ReadPromise(dir); err != nil || len(p.Tips) != 1 {
		t.Errorf("the promise after damage: %+v, %v", p, err)
	}
	if err := RemovePromise(ctx, dir); err != nil {
		t.Fatal(err)
	}
	if p, err := ReadPromise(dir); err != nil || p.Tips != nil {
		t.Errorf("the promise that was removed: %+v, %v", p, err)
	}
}

// A malformed promise promises nothing.
func TestDecodePromise(t *testing.T) {
	t.Parallel()
	a, b := tipOf(1).String(), tipOf(2).String()
	for name, test := range map[string]struct {
		p  Promise
		ok bool
	}{
		"good":      {Promise{"r", 1, []string{a, b}}, true},
		"no tips":   {Promise{"r", 1, nil}, true},
		"no remote": {Promise{"", 1, []string{a}}, false},
		"no root":   {Promise{"r", 0, []string{a}}, false},
		"unsorted":  {Promise{"r", 1, []string{b, a}}, false},
		"twice":     {Promise{"r", 1, []string{a, a}}, false},
		"no ID":     {Promise{"r", 1, []string{"main"}}, false},
		"capitals":  {Promise{"r", 1, []string{strings.ToUpper(object.ID{0xab}.String())}}, false},
	} {
		data, err := json.Marshal(test.p)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := decodePromise(disk.WithSum(data)); (err == nil) != test.ok {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func FuzzDecodePromise(f *testing.F) {
	for _, p := range []Promise{{"r", 1, nil}, {"r", 7, []string{tipOf(1).String(), tipOf(2).String()}}, {"", 0, []string{"x"}}} {
		data, err := json.Marshal(p)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(data)
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		p, err := decodePromise(disk.WithSum(data))
		if err != nil {
			return
		}
		if len(p.Commits()) != len(p.Tips) {
			t.Errorf("%d commits of %d tips", len(p.Commits()), len(p.Tips))
		}
		again, err := json.Marshal(p)
		if err != nil {
			t.Fatal(err)
		}
		if q, err := decodePromise(disk.WithSum(again)); err != nil || !slices.Equal(q.Tips, p.Tips) {
			t.Errorf("the promise that is written again: %v, %v", q, err)
		}
	})
}
