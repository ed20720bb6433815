package crypt

import (
	"bytes"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"strings"
	"testing"
)

func testKey(t testing.TB, first byte) Key {
	t.Helper()
	secret := make([]byte, KeySize)
	for i := range secret {
		secret[i] = first + byte(i)
	}
	k, err := ParseKey(secret)
	if err != nil {
		t.Fatal(err)
	}
	return k
}

// No way of printing shows a byte of a key, wherever the key lies.
func TestKeyIsNotPrinted(t *testing.T) {
	k := testKey(t, 200)
	type inside struct {
		Shown  Key
		hidden Key
	}
	nested := inside{k, k}
	var all []string
	for _, v := range []any{k, &k, nested, &nested, []Key{k}, map[string]Key{"a": k}, &Keys{Epochs: []Key{k}}, Keys{Epochs: []Key{k}}, struct{ any }{k}, [1]inside{nested}} {
		for _, verb := range []string{"%v", "%+v", "%#v", "%s", "%q", "%x", "%X", "%d", "%c", "%U", "%b", "%o", "%t", "%T", "%p"} {
			all = append(all, fmt.Sprintf(verb, v))
		}
		text, err := json.Marshal(v)
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, string(text))
	}

	for _, text := range all {
		for _, bad := range []string{"200 201", "200,201", "200, 201", "c8c9", "C8C9", "c8, 0xc9", "\xc8\xc9", "\\xc8", "310 311", "U+00C8"} {
			if strings.Contains(text, bad) {
				t.Errorf("printed %q, which has %q", text, bad)
			}
		}
	}
	if got := fmt.Sprintf("%v %d %x %#v", k, k, k, k); got != "[secret] [secret] [secret] [secret]" {
		t.Errorf("printed %q", got)
	}
}

func TestParseKey(t *testing.T) {
	for _, n := range []int{0, 1, 31, 33, 64} {
		if k, err := ParseKey(make([]byte, n)); err == nil || !k.IsZero() {
			t.Errorf("a key of %d bytes was accepted", n)
		}
	}

	secret := bytes.Repeat([]byte{7}, KeySize)
	k, err := ParseKey(secret)
	if err != nil {
		t.Fatal(err)
	}
	secret[0] = 8
	k.Secret()[1] = 8
	if !bytes.Equal(k.Secret(), bytes.Repeat([]byte{7}, KeySize)) {
		t.Error("the key shares memory with the bytes of others")
	}
}

func TestKeyEqual(t *testing.T) {
	a, b := testKey(t, 1), testKey(t, 2)
	for _, c := range []struct {
		a, b Key
		want bool
	}{{a, a, true}, {a, testKey(t, 1), true}, {a, b, false}, {a, Key{}, false}, {Key{}, a, false}, {Key{}, Key{}, true}, {NewKey(), NewKey(), false}} {
		if got := c.a.Equal(c.b); got != c.want {
			t.Errorf("Equal reports %t, want %t", got, c.want)
		}
	}
}

func TestFingerprint(t *testing.T) {
	var id [16]byte
	for i := range id {
		id[i] = 0x10 + byte(i)
	}
	got := testKey(t, 0).Fingerprint(id).String()
	if want := "bf85932706671351add11a7c6a8d02ab"; got != want {
		t.Errorf("fingerprint %s, want %s", got, want)
	}

	other := id
	other[15]++
	if testKey(t, 0).Fingerprint(other).String() == got || testKey(t, 1).Fingerprint(id).String() == got {
		t.Error("another key or remote has the same fingerprint")
	}
	if _, err := hex.DecodeString(got); err != nil {
		t.Error(err)
	}
}

func TestKeysOf(t *testing.T) {
	k := &Keys{Epochs: []Key{testKey(t, 1), testKey(t, 2)}}
	for epoch, want := range map[uint32]Key{0: {}, 1: testKey(t, 1), 2: testKey(t, 2), 3: {}, 1<<32 - 1: {}} {
		if !k.Of(epoch).Equal(want) {
			t.Errorf("epoch %d has another key", epoch)
		}
	}
	if k.Newest() != 2 || (&Keys{}).Newest() != 0 {
		t.Error("wrong newest epoch")
	}
}
