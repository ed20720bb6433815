package rootlog

import (
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/kist-vcs/kist/object"
	"github.com/kist-vcs/kist/remote"
	"github.com/kist-vcs/kist/remote/remotetest"
)

const identity = `{
  "format": "kist remote",
  "version": 1,
  "repository": "000102030405060708090a0b0c0d0e0f",
  "remote": "101112131415161718191a1b1c1d1e1f",
  "read": [],
  "write": [],
  "gc": [],
  "chunker": {
    "polynomial": "0x3da3358b4dc173",
    "min": 65536,
    "average": 262144,
    "max": 2097152
  }
}
`

func TestInit(t *testing.T) {
	m := remotetest.NewMemory()
	if _, err := ReadIdentity(ctx, m); !errors.Is(err, ErrEmpty) {
		t.Error(err)
	}
	rand := strings.NewReader("\x10\x11\x12\x13\x14\x15\x16\x17\x18\x19\x1a\x1b\x1c\x1d\x1e\x1f")
	id, err := Init(ctx, m, repositoryID, chunker, rand)
	if err != nil {
		t.Fatal(err)
	}
	if got := string(m.Data("kist.json")); got != identity || got != string(id.Stored()) {
		t.Errorf("kist.json is %s", got)
	}
	if id.Hash != Hash(object.Sum([]byte(identity))) || id.Chunker != chunker || id.Repository != repositoryID {
		t.Errorf("%+v", id)
	}
	again, err := Init(ctx, m, strings.Repeat("ab", 16), Chunker{Polynomial: "0x1"}, newRandom("other"))
	if err != nil || again.Repository != repositoryID || again.Hash != id.Hash {
		t.Errorf("%+v, %v", again, err)
	}
	if _, err := Init(ctx, remotetest.NewMemory(), "not an id", chunker, newRandom("")); err == nil {
		t.Error("Init accepts a malformed repository ID")
	}

	// Init does not replace the missing kist.json of a remote with roots.
	mustAppend(t, Open(m, id, Options{Rand: newRandom("")}), &State{Hash: id.Hash}, move("main", 0, 1))
	m.Remove(IdentityName)
	_, err = Init(ctx, m, repositoryID, chunker, newRandom(""))
	wantDamage(t, err, IdentityName)
}

// A process reads kist.json just before another one creates it and makes the first push. It
// reads kist.json again, and does not take it for lost.
func TestIdentityLate(t *testing.T) {
	for what, content := range map[string]string{"a root": RootName(1), "a pack": name(1).Path()} {
		m := remotetest.NewMemory()
		m.Set(content, nil)
		f := remotetest.NewFaulty(m)
		f.Fail(remotetest.Fault{Op: remotetest.Stat, Name: RootName(1), Do: func() { m.Set(IdentityName, []byte(identity)) }})
		id, err := Init(ctx, f, repositoryID, chunker, newRandom("second"))
		if err != nil || string(id.Stored()) != identity {
			t.Errorf("with %s: %v", what, err)
		}

		m.Remove(IdentityName)
		_, err = Init(ctx, m, repositoryID, chunker, newRandom("third"))
		wantDamage(t, err, IdentityName)
	}
}

// All processes that concurrently make a store a remote get the same identity.
func TestInitRace(t *testing.T) {
	m := remotetest.NewMemory()
	f := remotetest.NewFaulty(m)
	f.Fail(remotetest.Fault{Op: remotetest.Create, Do: func() { newLog(t, m) }})
	id, err := Init(ctx, f, repositoryID, chunker, newRandom("second"))
	if err != nil || id.Hash != mustIdentity(t, m).Hash {
		t.Error(err)
	}
	for _, how := range []remotetest.How{remotetest.Before, remotetest.After} {
		m := remotetest.NewMemory()
		f := remotetest.NewFaulty(m)
		f.Fail(remotetest.Fault{Op: remotetest.Create, How: how})
		id, err := Init(ctx, f, repositoryID, chunker, newRandom("third"))
		if err != nil || string(m.Data(IdentityName)) != string(id.Stored()) {
			t.Error(err)
		}
	}
	for _, kind := range []error{remote.ErrCredentials, remote.ErrTemporary} {
		f := remotetest.NewFaulty(remotetest.NewMemory())
		f.Fail(remotetest.Fault{Op: remotetest.Any, Err: kind, Stays: true})
		if _, err := Init(ctx, f, repositoryID, chunker, newRandom("")); !errors.Is(err, kind) || errors.Is(err, ErrEmpty) {
			t.Error(err)
		}
	}
}

func TestParseIdentity(t *testing.T) {
	replace := func(old, new string) string { return strings.Replace(identity, old, new, 1) }
	for _, test := range []struct {
		name, data string
		want       error // nil if valid
	}{
		{"as it is", identity, nil},
		{"unknown fields", replace(`"version"`, `"seal": {"scheme": 9}, "version"`), nil},
		{"write features", replace(`"write": []`, `"write": ["a", "b"]`), nil},
		{"read features", replace(`"read": []`, `"read": ["sealed"]`), ErrFormat},
		{"newer version", replace(`1,`, `2,`), ErrFormat},
		{"newer version, with other fields", `{"format": "kist remote", "version": 2, "repository": "?"}`, ErrFormat},
		{"version 0", replace(`1,`, `0,`), object.ErrCorrupt},
		{"other format", replace(`kist remote`, `kist`), object.ErrCorrupt},
		{"no repository", replace(`"repository"`, `"x"`), object.ErrCorrupt},
		{"remote in capitals", replace(`1a1b`, `1A1B`), object.ErrCorrupt},
		{"features out of order", replace(`"gc": []`, `"gc": ["b", "a"]`), object.ErrCorrupt},
		{"feature with an escape", replace(`"gc": []`, `"gc": ["\u001b[31m"]`), object.ErrCorrupt},
		{"cut", identity[:100], object.ErrCorrupt},
		{"empty", "", object.ErrCorrupt},
		{"too long", identity + strings.Repeat(" ", maxIdentity), object.ErrCorrupt},
	} {
		t.Run(test.name, func(t *testing.T) {
			id, err := ParseIdentity([]byte(test.data))
			if !errors.Is(err, test.want) || (err == nil) != (test.want == nil) {
				t.Fatal(err)
			}
			if err == nil && string(id.Stored()) != test.data {
				t.Errorf("Stored() = %s, want %s", id.Stored(), test.data)
			}

			m := remotetest.NewMemory()
			m.Set(IdentityName, []byte(test.data))
			read, again := ReadIdentity(ctx, m)
			if diff := cmp.Diff(id, read, cmp.AllowUnexported(Identity{})); diff != "" || (err == nil) != (again == nil) || err != nil && err.Error() != again.Error() {
				t.Errorf("%v, %s", again, diff)
			}
		})
	}
}

// An unknown feature of an act prevents that act and all acts that include it.
func TestFeatures(t *testing.T) {
	for _, test := range []struct {
		field                 string
		head, append, collect error
	}{
		{"read", ErrFormat, ErrFormat, ErrFormat},
		{"write", nil, ErrFormat, ErrFormat},
		{"gc", nil, nil, ErrFormat},
		{"other", nil, nil, nil},
	} {
		try := func(l *Log, s *State, err error) {
			t.Helper()
			if !errors.Is(err, test.head) || (err == nil) != (test.head == nil) {
				t.Errorf("%s: read: %v", test.field, err)
			}
			if err != nil {
				return
			}
			c := Change{Time: noon}
			if _, err := l.Append(ctx, s, c); !errors.Is(err, test.append) {
				t.Errorf("%s: append: %v", test.field, err)
			}
			head := mustHead(t, l, nil)
			c.Condemn = []string{name(1).Path()}
			if _, err := l.Append(ctx, head, c); !errors.Is(err, test.collect) {
				t.Errorf("%s: collect: %v", test.field, err)
			}
		}
		m := remotetest.NewMemory() // in kist.json
		m.Set(IdentityName, []byte(strings.Replace(identity, `"`+test.field+`": []`, `"`+test.field+`": ["x"]`, 1)))
		id, err := ReadIdentity(ctx, m)
		if id == nil {
			id = new(Identity)
		}
		l := Open(m, id, Options{Rand: newRandom(""), Sleep: noWait})
		try(l, &State{Hash: id.Hash}, err)

		m = remotetest.NewMemory() // in a root
		l = newLog(t, m)
		root := least(1, l.id.Hash)
		root[test.field] = list{"x"}
		m.Set(RootName(1), seal(root))
		s, err := l.Head(ctx, nil)
		try(l, s, err)
	}
}

func FuzzParseIdentity(f *testing.F) {
	f.Add([]byte(identity))
	f.Add([]byte(strings.Replace(identity, `"read": []`, `"read": ["x"]`, 1)))
	f.Fuzz(func(t *testing.T, data []byte) {
		id, err := ParseIdentity(data)
		if err != nil {
			if damage := new(object.DamageError); !errors.As(err, &damage) && !errors.Is(err, ErrFormat) {
				t.Fatal(err)
			}
			return
		}
		if id.Format != identityFormat || id.Version != 1 || len(id.Repository) != 32 || len(id.Remote) != 32 || (len(id.Read) > 0) != id.IsEncrypted() {
			t.Fatalf("%+v", id)
		}
	})
}
