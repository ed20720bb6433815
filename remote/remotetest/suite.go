package remotetest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/kist-vcs/kist/remote"
)

// Run checks that a backend keeps the promises in the comments of
// [remote.Backend] and its parts. Each check calls open, one at a time, for an
// empty store without other clients. Open registers its own clean-up. Run the
// suite with -race, too.
//
// The suite uses no names that begin with "tmp": a backend may keep them for
// itself.
func Run(t *testing.T, open func(t *testing.T) remote.Backend) {
	for _, c := range checks {
		t.Run(c.name, func(t *testing.T) { c.run(t, open(t)) })
	}
}

type check struct {
	name string
	run  func(t testing.TB, b remote.Backend)
}

var checks = []check{
	{"RoundTrip", checkRoundTrip},
	{"Sizes", checkSizes},
	{"Large", checkLarge},
	{"Names", checkNames},
	{"NamesRefused", checkNamesRefused},
	{"KindsApart", checkKindsApart},
	{"Get", checkGet},
	{"NotFound", checkNotFound},
	{"Stat", checkStat},
	{"PutBody", checkPutBody},
	{"PutShortBody", checkPutShortBody},
	{"PutTaken", checkPutTaken},
	{"PutWhole", checkPutWhole},
	{"Create", checkCreate},
	{"CreateRace", checkCreateRace},
	{"MaxRecord", checkMaxRecord},
	{"Delete", checkDelete},
	{"List", checkList},
	{"ListMany", checkListMany},
	{"ListStops", checkListStops},
	{"Cancelled", checkCancelled},
	{"Concurrent", checkConcurrent},
}

// sample returns n bytes that do not compress, the same for the same seed.
func sample(seed, n int) []byte {
	data := make([]byte, n)
	rand.NewChaCha8([32]byte{byte(seed), byte(seed >> 8)}).Read(data)
	return data
}

// put stores a blob or a record.
func put(t testing.TB, b remote.Backend, name string, data []byte) {
	t.Helper()
	if err := store(b, name, data); err != nil {
		t.Fatalf("store %q of %d bytes: %v", name, len(data), err)
	}
}

func store(b remote.Backend, name string, data []byte) error {
	if remote.IsRecord(name) {
		return b.Create(context.Background(), name, data)
	}
	return b.Put(context.Background(), name, bytes.NewReader(data), int64(len(data)))
}

// want checks that a blob exists with the bytes of data.
func want(t testing.TB, b remote.Backend, name string, data []byte) {
	t.Helper()
	wantGet(t, b, name, 0, len(data)+1, data)
	info, err := b.Stat(context.Background(), name)
	size := remote.StoredSize(b, name, int64(len(data)))
	if err != nil || info.Name != name || info.Size != size {
		t.Errorf("stat %q: %+v, %v; want its name and size %d", name, info, err, size)
	}
}

// wantGet checks the result of a Get with a buffer of n bytes.
func wantGet(t testing.TB, b remote.Backend, name string, off int64, n int, data []byte) {
	t.Helper()
	p := bytes.Repeat([]byte{0x55}, n+8)
	got, err := b.Get(context.Background(), name, p[:n:n], off)
	switch {
	case err != nil:
		t.Errorf("get %d bytes of %q from %d: %v", n, name, off, err)
	case got != len(data):
		t.Errorf("get %d bytes of %q from %d gave %d bytes, want %d", n, name, off, got, len(data))
	case !bytes.Equal(p[:got], data):
		t.Errorf("get %d bytes of %q from %d gave other bytes than were stored", n, name, off)
	case bytes.Count(p[n:], []byte{0x55}) != 8:
		t.Errorf("get %d bytes of %q from %d wrote behind the buffer", n, name, off)
	}
}

// wantNone checks that a blob does not exist.
func wantNone(t testing.TB, b remote.Backend, name string) {
	t.Helper()
	for _, call := range []struct {
		n   int
		off int64
	}{{10, 0}, {10, 100}, {0, 0}} {
		n, err := b.Get(context.Background(), name, make([]byte, call.n), call.off)
		wantKind(t, fmt.Sprintf("get %d bytes of absent %q from %d", call.n, name, call.off), err, remote.ErrNotFound)
		if n != 0 {
			t.Errorf("get of absent %q: %d bytes", name, n)
		}
	}
	info, err := b.Stat(context.Background(), name)
	wantKind(t, fmt.Sprintf("stat of absent %q", name), err, remote.ErrNotFound)
	if info != (remote.Info{}) {
		t.Errorf("stat of absent %q: %+v", name, info)
	}
}

var kinds = []error{
	remote.ErrNotFound, remote.ErrExists, remote.ErrName, remote.ErrTemporary, remote.ErrCredentials, remote.ErrCertificate, remote.ErrPermission,
	remote.ErrNoStore, remote.ErrFull, remote.ErrUnsupported, remote.ErrDamaged,
}

// wantKind checks that err is a [*remote.Error] of exactly this kind; nil means
// of none.
func wantKind(t testing.TB, what string, err, kind error) {
	t.Helper()
	var re *remote.Error
	if !errors.As(err, &re) {
		t.Errorf("%s: error %v, want a *remote.Error", what, err)
		return
	}
	for _, k := range kinds {
		if errors.Is(err, k) != (k == kind) {
			t.Errorf("%s: error %v, want kind %v", what, err, kind)
		}
	}
}

// list returns all entries of List and checks the rules of lists.
func list(t testing.TB, b remote.Backend, prefix string) (infos []remote.Info, err error) {
	t.Helper()
	for info, listErr := range b.List(context.Background(), prefix) {
		switch {
		case err != nil:
			t.Errorf("list %q goes on after an error", prefix)
		case listErr != nil && info != (remote.Info{}):
			t.Errorf("list %q yields %+v with error %v", prefix, info, listErr)
		case listErr == nil && !strings.HasPrefix(info.Name, prefix):
			t.Errorf("list %q yields %q", prefix, info.Name)
		case listErr == nil && len(infos) > 0 && infos[len(infos)-1].Name >= info.Name:
			t.Errorf("list %q yields %q after %q", prefix, info.Name, infos[len(infos)-1].Name)
		}
		if err = listErr; err == nil {
			infos = append(infos, info)
		}
	}
	return infos, err
}

// wantList checks that List yields names, sorted. It waits, because a list may be
// late.
func wantList(t testing.TB, b remote.Backend, prefix string, names []string) {
	t.Helper()
	var got []string
	eventually(func() bool {
		infos, err := list(t, b, prefix)
		if err != nil {
			t.Errorf("list %q: %v", prefix, err)
			return true
		}
		got = got[:0]
		for _, info := range infos {
			got = append(got, info.Name)
		}
		return slices.Equal(got, names)
	})
	if !slices.Equal(got, names) {
		t.Errorf("list %q yields %.20q (%d), want %.20q (%d)", prefix, got, len(got), names, len(names))
	}
}

// patience limits one pause of eventually.
var patience = 3 * time.Second

// eventually calls yes until it returns true, for at most twice its patience.
func eventually(yes func() bool) {
	for pause := time.Millisecond; pause < patience && !yes(); pause *= 2 {
		time.Sleep(pause)
	}
}
