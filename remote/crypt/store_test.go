package crypt

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"

	"github.com/kist-vcs/kist/remote"
	"github.com/kist-vcs/kist/remote/remotetest"
)

// mixed is a store for the suite of all stores: roots are created with a keyset, and names that
// a Store refuses are those of the store below.
type mixed struct{ *Store }

func (m mixed) Unwrap() remote.Backend { return m.Store }

func refused(name string) bool { return typeOf(name) == 0 && !isClear(name) }

func (m mixed) Get(ctx context.Context, name string, p []byte, off int64) (int, error) {
	if refused(name) {
		return m.b.Get(ctx, name, p, off)
	}
	return m.Store.Get(ctx, name, p, off)
}

func (m mixed) Put(ctx context.Context, name string, body io.ReaderAt, size int64) error {
	if refused(name) {
		return m.b.Put(ctx, name, body, size)
	}
	return m.Store.Put(ctx, name, body, size)
}

func (m mixed) Create(ctx context.Context, name string, data []byte) error {
	switch {
	case refused(name):
		return m.b.Create(ctx, name, data)
	case typeOf(name) == remote.TypeRoot:
		return m.CreateRoot(ctx, name, data, first)
	}
	return m.Store.Create(ctx, name, data)
}

func TestSuite(t *testing.T) {
	remotetest.Run(t, func(t *testing.T) remote.Backend {
		s, _ := newStore(t)
		return mixed{s}
	})
}

// A Store is found before the store below, whatever is looked for.
func TestAsFindsStore(t *testing.T) {
	s, _ := newStore(t)
	if r, ok := remote.As[remote.Replacer](s); !ok || r != remote.Replacer(s) {
		t.Errorf("the Replacer is %T", r)
	}
	if c, ok := remote.As[remote.Creator](s); !ok || c != remote.Creator(s) {
		t.Errorf("the Creator is %T", c)
	}
	if e, ok := remote.As[remote.Encrypter](s); !ok || e != remote.Encrypter(s) {
		t.Errorf("the Encrypter is %T", e)
	}
}

// Nothing reaches the store below in clear, except names that are clear. Roots need their keyset.
func TestRefusedNames(t *testing.T) {
	ctx := t.Context()
	for _, c := range []struct {
		name  string
		put   bool // by Put
		clear bool
	}{
		{"packs/00/0", true, false}, {"index/0", true, false}, {"state/0", true, false}, {"keys/0", true, true}, {"probe/0/packs/1", true, true},
		{"other/0", false, false}, {"packs", false, false}, {"packsx/0", false, false}, {"roots/0", false, false}, {"a", false, false}, {"keys", false, false}, {"a/packs/0", false, false},
		{"root/1", false, false}, {"probe/0/root/1", false, false}, {"kist.json", false, false},
	} {
		s, m := newStore(t)
		err := s.Put(ctx, c.name, strings.NewReader("text"), 4)
		if c.put != (err == nil) || !c.put && !errors.Is(err, remote.ErrName) {
			t.Errorf("put %s: %v", c.name, err)
		}
		if stored := m.Data(c.name); c.put && c.clear != (string(stored) == "text") || !c.put && stored != nil {
			t.Errorf("put %s stored %.20q", c.name, stored)
		}
	}

	for name, clear := range map[string]bool{"kist.json": true, "probe/0/root/1": true, "root/1": false, "other/root/1": false, "packs/root/1": false, "packs/00/kist.json": false, "x/kist.json": false} {
		s, m := newStore(t)
		err := s.Create(ctx, name, []byte("text"))
		if clear != (err == nil) || !clear && !errors.Is(err, remote.ErrName) || clear != (string(m.Data(name)) == "text") {
			t.Errorf("create %s: %v", name, err)
		}
		m.Set(name, []byte("old"))
		err = s.Replace(ctx, name, []byte("text"))
		if clear != (err == nil) || !clear && !errors.Is(err, remote.ErrName) || clear != (string(m.Data(name)) == "text") {
			t.Errorf("replace %s: %v", name, err)
		}
	}

	for _, name := range []string{"kist.json", "packs/0", "packs/root/1", "root", "root/1/2", "probe/0/root/1", "root/A"} {
		s, m := newStore(t)
		if err := s.CreateRoot(ctx, name, []byte("text"), first); !errors.Is(err, remote.ErrName) || m.Data(name) != nil {
			t.Errorf("create root %s: %v", name, err)
		}
		if err := s.ReplaceRoot(ctx, name, []byte("text"), first); !errors.Is(err, remote.ErrName) || m.Data(name) != nil {
			t.Errorf("replace root %s: %v", name, err)
		}
	}
}

// A blob below that is stored in clear is damage, and never returned.
func TestClearBlobs(t *testing.T) {
	for name, typ := range map[string]remote.Type{packName: remote.TypePack, "index/0": remote.TypeIndex, rootName1: remote.TypeRoot, "state/0": remote.TypeState} {
		s, m := newStore(t)
		m.Set(name, append(remote.AppendHeader(nil, typ, remote.Version1), sample(1, 5000)...))
		_, err := readAll(s, name)
		wantDamaged(t, name, err)
		if !errors.Is(err, errClear) {
			t.Errorf("%s: error %v", name, err)
		}
	}
	s, m := newStore(t)
	m.Set("other/0", sample(1, 100))
	if got, err := s.PlainSize(t.Context(), "other/0"); err != nil || got != 100 {
		t.Errorf("size %d, %v", got, err)
	}
	if _, err := readAll(s, "other/0"); !errors.Is(err, remote.ErrName) {
		t.Errorf("a name of no type: %v", err)
	}
}

// What a store of Replace keeps can be read, has the epoch and the names that the caller gave, and a new salt.
func TestReplaceRoot(t *testing.T) {
	s, m := newStore(t)
	s.keys = testKeys(t, 2)
	data := sample(1, 5000)
	if err := s.CreateRoot(t.Context(), rootName1, data, first); err != nil {
		t.Fatal(err)
	}
	before := m.Data(rootName1)
	wantAll(t, s, rootName1, data)

	m.Damage(rootName1, 20)
	_, err := readAll(s, rootName1)
	wantDamaged(t, "root", err)
	if err := s.ReplaceRoot(t.Context(), rootName1, data, first); err != nil {
		t.Fatal(err)
	}
	wantAll(t, s, rootName1, data)
	after := m.Data(rootName1)
	if !bytes.Equal(before[:saltAt], after[:saltAt]) || !bytes.Equal(before[keysetAt:rootHeaderSize], after[keysetAt:rootHeaderSize]) {
		t.Error("the root has another epoch or other names than before")
	}
	if bytes.Equal(before[saltAt:commitAt], after[saltAt:commitAt]) {
		t.Error("the root has the salt that it had before")
	}

	// Another process has the header of the old bytes in memory.
	other := New(m, Options{Keys: testKeys(t, 1)})
	large := sample(2, 300_000)
	if err := s.CreateRoot(t.Context(), "root/2", large, first); err != nil {
		t.Fatal(err)
	}
	wantAll(t, other, "root/2", large)
	if err := s.ReplaceRoot(t.Context(), "root/2", large, first); err != nil {
		t.Fatal(err)
	}
	p := make([]byte, 100)
	if n, err := other.Get(t.Context(), "root/2", p, 200_000); err != nil || !bytes.Equal(p[:n], large[200_000:200_100]) {
		t.Errorf("after a replacement by another process: %d bytes, %v", n, err)
	}
}

// Two calls of Put with the same bytes have nothing in common.
func TestPutsDiffer(t *testing.T) {
	s, m := newStore(t)
	data := sample(1, 40_000)
	put(t, s, "packs/00/1", data)
	put(t, s, "packs/00/2", data)
	one, two := m.Data("packs/00/1"), m.Data("packs/00/2")
	for i := 0; i+16 <= len(one); i += 16 {
		if i >= saltAt && bytes.Equal(one[i:i+16], two[i:i+16]) {
			t.Errorf("equal bytes at %d", i)
		}
	}
}

// keysets are keysets as Load returns them.
type keysets map[[2][16]byte]*Keys

func (k keysets) load(calls *int) func(context.Context, [2][16]byte) (*Keys, error) {
	return func(_ context.Context, names [2][16]byte) (*Keys, error) {
		*calls++
		if keys := k[names]; keys != nil {
			return keys, nil
		}
		return nil, &remote.Error{Op: "get", Name: "keys/…", Kind: remote.ErrNotFound}
	}
}

// newer returns a store that has two epochs, and one over the same memory that knows only the first.
func newer(t *testing.T, calls *int, known keysets) (two, one *Store, m *remotetest.Memory) {
	m = remotetest.NewMemory()
	two = New(m, Options{Keys: testKeys(t, 2)})
	return two, New(m, Options{Keys: testKeys(t, 1), Load: known.load(calls)}), m
}

// A root of an unknown epoch names its keyset. From then on, blobs of that epoch can be read.
func TestUnknownEpoch(t *testing.T) {
	ctx := t.Context()
	calls := 0
	two, one, m := newer(t, &calls, keysets{second.Names: testKeys(t, 2)})
	put(t, two, "packs/00/1", []byte("pack"))
	if err := two.CreateRoot(ctx, "root/2", []byte("root"), second); err != nil {
		t.Fatal(err)
	}

	_, err := readAll(one, "packs/00/1")
	if !errors.Is(err, remote.ErrNoKey) || errors.Is(err, remote.ErrDamaged) || calls != 0 {
		t.Errorf("a pack of an unknown epoch: %v, %d calls of Load", err, calls)
	}
	wantAll(t, one, "root/2", []byte("root"))
	m.ResetCounts()
	if k, err := one.RootKeyset(ctx, "root/2"); err != nil || k != second || m.Calls(remotetest.Any) != 0 {
		t.Errorf("the keyset of the root is %v, %v; %d requests", k, err, m.Calls(remotetest.Any))
	}
	one.headers.drop("root/2")
	if k, err := one.RootKeyset(ctx, "root/2"); err != nil || k != second {
		t.Errorf("the keyset of the root, from the store, is %v, %v", k, err)
	}
	if _, err := one.RootKeyset(ctx, "packs/00/1"); !errors.Is(err, remote.ErrName) {
		t.Errorf("the keyset of a pack: %v", err)
	}
	wantAll(t, one, "packs/00/1", []byte("pack"))
	wantAll(t, one, "root/2", []byte("root"))
	if calls != 1 {
		t.Errorf("%d calls of Load, want 1", calls)
	}

	// Reading does not change the epoch of new blobs. The state of the remote does.
	put(t, one, "packs/00/2", nil)
	if err := one.UseKeyset(ctx, second); err != nil {
		t.Fatal(err)
	}
	put(t, one, "packs/00/3", nil)
	if err := one.UseKeyset(ctx, first); err != nil {
		t.Fatal(err)
	}
	put(t, one, "packs/00/4", nil)
	for name, want := range map[string]byte{"packs/00/2": 1, "packs/00/3": 2, "packs/00/4": 2} {
		var header [16]byte
		if _, err := one.b.Get(ctx, name, header[:], 0); err != nil || header[15] != want {
			t.Errorf("%s is of epoch %d (%v), want %d", name, header[15], err, want)
		}
	}
}

// A missing keyset is neither a missing root nor damage.
func TestMissingKeyset(t *testing.T) {
	for _, cause := range []error{
		&remote.Error{Op: "get", Name: "keys/0", Kind: remote.ErrNotFound},
		&remote.Error{Op: "get", Name: "keys/0", Kind: remote.ErrDamaged},
		errors.New("no identity fits"),
	} {
		two, one, _ := newer(t, new(int), nil)
		one.load = func(context.Context, [2][16]byte) (*Keys, error) { return nil, cause }
		if err := two.CreateRoot(t.Context(), "root/2", []byte("root"), second); err != nil {
			t.Fatal(err)
		}
		for _, call := range []func() error{
			func() error { _, err := readAll(one, "root/2"); return err },
			func() error { _, err := one.PlainSize(t.Context(), "root/2"); return err },
			func() error { return one.UseKeyset(t.Context(), second) },
			func() error { return one.CreateRoot(t.Context(), "root/3", nil, second) },
			func() error { return one.ReplaceRoot(t.Context(), "root/2", nil, second) },
		} {
			err := call()
			if e, ok := errors.AsType[*remote.Error](err); !ok || !errors.Is(err, remote.ErrNoKey) || errors.Is(err, remote.ErrNotFound) || errors.Is(err, remote.ErrDamaged) || !strings.Contains(e.Error(), cause.Error()) {
				t.Errorf("cause %v: error %v", cause, err)
			}
		}
	}

	two, one, _ := newer(t, new(int), nil)
	one.load = func(context.Context, [2][16]byte) (*Keys, error) {
		return nil, &remote.Error{Op: "get", Kind: remote.ErrTemporary}
	}
	if err := two.CreateRoot(t.Context(), "root/2", []byte("root"), second); err != nil {
		t.Fatal(err)
	}
	if _, err := readAll(one, "root/2"); !errors.Is(err, remote.ErrTemporary) || errors.Is(err, remote.ErrNoKey) {
		t.Errorf("a keyset that cannot be read now: %v", err)
	}
}

// The keyset of a root may be gone from the store. An older one, which a clone has kept, then has fewer keys than are known.
// That is a missing key, and no foreign keyset.
func TestOlderKeyset(t *testing.T) {
	old := testKeys(t, 3)
	old.Epochs = old.Epochs[:1]
	third := remote.KeysetRef{Epoch: 3, Names: [2][16]byte{counted[[16]byte](0x90), counted[[16]byte](0xa0)}}
	_, m := newStore(t)
	writer := New(m, Options{Keys: testKeys(t, 3)})
	if err := writer.CreateRoot(t.Context(), "root/3", []byte("root"), third); err != nil {
		t.Fatal(err)
	}
	reader := New(m, Options{Keys: testKeys(t, 2), Load: func(context.Context, [2][16]byte) (*Keys, error) { return old, nil }})
	if got, err := readAll(reader, "root/3"); !errors.Is(err, ErrNoKey) || errors.Is(err, ErrOtherKeys) {
		t.Errorf("read %q, %v, want ErrNoKey", got, err)
	}
	if known, _ := reader.known(); known.Newest() != 2 {
		t.Errorf("%d epochs are known, want 2", known.Newest())
	}
}

// A keyset is refused if it lacks a known key, has another one, or belongs to another remote. The epoch is not
// damaged then.
func TestForeignKeysets(t *testing.T) {
	ctx := t.Context()
	other := testKeys(t, 2)
	other.Epochs[0] = testKey(t, 99)
	elsewhere := testKeys(t, 2)
	elsewhere.Remote[0]++
	for name, keys := range map[string]*Keys{"another first key": other, "another remote": elsewhere, "no keys": {}, "one key": testKeys(t, 1)} {
		_, one, m := newer(t, new(int), keysets{second.Names: keys})
		evil := New(m, Options{Keys: keys})
		if keys.Newest() == 2 {
			if err := evil.CreateRoot(ctx, "root/2", []byte("root"), second); err != nil {
				t.Fatal(err)
			}
			if got, err := readAll(one, "root/2"); !errors.Is(err, ErrOtherKeys) || errors.Is(err, remote.ErrDamaged) {
				t.Errorf("%s: read %q, %v", name, got, err)
			}
		}
		for _, err := range []error{one.UseKeyset(ctx, second), one.CreateRoot(ctx, "root/3", nil, second)} {
			if !errors.Is(err, ErrOtherKeys) && !errors.Is(err, remote.ErrNoKey) {
				t.Errorf("%s: error %v", name, err)
			}
		}
		if known, epoch := one.known(); known.Newest() != 1 || epoch != 1 {
			t.Errorf("%s: %d epochs are known, and blobs get epoch %d", name, known.Newest(), epoch)
		}
	}
}

// Two clients begin the second epoch at once. The loser forgets his keys.
func TestRaceOfKeysets(t *testing.T) {
	ctx := t.Context()
	mine, his := testKeys(t, 2), testKeys(t, 2)
	mine.Epochs[1] = testKey(t, 111)
	lost := remote.KeysetRef{Epoch: 2, Names: [2][16]byte{{1}, {2}}}
	calls := 0
	two, one, _ := newer(t, &calls, keysets{second.Names: his, lost.Names: mine})

	if err := two.CreateRoot(ctx, "root/2", []byte("his"), second); err != nil {
		t.Fatal(err)
	}
	if err := one.CreateRoot(ctx, "root/2", []byte("mine"), lost); !errors.Is(err, remote.ErrExists) {
		t.Fatal(err)
	}
	wantAll(t, one, "root/2", []byte("his"))
	if err := one.UseKeyset(ctx, second); err != nil {
		t.Error(err)
	}
}

// An epoch that a damaged header has is no missing key, and a damaged name of a keyset is damage.
func TestDamagedEpoch(t *testing.T) {
	for at := epochAt; at < saltAt; at++ {
		for _, name := range []string{packName, rootName1} {
			s, m := newStore(t)
			calls := 0
			s.load = keysets{}.load(&calls)
			put(t, s, name, []byte("text"))
			m.Damage(name, at)
			_, err := readAll(s, name)
			wantDamaged(t, fmt.Sprintf("%s, byte %d", name, at), err)
			if errors.Is(err, remote.ErrNoKey) || calls != 0 {
				t.Errorf("%s, byte %d: %v, %d calls of Load", name, at, err, calls)
			}
		}
	}
}

func TestNewerFormats(t *testing.T) {
	for at, what := range map[int]string{9: "version", 10: "scheme"} {
		s, m := newStore(t)
		put(t, s, packName, []byte("text"))
		data := m.Data(packName)
		data[at] = 2
		m.Set(packName, data)
		if _, err := readAll(s, packName); !errors.Is(err, remote.ErrNewerFormat) || errors.Is(err, remote.ErrDamaged) {
			t.Errorf("%s 2: %v", what, err)
		}
	}
}

// Bytes that change on the way are read once more.
func TestWrongBytesInTransit(t *testing.T) {
	m := remotetest.NewMemory()
	faulty := remotetest.NewFaulty(m)
	s := New(faulty, Options{Keys: testKeys(t, 1)})
	data := sample(1, 300_000)
	put(t, s, packName, data)
	for _, off := range []int64{0, 200_000} {
		for _, cached := range []bool{false, true} {
			s.headers.drop(packName)
			p := make([]byte, 1000)
			if cached {
				if _, err := s.Get(t.Context(), packName, p, 0); err != nil {
					t.Fatal(err)
				}
			}
			faulty.Fail(remotetest.Fault{Op: remotetest.Get, How: remotetest.Wrong, Byte: 50})
			if n, err := s.Get(t.Context(), packName, p, off); err != nil || !bytes.Equal(p[:n], data[off:off+1000]) {
				t.Errorf("read at %d, header cached %t: %d bytes, %v", off, cached, n, err)
			}
		}
	}
}
