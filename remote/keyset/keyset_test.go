package keyset

import (
	"errors"
	"fmt"
	"reflect"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

func TestCheckName(t *testing.T) {
	for name, ok := range map[string]bool{
		"anna": true, "old laptop": true, "Zoë’s": true, strings.Repeat("a", maxNameSize): true,
		"": false, " a": false, "a ": false, "a\nb": false, "a\x00": false, "a\u2028b": false, "\u202e": false, "a\xff": false,
		strings.Repeat("a", maxNameSize+1): false,
	} {
		if err := CheckName(name); (err == nil) != ok || err != nil && !errors.Is(err, ErrName) {
			t.Errorf("CheckName(%q): %v", name, err)
		}
	}
}

func TestChanges(t *testing.T) {
	anna, berta, clara := newHybrid(t), newHybrid(t), newHybrid(t)
	first := newKeyset(t, recipient("anna", anna.Recipient()))
	two, err := first.Add(recipient("berta", berta.Recipient()), recipient("clara", clara.Recipient()))
	if err != nil {
		t.Fatal(err)
	}
	if first.Serial != 1 || two.Serial != 2 || len(first.Recipients) != 1 || len(two.Recipients) != 3 || len(two.Epochs) != 1 {
		t.Errorf("Add made %+v", two)
	}

	three, err := two.Rotate(7)
	if err != nil {
		t.Fatal(err)
	}
	if three.Serial != 3 || len(three.Epochs) != 2 || three.Epochs[1].Root != 7 || len(two.Epochs) != 1 {
		t.Errorf("Rotate made %+v", three)
	}
	if !three.Epochs[0].Key.Equal(two.Epochs[0].Key) || three.Epochs[1].Key.Equal(two.Epochs[0].Key) {
		t.Error("Rotate changed the old key, or made no new one")
	}

	if _, err := three.Rotate(7); !errors.Is(err, ErrDamaged) {
		t.Errorf("a second epoch of one root: error %v", err)
	}
	four, err := three.Remove("berta", 9, testDate)
	if err != nil {
		t.Fatal(err)
	}
	want := []Removed{{Name: "berta", At: testDate, Epoch: 2}}
	if four.Serial != 4 || len(four.Epochs) != 3 || four.Epochs[2].Root != 9 || !reflect.DeepEqual(four.Removed, want) {
		t.Errorf("Remove made %+v", four)
	}
	if four.find("berta") >= 0 || four.find("clara") < 0 || three.find("berta") < 0 {
		t.Error("Remove removed the wrong recipient, or changed the old keyset")
	}
	if keys := four.Keys(); keys.Newest() != 3 || keys.Remote != testRemote || !keys.Of(3).Equal(four.Epochs[2].Key) {
		t.Error("Keys has other keys")
	}
}

func TestChangesAreRefused(t *testing.T) {
	anna, berta := newHybrid(t), newHybrid(t)
	k := newKeyset(t, recipient("anna", anna.Recipient()))
	add := func(r ...Recipient) error { _, err := k.Add(r...); return err }
	remove := func(name string, root uint64) error { _, err := k.Remove(name, root, testDate); return err }
	rotate := func(root uint64) error { _, err := k.Rotate(root); return err }
	create := func(r ...Recipient) error { _, err := New(testRemote, testRepository, testChunker, r...); return err }
	tooMany := make([]Recipient, MaxRecipients+1)
	for i := range tooMany {
		tooMany[i] = recipient(fmt.Sprint(i), newX25519(t).Recipient().String())
	}
	var passphrases []Recipient
	for i := range MaxLocked + 1 {
		passphrases = append(passphrases, locked(t, fmt.Sprint(i), "secret"))
	}

	for what, c := range map[string]struct{ got, want error }{
		"the same name":       {add(recipient("anna", berta.Recipient())), ErrNameTaken},
		"the same key":        {add(recipient("berta", anna.Recipient())), ErrRecipientTaken},
		"no key":              {add(recipient("berta", "age1")), ErrRecipient},
		"an identity":         {add(recipient("berta", berta.Secret())), ErrSecret},
		"a bad name":          {add(recipient("", berta.Recipient())), ErrName},
		"too many":            {add(tooMany[1:]...), ErrTooLarge},
		"too many from New":   {create(tooMany...), ErrTooLarge},
		"no recipients":       {create(), ErrLastRecipient},
		"too many locks":      {add(passphrases...), ErrTooLarge},
		"an unknown name":     {remove("berta", 5), ErrNoRecipient},
		"the last one":        {remove("anna", 5), ErrLastRecipient},
		"the root of epoch 1": {rotate(0), ErrDamaged},
		"a root beyond JSON":  {rotate(1 << 53), ErrDamaged},
		"a lock of nothing":   {add(Recipient{Name: "b", Key: berta.Recipient(), Locked: []byte("x")}), ErrDamaged},
	} {
		if !errors.Is(c.got, c.want) {
			t.Errorf("%s: error %v, want %v", what, c.got, c.want)
		}
		if c.got != nil && strings.Contains(c.got.Error(), berta.Secret()[20:]) {
			t.Errorf("%s: the error shows the identity", what)
		}
	}
	if k.Serial != 1 || len(k.Recipients) != 1 || len(k.Epochs) != 1 {
		t.Error("a refused change changed the keyset")
	}
}

func TestOldestRemovedAreForgotten(t *testing.T) {
	k := newKeyset(t, recipient("anna", newHybrid(t).Recipient()), recipient("berta", newHybrid(t).Recipient()))
	k, err := k.Rotate(2)
	if err != nil {
		t.Fatal(err)
	}
	for i := range maxRemoved {
		k.Removed = append(k.Removed, Removed{fmt.Sprint(i), testDate, 1})
	}
	k, err = k.Remove("berta", 3, testDate)
	if err != nil {
		t.Fatal(err)
	}
	if len(k.Removed) != maxRemoved || k.Removed[0].Name != "1" || k.Removed[maxRemoved-1].Name != "berta" {
		t.Errorf("%d removed, from %q to %q", len(k.Removed), k.Removed[0].Name, k.Removed[len(k.Removed)-1].Name)
	}
}

func TestUses(t *testing.T) {
	k := newKeyset(t, recipient("anna", newHybrid(t).Recipient()), recipient("old", newHybrid(t).Recipient()))
	k, err := k.Rotate(5)
	if err != nil {
		t.Fatal(err)
	}
	if k, err = k.Remove("old", 8, testDate); err != nil {
		t.Fatal(err)
	}

	files := func(yield func(uint32, int64) bool) {
		_ = yield(1, 10) && yield(3, 5) && yield(1, 7)
	}
	got, err := k.Uses(files)
	want := []Use{{1, 0, 2, 17, []string{"old"}}, {2, 5, 0, 0, []string{"old"}}, {3, 8, 1, 5, nil}}
	if err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("Uses: %+v, %v, want %+v", got, err, want)
	}

	for _, epoch := range []uint32{0, 4} {
		if _, err := k.Uses(func(yield func(uint32, int64) bool) { yield(epoch, 1) }); !errors.Is(err, ErrDamaged) {
			t.Errorf("a file of epoch %d: error %v", epoch, err)
		}
	}
}

// No way of printing shows a key or an identity.
func TestSecretsAreNotPrinted(t *testing.T) {
	i := newHybrid(t)
	k := newKeyset(t, recipient("anna", i.Recipient()))
	bad := []string{i.Secret()[len(hybridPrefix):], fmt.Sprintf("%x", k.Epochs[0].Key.Secret()), fmt.Sprint(k.Epochs[0].Key.Secret())[1:20]}
	search := NewIdentities(opens(t, i))
	if _, err := search.Open(t.Context(), seal(t, k)); err != nil {
		t.Fatal(err)
	}

	for _, v := range []any{i, &i, []Identity{i}, struct{ hidden Identity }{i}, k, *k, search, search.opened, search.opened[0], Opened{Keyset: k}} {
		for _, verb := range []string{"%v", "%+v", "%#v", "%s", "%q", "%x", "%d"} {
			text := fmt.Sprintf(verb, v)
			for _, b := range bad {
				if strings.Contains(strings.ToUpper(text), strings.ToUpper(b)) {
					t.Errorf("%s of a %T shows a secret: %.200s", verb, v, text)
				}
			}
		}
	}
	if text, err := i.MarshalText(); err != nil || string(text) != hidden {
		t.Errorf("MarshalText: %s, %v", text, err)
	}
}

// The memory of a process with keys is never written to disk.
func TestNoCoreDumps(t *testing.T) {
	newHybrid(t)
	var limit unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_CORE, &limit); err != nil || limit.Cur != 0 {
		t.Errorf("the limit is %d, %v", limit.Cur, err)
	}
}
