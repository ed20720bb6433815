package keyset

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/kist-vcs/kist/remote"
)

// withSum returns data with the checksum line that a keyset needs.
func withSum(data []byte) []byte {
	sum := sha256.Sum256(data)
	return append(bytes.Clone(data), sumLine+hex.EncodeToString(sum[:])+"\n"...)
}

// cutSum returns the data of a keyset file before its last line.
func cutSum(f *File) []byte { return f.data[:bytes.LastIndex(f.data, []byte(sumLine))] }

// fullKeyset has a recipient of each kind.
func fullKeyset(t testing.TB) *Keyset {
	return newKeyset(t, recipient("anna", newHybrid(t).Recipient()), recipient("berta", newX25519(t).Recipient().String()), locked(t, "passphrase", "secret"))
}

func TestParse(t *testing.T) {
	k := fullKeyset(t)
	f := seal(t, k)
	if f.Remote != testRemote || f.Serial != 1 || len(f.envelopes) != 2 || len(f.locked) != 1 {
		t.Errorf("parsed %+v", f)
	}
	if f.envelopes[0].kind != Hybrid || len(f.envelopes[0].stanzas) != 2 || f.envelopes[1].kind != Classic || len(f.envelopes[1].stanzas) != 1 {
		t.Errorf("parsed %+v", f.envelopes)
	}
	if f.Sum() != sha256.Sum256(f.Bytes()) {
		t.Error("another sum")
	}
}

func TestParseRefusesChangedText(t *testing.T) {
	f := seal(t, fullKeyset(t))
	text := string(cutSum(f)[remote.HeaderSize:])
	hybrid, classic, _ := strings.Cut(text, "envelope classic\n")
	classic, lock, _ := strings.Cut(classic, lockedLine+"\n")
	first := hybrid[:strings.Index(hybrid, "envelope")]
	hybrid = strings.TrimPrefix(hybrid, first)
	classic, lock = "envelope classic\n"+classic, lockedLine+"\n"+lock
	scrypt := func(stanza string) string {
		return lockedLine + "\n" + string(toArmor([]byte("age-encryption.org/v1\n"+stanza+"--- "+strings.Repeat("A", 43)+"\n")))
	}
	body := strings.Repeat("A", 43) + "\n"

	for what, c := range map[string]struct {
		text string
		want error
	}{
		"unchanged":                      {first + hybrid + classic + lock, nil},
		"only hybrid":                    {first + hybrid, nil},
		"only classic":                   {first + classic, nil},
		"eight locks":                    {first + hybrid + strings.Repeat(lock, MaxLocked), nil},
		"nine locks":                     {first + hybrid + strings.Repeat(lock, MaxLocked+1), ErrDamaged},
		"no envelope":                    {first, ErrDamaged},
		"only a lock":                    {first + lock, ErrDamaged},
		"hybrid twice":                   {first + hybrid + hybrid, ErrDamaged},
		"classic twice":                  {first + classic + classic, ErrDamaged},
		"classic first":                  {first + classic + hybrid, ErrDamaged},
		"three":                          {first + hybrid + classic + classic, ErrDamaged},
		"a lock in between":              {first + hybrid + lock + classic, ErrDamaged},
		"an unknown kind":                {first + strings.Replace(hybrid, "hybrid", "quantum", 1), ErrDamaged},
		"an unknown line":                {first + hybrid + "more\n", ErrDamaged},
		"an empty line":                  {first + "\n" + hybrid, ErrDamaged},
		"a space at the end":             {strings.Replace(first, "\n", " \n", 1) + hybrid, ErrDamaged},
		"a carriage return":              {first + strings.ReplaceAll(hybrid, "\n", "\r\n"), ErrDamaged},
		"space in the armor":             {first + strings.Replace(hybrid, "-----BEGIN", "\n-----BEGIN", 1), ErrDamaged},
		"text between":                   {first + hybrid + "x\n" + classic, ErrDamaged},
		"no remote":                      {strings.Replace(first, "remote", "Remote", 1) + hybrid, ErrDamaged},
		"a remote in upper case":         {strings.Replace(first, "1f\n", "1F\n", 1) + hybrid, ErrDamaged},
		"a short remote":                 {strings.Replace(first, "1e1f\n", "1e\n", 1) + hybrid, ErrDamaged},
		"serial 0":                       {strings.Replace(first, "serial 1", "serial 0", 1) + hybrid, ErrDamaged},
		"serial 01":                      {strings.Replace(first, "serial 1", "serial 01", 1) + hybrid, ErrDamaged},
		"serial +1":                      {strings.Replace(first, "serial 1", "serial +1", 1) + hybrid, ErrDamaged},
		"serial 2^64":                    {strings.Replace(first, "serial 1", "serial 18446744073709551616", 1) + hybrid, ErrDamaged},
		"version 0":                      {strings.Replace(first, "keyset 1", "keyset 0", 1) + hybrid, ErrDamaged},
		"version 2":                      {strings.Replace(first, "keyset 1", "keyset 2", 1) + "news\n", remote.ErrNewerFormat},
		"a lock that is no passphrase":   {first + hybrid + lockedLine + "\n" + strings.Join(strings.SplitAfter(hybrid, "\n")[1:], ""), ErrDamaged},
		"a lock of 1 GiB":                {first + hybrid + scrypt("-> scrypt AAAAAAAAAAAAAAAAAAAAAA 20\n"+body), nil},
		"a lock of 2 GiB":                {first + hybrid + scrypt("-> scrypt AAAAAAAAAAAAAAAAAAAAAA 21\n"+body), ErrDamaged},
		"a lock of no cost":              {first + hybrid + scrypt("-> scrypt AAAAAAAAAAAAAAAAAAAAAA 0\n"+body), ErrDamaged},
		"a lock of two passphrases":      {first + hybrid + scrypt(strings.Repeat("-> scrypt AAAAAAAAAAAAAAAAAAAAAA 4\n"+body, 2)), ErrDamaged},
		"a lock that is not an age file": {first + hybrid + lockedLine + "\n" + string(toArmor([]byte("x"))), ErrDamaged},
	} {
		header := remote.AppendHeader(nil, remote.TypeKeyset, remote.Version1)
		_, err := Parse(withSum(append(header, c.text...)))
		if (err == nil) != (c.want == nil) || !errors.Is(err, c.want) {
			t.Errorf("%s: error %v, want %v", what, err, c.want)
		}
	}
}

func TestParseRefusesChangedHeaders(t *testing.T) {
	f := seal(t, newKeyset(t, recipient("berta", newX25519(t).Recipient().String())))
	for at, want := range map[int]error{0: ErrDamaged, 8: ErrDamaged, 9: remote.ErrNewerFormat, 10: remote.ErrNewerFormat, 11: ErrDamaged, 31: ErrDamaged} {
		data := bytes.Clone(cutSum(f))
		data[at]++
		if _, err := Parse(withSum(data)); !errors.Is(err, want) {
			t.Errorf("byte %d: error %v, want %v", at, err, want)
		}
	}
}

// Each flipped byte is noticed without any key, and so is each truncation.
func TestParseNoticesDamage(t *testing.T) {
	f := seal(t, newKeyset(t, recipient("berta", newX25519(t).Recipient().String()), locked(t, "passphrase", "secret")))
	for i := range f.data {
		data := bytes.Clone(f.data)
		data[i] ^= 1
		if _, err := Parse(data); !errors.Is(err, ErrDamaged) && !errors.Is(err, remote.ErrNewerFormat) {
			t.Errorf("byte %d flipped: error %v", i, err)
		}
		if _, err := Parse(f.data[:i]); !errors.Is(err, ErrDamaged) {
			t.Errorf("cut after %d bytes: error %v", i, err)
		}
	}
	if _, err := Parse(append(bytes.Clone(f.data), '\n')); !errors.Is(err, ErrDamaged) {
		t.Errorf("a byte more: error %v", err)
	}
	if _, err := Parse(make([]byte, remote.MaxKeyset+1)); !errors.Is(err, ErrDamaged) {
		t.Errorf("too long: error %v", err)
	}
}

// A keyset file is parsed, or damaged. If it was parsed, it is the only form of its parts.
func FuzzParse(f *testing.F) {
	valid := seal(f, fullKeyset(f))
	f.Add(cutSum(valid))
	f.Add(cutSum(seal(f, newKeyset(f, recipient("berta", newX25519(f).Recipient().String())))))
	f.Add(valid.data[:100])
	f.Fuzz(func(t *testing.T, data []byte) {
		file, err := Parse(withSum(data))
		if err != nil {
			if !errors.Is(err, ErrDamaged) && !errors.Is(err, remote.ErrNewerFormat) {
				t.Fatalf("error %v", err)
			}
			return
		}
		again, err := build(file.Remote, file.Serial, file.envelopes, file.locked)
		if err != nil || !bytes.Equal(again.data, file.data) {
			t.Fatalf("assembled again, the file is another one: %v", err)
		}
	})
}

// The content of an envelope is decoded, or damaged. If it was decoded, it is the only form of its keyset.
func FuzzDecode(f *testing.F) {
	k := newKeyset(f, recipient("berta", newX25519(f).Recipient().String()))
	k.Epochs = append(k.Epochs, Epoch{k.Epochs[0].Key, 3})
	k.Removed = []Removed{{"old", testDate, 1}}
	line, err := k.encode()
	if err != nil {
		f.Fatal(err)
	}
	f.Add(line)
	f.Fuzz(func(t *testing.T, line []byte) {
		k, err := decode(line, nil)
		if err != nil {
			if !errors.Is(err, ErrDamaged) {
				t.Fatalf("error %v", err)
			}
			return
		}
		if again, err := k.encode(); err != nil || !bytes.Equal(again, line) {
			t.Fatalf("encoded again, the keyset is %s, %v", again, err)
		}
	})
}

func TestDecodeRefuses(t *testing.T) {
	k := newKeyset(t, recipient("berta", newX25519(t).Recipient().String()), locked(t, "passphrase", "secret"))
	k, err := k.Rotate(4)
	if err != nil {
		t.Fatal(err)
	}
	line, err := k.encode()
	if err != nil {
		t.Fatal(err)
	}
	lock := k.locked()[0]
	other := locked(t, "passphrase", "secret").Locked
	if _, err := decode(line, [][]byte{lock}); err != nil {
		t.Fatal(err)
	}

	change := func(old, new string) string {
		changed := strings.Replace(string(line), old, new, 1)
		if changed == string(line) {
			t.Errorf("the content has no %s", old)
		}
		return changed
	}
	for what, text := range map[string]string{
		"nothing":              "",
		"null":                 "null\n",
		"an array":             "[]\n",
		"no end of line":       strings.TrimSuffix(string(line), "\n"),
		"two lines":            string(line) + string(line),
		"an unknown field":     change(`"serial":2`, `"serial":2,"more":1`),
		"a field twice":        change(`"serial":2`, `"serial":2,"serial":2`),
		"another case":         change(`"serial"`, `"Serial"`),
		"a space":              change(`"serial":2`, `"serial": 2`),
		"another number":       change(`"serial":2`, `"serial":2.0`),
		"serial 0":             change(`"serial":2`, `"serial":0`),
		"a serial beyond JSON": change(`"serial":2`, `"serial":9007199254740992`),
		"a missing field":      change(`"serial":2,`, ``),
		"a short id":           change(`1e1f"`, `1e"`),
		"a null list":          change(`"removed":[]`, `"removed":null`),
		"epoch 0":              change(`{"number":1`, `{"number":0`),
		"epoch 1 twice":        change(`{"number":2`, `{"number":1`),
		"roots that fall":      change(`"root":4`, `"root":0`),
		"a late epoch 1":       change(`"root":0`, `"root":1`),
		"no date":              change(`"date":"2026-11-27"`, `"date":"2026-11-31"`),
		"a time":               change(`"date":"2026-11-27"`, `"date":"2026-11-27T00:00:00Z"`),
		"a bad polynomial":     change(`"polynomial":"0x3da3358b4dc173"`, `"polynomial":"0x3da3358b4dc174"`),
		"another polynomial":   change(`"polynomial":"0x3`, `"polynomial":"0X3`),
		"a bad name":           change(`"name":"berta"`, `"name":" berta"`),
		"a name twice":         change(`"name":"berta"`, `"name":"passphrase"`),
		"a bad recipient":      change(`"recipient":"age1`, `"recipient":"age2`),
		"a foreign lock":       change(sumOfLocked(lock), sumOfLocked(other)),
		"a removed in future":  change(`"removed":[]`, `"removed":[{"name":"old","date":"2026-11-27","epoch":2}]`),
		"a removed in epoch 0": change(`"removed":[]`, `"removed":[{"name":"old","date":"2026-11-27","epoch":0}]`),
		"a short key":          change(fmt.Sprintf(`"key":"%.8s`, string(line[bytes.Index(line, []byte(`"key":"`))+7:])), `"key":"`),
	} {
		if _, err := decode([]byte(text), [][]byte{lock}); !errors.Is(err, ErrDamaged) {
			t.Errorf("%s: error %v", what, err)
		}
	}
	for what, locks := range map[string][][]byte{"no lock": nil, "a lock more": {lock, other}, "a lock twice": {lock, lock}} {
		if _, err := decode(line, locks); !errors.Is(err, ErrDamaged) {
			t.Errorf("%s: error %v", what, err)
		}
	}
}
