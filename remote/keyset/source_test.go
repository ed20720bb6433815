package keyset

import (
	"bytes"
	"cmp"
	"crypto/rand"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"testing"

	"github.com/kist-vcs/kist/object"
	"github.com/kist-vcs/kist/object/disk"
	"github.com/kist-vcs/kist/remote"
	"github.com/kist-vcs/kist/remote/crypt"
	"github.com/kist-vcs/kist/remote/remotetest"
)

// site is a store with keysets, and a clone.
type site struct {
	t     testing.TB
	store *remotetest.Memory
	dir   string
	mine  Identity
	own   string // the file with mine
}

func newSite(t testing.TB) *site {
	s := &site{t: t, store: remotetest.NewMemory(), dir: filepath.Join(t.TempDir(), "keys"), mine: newHybrid(t)}
	s.own = secretFile(t, s.mine.Secret())
	return s
}

// keyset returns a keyset that the clone can open.
func (s *site) keyset() *Keyset { return newKeyset(s.t, recipient("mine", s.mine.Recipient())) }

func (s *site) put(k *Keyset) [2][16]byte {
	s.t.Helper()
	return s.putFile(seal(s.t, k))
}

// putFile stores two copies under new names.
func (s *site) putFile(file *File) [2][16]byte {
	names := randomNames()
	for _, name := range names {
		s.store.Set(Name(name), file.data)
	}
	return names
}

func randomNames() (names [2][16]byte) {
	for i := range names {
		rand.Read(names[i][:])
	}
	return names
}

// options are those of a new process.
func (s *site) options() Options {
	return Options{Blobs: s.store, Remote: testRemote, Dir: s.dir, Identities: NewIdentities(Places{Own: s.own})}
}

// open opens a keyset in a new process.
func (s *site) open(names [2][16]byte) (*Opened, error) {
	return NewSource(s.options()).Open(s.t.Context(), names)
}

// want opens a keyset in a new process, and wants it to be k.
func (s *site) want(what string, names [2][16]byte, k *Keyset) *Opened {
	s.t.Helper()
	opened, err := s.open(names)
	if err != nil {
		s.t.Errorf("%s: %v", what, err)
		return nil
	}
	if !sameKeyset(opened.Keyset, k) {
		s.t.Errorf("%s: another keyset, serial %d", what, opened.Serial)
	}
	return opened
}

// damage changes a byte of a copy on the store.
func (s *site) damage(name [16]byte) { s.store.Damage(Name(name), 500) }

func (s *site) remove(name [16]byte) { s.store.Remove(Name(name)) }

func next(t testing.TB, k *Keyset, root uint64) *Keyset {
	t.Helper()
	k, err := k.Rotate(root)
	if err != nil {
		t.Fatal(err)
	}
	return k
}

func TestSource(t *testing.T) {
	s := newSite(t)
	k := s.keyset()
	names := s.put(k)
	source := NewSource(s.options())
	keys, err := source.Load(t.Context(), names)
	if err != nil || keys.Remote != testRemote || !keys.Of(1).Equal(k.Epochs[0].Key) {
		t.Errorf("Load: %v, %v", keys, err)
	}
	opened, err := source.Open(t.Context(), names)
	if err != nil || opened.Names != names || !bytes.Equal(opened.File.data, s.store.Data(Name(names[1]))) {
		t.Errorf("Open: %+v, %v", opened, err)
	}

	// The next process needs no request, until the keys change.
	before := s.store.Calls(remotetest.Get)
	s.want("again", names, k)
	if got := s.store.Calls(remotetest.Get) - before; got != 0 {
		t.Errorf("%d requests for a known keyset", got)
	}
	changed := next(t, k, 2)
	later := s.put(changed)
	s.want("changed", later, changed)
	if got := s.store.Calls(remotetest.Get) - before; got != 1 {
		t.Errorf("%d requests for a new keyset", got)
	}

	// The names of the old one are known, and mean the new one.
	s.remove(names[0])
	s.remove(names[1])
	if opened := s.want("the old names", names, changed); opened != nil && opened.Names != later {
		t.Error("the names are those of the old keyset")
	}
	for _, name := range []string{copyFile, knownFile} {
		info, err := os.Stat(filepath.Join(s.dir, name))
		if err != nil || info.Mode() != 0o600 {
			t.Errorf("%s: mode %v, %v", name, info.Mode(), err)
		}
	}
}

// One intact copy is enough, wherever it is.
func TestCopies(t *testing.T) {
	for what, c := range map[string]struct {
		break0, break1 func(*site, [16]byte)
		want           bool
	}{
		"the first damaged":        {(*site).damage, nil, true},
		"the first missing":        {(*site).remove, nil, true},
		"the second damaged":       {nil, (*site).damage, true},
		"both damaged":             {(*site).damage, (*site).damage, false},
		"both missing":             {(*site).remove, (*site).remove, false},
		"one damaged, one missing": {(*site).damage, (*site).remove, false},
	} {
		s := newSite(t)
		k := s.keyset()
		names := s.put(k)
		file := seal(t, k)
		if c.break0 != nil {
			c.break0(s, names[0])
		}
		if c.break1 != nil {
			c.break1(s, names[1])
		}
		_, err := s.open(names)
		copies := new(*CopiesError)
		if (err == nil) != c.want || err != nil && (!errors.As(err, copies) || len((*copies).Errs) != 2 || errors.Is(err, remote.ErrNotFound)) {
			t.Errorf("%s: error %v", what, err)
		}

		o := s.options()
		o.Export = file
		if opened, err := NewSource(o).Open(t.Context(), names); err != nil || !sameKeyset(opened.Keyset, k) {
			t.Errorf("%s, with an export: error %v", what, err)
		}
	}
}

// The copy of a clone helps if the store has lost a newer keyset. It has the old keys only.
func TestOwnCopyHelps(t *testing.T) {
	s := newSite(t)
	k := s.keyset()
	s.want("first", s.put(k), k)
	lost := s.put(next(t, k, 2))
	s.damage(lost[0])
	s.remove(lost[1])
	if opened := s.want("lost", lost, k); opened != nil && opened.Names != [2][16]byte{} {
		t.Error("the own copy has the names of another keyset")
	}
}

// Damage of one read is repeated before it counts, and an error of the connection is no damage.
func TestReadsOfCopies(t *testing.T) {
	s := newSite(t)
	k := s.keyset()
	names := s.put(k)
	s.dir = ""
	o := s.options()
	faulty := remotetest.NewFaulty(s.store)
	o.Blobs = faulty
	faulty.Fail(remotetest.Fault{Op: remotetest.Get, How: remotetest.Wrong, Byte: 50})
	if _, err := NewSource(o).Open(t.Context(), names); err != nil || faulty.Calls(remotetest.Get) != 2 {
		t.Errorf("a byte that changed on the way: error %v after %d calls", err, faulty.Calls(remotetest.Get))
	}
	faulty.Fail(remotetest.Fault{Op: remotetest.Get})
	if _, err := NewSource(o).Open(t.Context(), names); !errors.Is(err, remote.ErrTemporary) || faulty.Calls(remotetest.Get) != 3 {
		t.Errorf("no connection: error %v", err)
	}

	file, err := ReadCopy(t.Context(), s.store, names[0])
	if err != nil || file.Serial != 1 {
		t.Errorf("ReadCopy: %v, %v", file, err)
	}
	s.damage(names[0])
	if _, err := ReadCopy(t.Context(), s.store, names[0]); !errors.Is(err, remote.ErrDamaged) || !errors.Is(err, object.ErrCorrupt) {
		t.Errorf("ReadCopy of a damaged copy: error %v", err)
	}
	s.store.Set(Name(names[0]), make([]byte, remote.MaxKeyset+100))
	if _, err := ReadCopy(t.Context(), s.store, names[0]); !errors.Is(err, remote.ErrDamaged) {
		t.Errorf("ReadCopy of a long copy: error %v", err)
	}
}

// Nobody without the keys brings in a keyset of his own, nor an older one.
func TestForeignKeysets(t *testing.T) {
	s := newSite(t)
	k := s.keyset()
	second := next(t, k, 3)
	first, current := s.put(k), s.put(second)
	s.want("current", current, second)

	forged := *s.keyset()
	forged.Serial = 7
	forgedEpoch := next(t, k, 4)
	forgedEpoch.Serial = 8
	fewer := *k
	fewer.Serial = 9
	elsewhere := *second
	elsewhere.Remote = testRepository
	more := next(t, second, 5)

	for what, c := range map[string]struct {
		k     *Keyset
		want  error
		epoch uint32
	}{
		"another key":             {&forged, ErrKeyChanged, 1},
		"another key of epoch 2":  {forgedEpoch, ErrKeyChanged, 2},
		"a key less":              {&fewer, ErrKeyChanged, 2},
		"another remote":          {&elsewhere, ErrOtherRemote, 0},
		"an older one, new names": {k, ErrOlder, 0},
		"a true successor":        {more, nil, 0},
	} {
		_, err := s.open(s.put(c.k))
		if !errors.Is(err, c.want) || (err == nil) != (c.want == nil) {
			t.Errorf("%s: error %v, want %v", what, err, c.want)
		}
		if changed := new(*KeyChangedError); errors.As(err, changed) && (*changed).Epoch != c.epoch {
			t.Errorf("%s: epoch %d, want %d", what, (*changed).Epoch, c.epoch)
		}
	}

	// The names of a later keyset, once it is known, no longer lead to an older one.
	s.want("known", current, more)
	if _, err := s.open(first); !errors.Is(err, ErrOlder) {
		t.Errorf("an older keyset that this clone never saw: error %v", err)
	}
}

// The pin decides where a clone has no memory.
func TestPin(t *testing.T) {
	s := newSite(t)
	k := s.keyset()
	names := s.put(k)
	right := k.Epochs[0].Key.Fingerprint(testRemote)
	wrong := right
	wrong[0] ^= 1
	for pin, ok := range map[*crypt.Fingerprint]bool{nil: true, &right: true, &wrong: false} {
		s.dir = t.TempDir()
		o := s.options()
		o.Pin = pin
		if _, err := NewSource(o).Open(t.Context(), names); (err == nil) != ok || err != nil && !errors.Is(err, ErrKeyChanged) {
			t.Errorf("pin %v: error %v", pin, err)
		}
	}
}

func TestFolderOfClone(t *testing.T) {
	s := newSite(t)
	k := s.keyset()
	names := s.put(k)
	s.want("first", names, k)
	known, copied := filepath.Join(s.dir, knownFile), filepath.Join(s.dir, copyFile)

	// A damaged or foreign copy is read from the store again.
	for _, bad := range [][]byte{nil, []byte("x"), seal(t, s.keyset()).data[:200]} {
		if err := os.WriteFile(copied, bad, 0o600); err != nil {
			t.Fatal(err)
		}
		if CheckFile(copyFile, bad) == nil {
			t.Error("CheckFile finds no damage in the copy")
		}
		s.want("a damaged copy", names, k)
	}
	for _, name := range []string{knownFile, copyFile, lockFile} {
		data, err := os.ReadFile(filepath.Join(s.dir, name))
		if err := cmp.Or(err, CheckFile(name, data)); err != nil {
			t.Errorf("CheckFile of the intact file %s: %v", name, err)
		}
	}

	// Damaged knowledge stops everything: the store could bring in other keys.
	intact, err := os.ReadFile(known)
	if err != nil {
		t.Fatal(err)
	}
	for i := range intact {
		bad := bytes.Clone(intact)
		bad[i] ^= 1
		if err := os.WriteFile(known, bad, 0o600); err != nil {
			t.Fatal(err)
		}
		if CheckFile(knownFile, bad) == nil {
			t.Fatalf("CheckFile finds no damage with byte %d flipped", i)
		}
		damaged := new(*KnownError)
		if _, err := s.open(names); !errors.As(err, damaged) || (*damaged).File != known {
			t.Fatalf("byte %d flipped: error %v", i, err)
		}
	}

	// The knowledge of another remote counts as none.
	other := knownKeys{remote: testRepository, keysets: []knownKeyset{{9, names}}, epochs: []crypt.Fingerprint{{}}}
	if err := os.WriteFile(known, other.encode(), 0o600); err != nil {
		t.Fatal(err)
	}
	s.want("another remote", names, k)
	if data, err := os.ReadFile(known); err != nil || !bytes.Equal(data, intact) {
		t.Errorf("the knowledge is %s, %v", data, err)
	}
}

// Processes that open different keysets at once leave the newest.
func TestConcurrentSources(t *testing.T) {
	s := newSite(t)
	keysets := []*Keyset{s.keyset()}
	names := [][2][16]byte{s.put(keysets[0])}
	for i := range 7 {
		k := next(t, keysets[i], uint64(i+2))
		keysets, names = append(keysets, k), append(names, s.put(k))
	}

	var group sync.WaitGroup
	for i := range names {
		group.Go(func() {
			opened, err := s.open(names[i])
			if err != nil && !errors.Is(err, ErrOlder) {
				t.Errorf("serial %d: %v", i+1, err)
			}
			if err == nil && opened.Serial < uint64(i+1) {
				t.Errorf("serial %d instead of %d", opened.Serial, i+1)
			}
		})
	}
	group.Wait()
	s.want("the newest", names[len(names)-1], keysets[len(names)-1])
	if entries, err := os.ReadDir(s.dir); err != nil || len(entries) > 3 {
		t.Errorf("%d files are left: %v, %v", len(entries), entries, err)
	}
}

// A keyset that this process has loaded is not read again when a root names it.
func TestOpenAfterLoad(t *testing.T) {
	s := newSite(t)
	k := s.keyset()
	source := NewSource(s.options())
	if _, err := source.Open(t.Context(), s.put(k)); err != nil {
		t.Fatal(err)
	}
	changed := next(t, k, 2)
	names := s.put(changed)
	if keys, err := source.Load(t.Context(), names); err != nil || keys.Newest() != 2 {
		t.Fatalf("Load: %v, %v", keys, err)
	}

	before := s.store.Calls(remotetest.Get)
	for range 2 {
		if opened, err := source.Open(t.Context(), names); err != nil || opened.Serial != changed.Serial {
			t.Errorf("Open: %v", err)
		}
	}
	s.want("another process", names, changed)
	if s.store.Calls(remotetest.Get) != before {
		t.Error("the store was read")
	}

	stranger := s.keyset()
	stranger.Serial = 9
	if _, err := source.Open(t.Context(), s.put(stranger)); !errors.Is(err, ErrKeyChanged) || !errors.Is(err, crypt.ErrOtherKeys) {
		t.Errorf("a keyset with other keys: error %v", err)
	}
}

// FuzzKnown checks that only one text is the encoding of a knowledge.
func FuzzKnown(f *testing.F) {
	k := knownKeys{remote: testRemote, keysets: []knownKeyset{{3, randomNames()}, {2, randomNames()}}, epochs: []crypt.Fingerprint{{1}, {2}}}
	f.Add(k.encode())
	f.Add(disk.WithSum([]byte(knownFirst)))
	f.Fuzz(func(t *testing.T, data []byte) {
		if k, err := parseKnown(data); err == nil && !bytes.Equal(k.encode(), data) {
			t.Fatal("encoded again, it is another text")
		}
		if k, err := parseKnown(disk.WithSum(data)); err == nil {
			_ = fmt.Sprint(k.newest())
		}
	})
}
