package rootlog

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/kist-vcs/kist/remote"
	"github.com/kist-vcs/kist/remote/crypt"
	"github.com/kist-vcs/kist/remote/remotetest"
)

// changeKeys stores a keyset with these keys, and returns the change that makes it live.
func changeKeys(t testing.TB, l *Log, s *State, keys ...[]byte) KeysetChange {
	t.Helper()
	k, err := l.PutKeyset(ctx, s.Keys.Keyset.Serial+1, keysetOf(keys...))
	if err != nil {
		t.Fatal(err)
	}
	return KeysetChange{Change: Change{Time: noon, Who: "Ann"}, Keyset: k, NewEpoch: len(keys) > int(s.Keys.Epoch.Number), Start: s.Seq}
}

func mustChangeKeys(t testing.TB, l *Log, s *State, keys ...[]byte) *State {
	t.Helper()
	next, err := l.AppendKeyset(ctx, s, changeKeys(t, l, s, keys...))
	if err != nil {
		t.Fatal(err)
	}
	return next
}

// epochOf returns the epoch in the header of a stored blob.
func epochOf(m *remotetest.Memory, name string) byte { return m.Data(name)[15] }

// A change of keys makes the new keyset live and condemns the old one. A new epoch begins with it.
func TestAppendKeyset(t *testing.T) {
	m := remotetest.NewMemory()
	l := newEncrypted(t, m)
	first := grow(t, l, 2)
	if want := (Epoch{1, 0}); first.Keys.Epoch != want || first.Keys.Keyset.Serial != 1 || int(first.Keys.Keyset.Size) != len(keysetOf(testKey(1))) {
		t.Errorf("first keys %+v", first.Keys)
	}

	added := mustChangeKeys(t, l, first, testKey(1))
	if added.Keys.Epoch != first.Keys.Epoch || added.Keys.Keyset.Serial != 2 {
		t.Errorf("after an addition: %+v", added.Keys)
	}
	for _, name := range first.Keys.Keyset.Copies() {
		if added.Condemned[name] != added.Seq {
			t.Errorf("%s is not condemned: %v", name, added.Condemned)
		}
	}

	rotated := mustChangeKeys(t, l, added, testKey(1), testKey(2))
	if want := (Epoch{2, rotated.Seq}); rotated.Keys.Epoch != want || rotated.LeastStart() != rotated.Seq {
		t.Errorf("after a rotation: %+v, least start %d", rotated.Keys, rotated.LeastStart())
	}
	last := mustAppend(t, l, rotated, move("main", 2, 3))
	for seq, want := range map[uint64]byte{added.Seq: 1, rotated.Seq: 2, last.Seq: 2} {
		if got := epochOf(m, RootName(seq)); got != want {
			t.Errorf("root %d has epoch %d, want %d", seq, got, want)
		}
	}

	// The old keysets are gone. A client that knows no key reads all roots by the last one.
	for name := range last.Condemned {
		m.Remove(name)
	}
	at := first.Position()
	for _, remembered := range []*Position{nil, &at} {
		reader := client(t, m, l)
		if s := mustHead(t, reader, remembered); s.Hash != last.Hash || s.Keys != last.Keys {
			t.Errorf("head %+v", s.Position())
		}
		for root, err := range reader.Roots(ctx, last.Position()) {
			if err != nil {
				t.Errorf("root %v: %v", root, err)
			}
		}
	}
}

// A writer whose keys are not those of the head makes the change again.
func TestKeysetMoved(t *testing.T) {
	m := remotetest.NewMemory()
	l := newEncrypted(t, m)
	s := grow(t, l, 1)
	other := client(t, m, l)
	theirs := mustHead(t, other, nil)
	lost := changeKeys(t, other, theirs, testKey(1), testKey(3))
	won := mustChangeKeys(t, l, s, testKey(1), testKey(2))

	_, err := other.AppendKeyset(ctx, theirs, lost)
	var race *LostError
	if !errors.As(err, &race) || race.Head.Hash != won.Hash {
		t.Fatalf("lost race: %v", err)
	}
	if _, err := other.AppendKeyset(ctx, race.Head, lost); !errors.Is(err, ErrKeysetMoved) {
		t.Errorf("stale keyset: %v", err)
	}

	// The key that no root named is of no use: what the loser stores now opens with the others' key.
	next := mustAppend(t, other, race.Head, move("main", 1, 2))
	if got := mustHead(t, client(t, m, l), nil); got.Hash != next.Hash {
		t.Errorf("head %v", got.Position())
	}
	mustChangeKeys(t, other, next, testKey(1), testKey(2), testKey(3))
}

// A keyset follows the rules of all files.
func TestKeysetRules(t *testing.T) {
	m := remotetest.NewMemory()
	l := newEncrypted(t, m)
	s := grow(t, l, 1)
	c := changeKeys(t, l, s, testKey(1))
	orphan, live := c.Keyset.Copies()[0], s.Keys.Keyset.Copies()[1]

	if _, err := l.Append(ctx, s, Change{Time: noon, Condemn: []string{live}}); !errors.Is(err, ErrInvalid) {
		t.Errorf("condemned the live keyset: %v", err)
	}
	again := c
	again.Keyset.Names = s.Keys.Keyset.Names
	if _, err := l.AppendKeyset(ctx, s, again); !errors.Is(err, ErrInvalid) {
		t.Errorf("the same copies for another keyset: %v", err)
	}

	condemned := mustAppend(t, l, s, Change{Time: noon, Condemn: []string{orphan}})
	if _, err := l.AppendKeyset(ctx, condemned, c); !errors.Is(err, ErrReplan) {
		t.Errorf("named a condemned keyset: %v", err)
	}
	delisted := mustAppend(t, l, condemned, Change{Time: noon, Delist: []string{orphan}})
	if _, err := l.AppendKeyset(ctx, delisted, c); !errors.Is(err, ErrFloor) {
		t.Errorf("named a keyset from before the floor: %v", err)
	}

	clearLog := newLog(t, remotetest.NewMemory())
	base := grow(t, clearLog, 1)
	if _, err := clearLog.AppendKeyset(ctx, base, c); !errors.Is(err, ErrInvalid) {
		t.Errorf("a keyset of a remote in clear: %v", err)
	}
	if _, err := clearLog.Append(ctx, base, Change{Time: noon, Condemn: []string{orphan}}); !errors.Is(err, ErrInvalid) {
		t.Errorf("condemned a keyset of a remote in clear: %v", err)
	}
}

// A root that begins an epoch comes with no state file, however many changes the tables have.
func TestRotationWritesNoStateFile(t *testing.T) {
	m := remotetest.NewMemory()
	l := newEncrypted(t, m)
	s := grow(t, l, 1)
	c := changeKeys(t, l, s, testKey(1), testKey(2))
	for i := range 400 {
		c.Condemn = append(c.Condemn, name(i).Path())
	}
	next, err := l.AppendKeyset(ctx, s, c)
	if err != nil {
		t.Fatal(err)
	}
	if states := m.Names(stateFolder); len(states) != 0 {
		t.Errorf("state files %q", states)
	}

	mustAppend(t, l, next, Change{Time: noon})
	states := m.Names(stateFolder)
	if len(states) != 1 || epochOf(m, states[0]) != 2 {
		t.Errorf("state files of the next root: %q", states)
	}
}

// fakeKeys is an encrypting store that says of a root that it has other keys.
type fakeKeys struct {
	*crypt.Store
	fake func(name string, k *remote.KeysetRef)
}

func (f fakeKeys) RootKeyset(ctx context.Context, name string) (remote.KeysetRef, error) {
	k, err := f.Store.RootKeyset(ctx, name)
	f.fake(name, &k)
	return k, err
}

// A root whose header has another epoch or keyset than its body is damaged. So is one whose keys are older
// than those of an earlier root.
func TestFalseKeys(t *testing.T) {
	m := remotetest.NewMemory()
	l := newEncrypted(t, m)
	s := mustChangeKeys(t, l, grow(t, l, 2), testKey(1), testKey(2))
	s = mustAppend(t, l, s, move("main", 2, 3))

	for what, fake := range map[string]func(k *remote.KeysetRef){
		"epoch":  func(k *remote.KeysetRef) { k.Epoch-- },
		"keyset": func(k *remote.KeysetRef) { k.Names[1][0] ^= 1 },
	} {
		store := fakeKeys{openCrypt(t, m, l.id), func(name string, k *remote.KeysetRef) {
			if name == RootName(s.Seq) {
				fake(k)
			}
		}}
		_, err := Open(store, l.id, l.o).Head(ctx, nil)
		wantDamage(t, err, RootName(s.Seq))
		if err != nil && !strings.Contains(err.Error(), "other keys") {
			t.Errorf("%s: %v", what, err)
		}
	}

	for name, change := range map[string]func(k *Keys){
		"older epoch":          func(k *Keys) { k.Epoch = Epoch{1, 0} },
		"older keyset":         func(k *Keys) { k.Keyset.Serial = 1 },
		"epoch of a past root": func(k *Keys) { k.Epoch = Epoch{3, 2} },
		"epoch begun again":    func(k *Keys) { k.Epoch.Since-- },
		"another keyset":       func(k *Keys) { k.Keyset.Sum[0]++ },
	} {
		later := s.Keys
		change(&later)
		if err := later.checkAfter(&s.Keys, s.Seq); err == nil {
			t.Errorf("%s is accepted after %+v", name, s.Keys)
		}
	}
	next := s.Keys
	next.Epoch, next.Keyset.Serial = Epoch{3, s.Seq + 1}, 9
	if err := errors.Join(s.Keys.checkAfter(&s.Keys, s.Seq), next.checkAfter(&s.Keys, s.Seq)); err != nil {
		t.Error(err)
	}
}

// A store that falls back to older keys in a root is found out.
func TestOlderKeysInALog(t *testing.T) {
	m := remotetest.NewMemory()
	l := newEncrypted(t, m)
	s := mustChangeKeys(t, l, grow(t, l, 2), testKey(1), testKey(2))
	at := s.Position()

	forged := *s // by a former recipient, who knows the first key
	forged.Keys.Epoch = Epoch{1, 0}
	next := mustAppend(t, l, &forged, move("main", 2, 3))
	_, err := client(t, m, l).Head(ctx, &at)
	wantDamage(t, err, RootName(next.Seq))
}

// A client that is no recipient of the head's keyset learns that at once, and that its change was not made.
func TestRemovedWriter(t *testing.T) {
	m := remotetest.NewMemory()
	l := newEncrypted(t, m)
	removed := client(t, m, l)
	base := grow(t, removed, 1)
	s := mustChangeKeys(t, l, mustHead(t, l, nil), testKey(1), testKey(2))
	for _, name := range s.Keys.Keyset.Copies() {
		m.Set(name, []byte("for others"))
	}

	_, err := removed.Append(ctx, base, move("main", 1, 2))
	if !errors.Is(err, ErrLost) || !errors.Is(err, remote.ErrNoKey) || errors.Is(err, ErrUnknown) || errors.Is(err, remote.ErrDamaged) {
		t.Errorf("append: %v", err)
	}
	at := base.Position()
	if _, err := removed.Head(ctx, &at); !errors.Is(err, remote.ErrNoKey) || errors.Is(err, remote.ErrDamaged) {
		t.Errorf("head: %v", err)
	}
}

// A store and an identity that do not belong together: nothing is read or written.
func TestUnfitStore(t *testing.T) {
	encrypted, inClear := remotetest.NewMemory(), remotetest.NewMemory()
	e, c := newEncrypted(t, encrypted), newLog(t, inClear)
	for _, test := range []struct {
		l    *Log
		want error
	}{
		{Open(encrypted, e.id, e.o), ErrEncrypted},
		{Open(openCrypt(t, inClear, e.id), c.id, c.o), ErrNotEncrypted},
	} {
		before := encrypted.Calls(remotetest.Any) + inClear.Calls(remotetest.Any)
		base := &State{Hash: test.l.id.Hash}
		_, headErr := test.l.Head(ctx, nil)
		_, atErr := test.l.At(ctx, 1)
		_, putErr := test.l.PutKeyset(ctx, 2, keysetOf(testKey(1)))
		_, putBackErr := test.l.PutBack(ctx, nil, false)
		_, storedErr := test.l.Stored(ctx, base)
		if putBackErr != nil {
			t.Error(putBackErr) // there is no copy, so nothing is read
		}
		for i, err := range []error{headErr, atErr, putErr, storedErr} {
			if !errors.Is(err, test.want) {
				t.Errorf("call %d: %v, want %v", i, err, test.want)
			}
		}
		if calls := encrypted.Calls(remotetest.Any) + inClear.Calls(remotetest.Any) - before; calls != 0 {
			t.Errorf("%v: %d requests", test.want, calls)
		}
	}
}

func TestInitEncrypted(t *testing.T) {
	m := remotetest.NewMemory()
	var ids []string
	make := func(id string) ([]byte, error) { ids = append(ids, id); return keysetOf(testKey(1)), nil }
	id, err := InitEncrypted(ctx, m, make, newRandom("a"))
	if err != nil {
		t.Fatal(err)
	}
	if !id.IsEncrypted() || len(ids) != 1 || id.Remote != ids[0] || id.Repository != noRepository || id.Chunker != (Chunker{}) || strings.Contains(string(m.Data(IdentityName)), "chunker") {
		t.Errorf("%+v: %s", id, m.Data(IdentityName))
	}
	for _, name := range id.Keysets {
		if string(m.Data("keys/"+name)) != string(keysetOf(testKey(1))) {
			t.Errorf("keys/%s is not the keyset", name)
		}
	}
	opened := id.WithKeyset(repositoryID, chunker)
	if opened.Repository != repositoryID || opened.Chunker != chunker || opened.Hash != id.Hash || id.Repository != noRepository {
		t.Errorf("opened: %+v", opened)
	}

	// The first kist.json counts, and nothing is made again.
	again, err := InitEncrypted(ctx, m, make, newRandom("b"))
	if err != nil || again.Hash != id.Hash || len(ids) != 1 || len(m.Names(keysFolder)) != 2 {
		t.Errorf("again: %+v, %v, %d keysets made, files %q", again, err, len(ids), m.Names(keysFolder))
	}
	if clearID, err := Init(ctx, m, repositoryID, chunker, newRandom("c")); err != nil || clearID.Hash != id.Hash {
		t.Errorf("Init of an encrypted remote: %+v, %v", clearID, err)
	}

	// Between the keysets and kist.json, another process wins.
	m = remotetest.NewMemory()
	var winner *Identity
	loser, err := InitEncrypted(ctx, m, func(string) ([]byte, error) {
		winner, err = InitEncrypted(ctx, m, make, newRandom("d"))
		return keysetOf(testKey(2)), err
	}, newRandom("e"))
	if err != nil || loser.Hash != winner.Hash || len(m.Names(keysFolder)) != 4 {
		t.Errorf("race: %+v, %v; files %q", loser, err, m.Names(keysFolder))
	}
	if _, err := InitEncrypted(ctx, remotetest.NewMemory(), func(string) ([]byte, error) { return nil, errors.New("no") }, newRandom("")); err == nil {
		t.Error("no error of the keyset")
	}
	failing := remotetest.NewFaulty(remotetest.NewMemory())
	failing.Fail(remotetest.Fault{Op: remotetest.Put, N: 2, Err: remote.ErrFull})
	if _, err := InitEncrypted(ctx, failing, make, newRandom("")); !errors.Is(err, remote.ErrFull) {
		t.Errorf("full store: %v", err)
	}
	if _, err := ReadIdentity(ctx, failing); !errors.Is(err, ErrEmpty) {
		t.Errorf("after the failure of the second copy: %v", err)
	}
}

// The fields of an encrypted kist.json have one form.
func TestParseEncryptedIdentity(t *testing.T) {
	m := remotetest.NewMemory()
	id, err := initEncrypted(ctx, m, "", Chunker{}, newRandom(""))
	if err != nil {
		t.Fatal(err)
	}
	valid := string(id.Stored())
	for _, change := range [][2]string{
		{noRepository, repositoryID},
		{`"format"`, `"chunker": {"polynomial": "0x3da3358b4dc173"}, "format"`},
		{fmt.Sprintf("%q", id.Keysets[0]), fmt.Sprintf("%q", id.Keysets[1])},
		{fmt.Sprintf("%q", id.Keysets[0]), `"../../x"`},
		{fmt.Sprintf("%q,", id.Keysets[0]), ""},
		{"\"gc\": [\n    \"encrypted\"\n  ]", `"gc": []`},
		{"\"read\": [\n    \"encrypted\"\n  ]", `"read": []`},
	} {
		text := strings.Replace(valid, change[0], change[1], 1)
		if text == valid {
			t.Fatalf("%s has no %q", valid, change[0])
		}
		_, err := ParseIdentity([]byte(text))
		wantDamage(t, err, IdentityName)
	}
	_, err = ParseIdentity([]byte(strings.Replace(identity, `"gc": []`, `"gc": [], "keysets": ["a"]`, 1)))
	wantDamage(t, err, IdentityName)
	if !slices.Equal(id.Read, []string{"encrypted"}) {
		t.Errorf("features %q", id.Read)
	}
}

// The copies of the first keyset must be readable and equal when the first root names them.
func TestDamagedFirstKeyset(t *testing.T) {
	for what, harm := range map[string]func(m *remotetest.Memory, name string){
		"missing":   func(m *remotetest.Memory, name string) { m.Remove(name) },
		"different": func(m *remotetest.Memory, name string) { m.Set(name, keysetOf(testKey(7))) },
		"too long": func(m *remotetest.Memory, name string) {
			m.Set(name, append([]byte{}, strings.Repeat("x", remote.MaxKeyset+1)...))
		},
	} {
		m := remotetest.NewMemory()
		l := newEncrypted(t, m)
		s := mustHead(t, l, nil)
		harm(m, s.Keys.Keyset.Copies()[1])
		if _, err := l.Append(ctx, s, move("main", 0, 1)); !errors.Is(err, remote.ErrDamaged) {
			t.Errorf("%s: %v", what, err)
		}
	}
}

// A damaged head of an encrypted remote is put back from a copy: the same root, in other stored bytes.
func TestPutBackEncrypted(t *testing.T) {
	m := remotetest.NewMemory()
	l := newEncrypted(t, m)
	l.o.Cache = t.TempDir()
	s := grow(t, l, 3)
	stored := m.Data(RootName(3))
	m.Damage(RootName(3), 2000)
	at := s.Position()
	if seq, err := l.PutBack(ctx, &at, false); err != nil || seq != 3 {
		t.Fatalf("put back root %d: %v", seq, err)
	}
	if again := m.Data(RootName(3)); string(again) == string(stored) || len(again) != len(stored) {
		t.Error("the root was not encrypted again")
	}
	if head := mustHead(t, client(t, m, l), &at); head.Hash != s.Hash {
		t.Errorf("head %v", head.Position())
	}
}
