package rootlog

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"flag"
	"maps"
	"math"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/fxamacker/cbor/v2"
	"github.com/google/go-cmp/cmp"

	"github.com/kist-vcs/kist/object"
	"github.com/kist-vcs/kist/object/objecttest"
	"github.com/kist-vcs/kist/refs/record"
	"github.com/kist-vcs/kist/remote"
	"github.com/kist-vcs/kist/remote/pack"
	"github.com/kist-vcs/kist/remote/remotetest"
)

var update = flag.Bool("update", false, "write the test vectors instead of comparing them")

const vectorFile = "../../testdata/vectors/root.json"

type (
	fields = map[string]any
	list   = []any
)

// seal returns the stored bytes of a root with these fields.
func seal(f fields) []byte {
	body, err := encoding.Marshal(f)
	if err != nil {
		panic(err)
	}
	return rawBody(body)
}

// rawBody returns the stored bytes of a root with this CBOR.
func rawBody(body []byte) []byte {
	data := append(remote.AppendHeader(nil, remote.TypeRoot, remote.Version1), body...)
	sum := sha256.Sum256(data)
	return append(data, sum[:]...)
}

// least has the required fields only.
func least(seq uint64, prev Hash) fields {
	return fields{"seq": seq, "prev": prev[:], "txid": bytes.Repeat([]byte{7}, 16), "time": list{noon.Unix(), 5}}
}

func keyBytes(k object.Key) []byte { return []byte(encodeKey(k)) }

// full has every field.
func full() fields {
	p := inline(1, 2)
	n, sum := name(2), sha256.Sum256([]byte("state"))
	return fields{
		"seq": 9, "prev": bytes.Repeat([]byte{1}, 32), "txid": bytes.Repeat([]byte{2}, 16), "time": list{-5, 999_999_999},
		"who": "Ann Öther <ann@example.org>", "host": "attic", "write": list{"a", "b"}, "gc": list{"c"},
		"head": "refs/heads/main", "floor": 8,
		"refs": fields{
			"base": list{n[:], 1000, sum[:]},
			"set":  fields{"refs/heads/main": keyBytes(commit(1)), "refs/tags/v1": keyBytes(object.Key{Kind: object.KindTag, ID: commit(2).ID})},
			"del":  list{"refs/heads/a", "refs/heads/b"},
		},
		"indexes":   fields{"set": fields{name(3).String(): []byte(encodeIndex(indexFile(3)))}},
		"condemned": fields{"set": fields{name(4).Path(): []byte(encodeSeq(3)), "state/" + name(5).String(): []byte(encodeSeq(9))}},
		"packs":     list{list{p.Name[:], p.Size, pack.AppendEntries(nil, p.Entries)}},
		"moves":     list{list{"refs/heads/b", keyBytes(commit(3)), []byte{}}, list{"refs/heads/main", []byte{}, keyBytes(commit(1))}},
		"moved":     7,
		"x":         fields{"later": list{true, nil, 1.5, []byte{1}}, "2": -3},
	}
}

// encrypted has the fields of a root of an encrypted remote.
func encrypted() fields {
	f := full()
	a, b, sum := name(5), name(6), sha256.Sum256([]byte("keyset"))
	f["epoch"] = list{2, 5}
	f["keyset"] = list{3, a[:], b[:], 1234, sum[:]}
	f["back"] = list{bytes.Repeat([]byte{4}, 32), bytes.Repeat([]byte{4}, 32), bytes.Repeat([]byte{4}, 32)}
	f["signed"], f["signature"] = true, []byte("SSHSIG")
	f["write"] = list{"signed"}
	f["condemned"] = fields{"set": fields{KeysetName(name(7)): []byte(encodeSeq(3))}}
	return f
}

func stub() fields {
	f := least(9, Hash{1})
	f["who"], f["host"], f["stub"] = "Ann", "attic", bytes.Repeat([]byte{3}, 32)
	f["moves"] = full()["moves"]
	return f
}

// with seals f with a field changed, or removed if value is nil.
func with(f fields, key string, value any) []byte {
	f = maps.Clone(f)
	if f[key] = value; value == nil {
		delete(f, key)
	}
	return seal(f)
}

type vector struct {
	Name  string          `json:"name"`
	Hex   string          `json:"hex"`
	Error string          `json:"error,omitempty"` // part of the decoder's error; empty if valid
	Root  json.RawMessage `json:"root,omitempty"`
}

func vectors() []vector {
	changed := func(change func([]byte) []byte) []byte { return change(seal(full())) }
	flip := func(off int) []byte {
		return changed(func(data []byte) []byte { data[off] ^= 1; return data })
	}

	header := func(off int, b byte) []byte {
		data := changed(func(data []byte) []byte { data[off] = b; return data })
		sum := sha256.Sum256(data[:len(data)-32])
		return append(data[:len(data)-32], sum[:]...)
	}

	fullBody := changed(func(data []byte) []byte { return data[remote.HeaderSize : len(data)-32] })
	table := func(key string, f fields) []byte { return with(full(), key, f) }
	key := keyBytes(commit(1))
	n, sum := name(2), bytes.Repeat([]byte{9}, 32)
	p := inline(1, 2)
	entries := pack.AppendEntries(nil, p.Entries)
	index, seq := []byte(encodeIndex(indexFile(1))), []byte(encodeSeq(1))
	const bad, form = "not in canonical form", "malformed"

	var all []vector
	add := func(name, reason string, data []byte) {
		all = append(all, vector{Name: name, Hex: hex.EncodeToString(data), Error: reason})
	}

	add("least", "", seal(least(9, Hash{1})))
	add("all fields", "", seal(full()))
	add("stub", "", seal(stub()))
	add("empty", "too few", nil)
	add("header alone", "checksum", seal(full())[:remote.HeaderSize])
	add("other magic", "not a root", header(0, 'K'))
	add("state file", "state file, not a root", header(8, byte(remote.TypeState)))
	add("version 0", "unknown version", header(9, 0))
	add("version 2", "newer format", header(9, 2))
	add("other scheme", "newer format", header(10, 1))
	add("flipped bit", "checksum", flip(100))
	add("flipped bit of the checksum", "checksum", flip(len(seal(full()))-1))
	add("cut", "checksum", changed(func(data []byte) []byte { return data[:len(data)-1] }))
	add("bytes behind", "checksum", changed(func(data []byte) []byte { return append(data, 0) }))
	add("bytes behind the map", "cbor", rawBody(append(bytes.Clone(fullBody), 0)))
	add("no map", "cbor", rawBody([]byte{0x80}))
	add("no CBOR", "EOF", rawBody([]byte("hello")))
	add("another number", "its number is 8", with(full(), "seq", 8))
	add("read feature", "newer format", with(full(), "read", list{"x"}))
	add("read feature, with what it allows", "newer format", with(fields{"refs": 5, "seq": 9, "prev": sum, "txid": n[:]}, "read", list{"x"}))
	add("read features out of order", "not sorted", with(full(), "read", list{"x", "a"}))
	add("features twice", "not sorted", with(full(), "gc", list{"a", "a"}))
	add("empty feature", form, with(full(), "write", list{""}))
	add("short prev", form, with(full(), "prev", sum[:31]))
	add("no txid", form, with(full(), "txid", nil))
	add("no time", bad, with(full(), "time", nil))
	add("nanoseconds", "malformed time", with(full(), "time", list{0, 1_000_000_000}))
	add("year 10000", "malformed time", with(full(), "time", list{253402300800, 0}))
	add("year before 0", "malformed time", with(full(), "time", list{-62167219201, 0}))
	add("largest time", "malformed time", with(full(), "time", list{math.MaxInt64, 0}))
	add("empty who", bad, with(full(), "who", ""))
	add("who with an escape", "control characters", with(full(), "who", "\x1b[31m"))
	add("who with a C1 control", "control characters", with(full(), "who", "a\u009bb"))
	add("who too long", "control characters", with(full(), "who", strings.Repeat("x", maxText+1)))
	add("host with a line break", "control characters", with(full(), "host", "a\nb"))
	add("who not UTF-8", "cbor", rawBody(bytes.Replace(fullBody, []byte("Ö"), []byte("\xff\xff"), 1)))
	add("field twice", "cbor", rawBody(append(append([]byte{fullBody[0] + 1}, fullBody[1:]...), "\x64head\x60"...)))
	add("fields not sorted", bad, rawBody(append(append([]byte{fullBody[0] + 1}, fullBody[1:]...), "\x61a\x00"...)))
	add("number not shortest", bad, rawBody(bytes.Replace(fullBody, []byte("\x63seq\x09"), []byte("\x63seq\x18\x09"), 1)))
	add("indefinite length", "cbor", rawBody(append(append([]byte{0xbf}, fullBody[1:]...), 0xff)))
	add("tag in an unknown field", "cbor", rawBody(bytes.Replace(fullBody, []byte("\xf9\x3e\x00"), []byte("\xc1\x18\x20"), 1)))
	add("unknown field not canonical", bad, rawBody(bytes.Replace(fullBody, []byte("\xf9\x3e\x00"), []byte("\xfa\x3f\xc0\x00\x00"), 1)))
	add("field in capitals is an unknown one", "", with(full(), "Who", "a"))
	add("floor of this root", "floor", with(full(), "floor", 9))
	add("default branch", "refs/", with(full(), "head", "main"))
	add("empty table", bad, table("refs", fields{}))
	add("table with an unknown field", bad, table("refs", fields{"set": fields{"refs/heads/x": key}, "x": 1}))
	add("del without base", bad, table("refs", fields{"set": fields{"refs/heads/x": key}, "del": list{"refs/heads/y"}}))
	add("set and del", bad, table("refs", fields{"base": list{n[:], 9, sum}, "set": fields{"refs/heads/x": key}, "del": list{"refs/heads/x"}}))
	add("del twice", bad, table("refs", fields{"base": list{n[:], 9, sum}, "del": list{"refs/heads/x", "refs/heads/x"}}))
	add("base without name", form, table("refs", fields{"base": list{[]byte{}, 9, sum}}))
	add("base too large", form, table("refs", fields{"base": list{n[:], maxStateSize + 1, sum}}))
	add("empty base", form, table("refs", fields{"base": list{n[:], 0, sum}}))
	add("ref elsewhere", "refs/", table("refs", fields{"set": fields{"heads/x": key}}))
	add("ref with a control character", "control characters", table("refs", fields{"set": fields{"refs/\x7f": key}}))
	add("ref at a tree", "cannot be at", table("refs", fields{"set": fields{"refs/heads/x": keyBytes(object.Key{Kind: object.KindTree, ID: commit(1).ID})}}))
	add("ref at nothing", "cannot be at", table("refs", fields{"set": fields{"refs/heads/x": append([]byte{4}, make([]byte, 32)...)}}))
	add("short ref", "32 bytes", table("refs", fields{"set": fields{"refs/heads/x": key[:32]}}))
	add("index file with a bad name", "hexadecimal", table("indexes", fields{"set": fields{"a": index}}))
	add("index file without bytes", "without bytes", table("indexes", fields{"set": fields{n.String(): append(make([]byte, 8), sum...)}}))
	add("short index file", form, table("indexes", fields{"set": fields{n.String(): sum}}))
	add("condemned root", "hexadecimal", table("condemned", fields{"set": fields{RootName(1): seq}}))
	add("condemned probe", "no pack", table("condemned", fields{"set": fields{"probe/" + n.String(): seq}}))
	add("condemned pack in a wrong place", "no pack", table("condemned", fields{"set": fields{"packs/00/" + n.String(): seq}}))
	add("condemned by root 0", "root 0", table("condemned", fields{"set": fields{n.Path(): make([]byte, 8)}}))
	add("condemned without root", form, table("condemned", fields{"set": fields{n.Path(): []byte{}}}))
	held := "hold/" + commit(1).ID.String()
	_, value, _ := record.Encode(record.Record{Kind: record.Hold, Key: commit(1), Generation: 1, On: true, Time: noon, Who: "Ann", Reason: "the release"})
	add("record", "", table("records", fields{"set": fields{held: []byte(value)}}))
	add("record of an unknown kind", "unknown kind", table("records", fields{"set": fields{"keep/" + commit(1).ID.String(): []byte(value)}}))
	add("cut record", "EOF", table("records", fields{"set": fields{held: []byte(value[:5])}}))
	add("pack twice", "not sorted", with(full(), "packs", list{list{p.Name[:], p.Size, entries}, list{p.Name[:], p.Size, entries}}))
	add("pack without name", form, with(full(), "packs", list{list{[]byte{}, p.Size, entries}}))
	add("empty pack", form, with(full(), "packs", list{list{p.Name[:], p.Size, []byte{}}}))
	add("pack too large", "bytes", with(full(), "packs", list{list{p.Name[:], pack.MaxSize + 1, entries}}))
	add("cut entries", "entry", with(full(), "packs", list{list{p.Name[:], p.Size, entries[:len(entries)-1]}}))
	add("moves not sorted", "not sorted", with(full(), "moves", list{list{"refs/heads/b", []byte{}, key}, list{"refs/heads/a", []byte{}, key}}))
	add("move to itself", bad, with(full(), "moves", list{list{"refs/heads/b", key, key}}))
	add("move from nothing to nothing", bad, with(full(), "moves", list{list{"refs/heads/b", []byte{}, []byte{}}}))
	add("move to a short key", "bytes", with(full(), "moves", list{list{"refs/heads/b", key, key[:3]}}))
	add("move of no ref", "refs/", with(full(), "moves", list{list{"HEAD", []byte{}, key}}))
	add("fewer moves than told", bad, with(full(), "moved", 2))
	return append(all, keyVectors()...)
}

// keyVectors are those of encrypted and signed remotes.
func keyVectors() (all []vector) {
	add := func(name, reason string, data []byte) {
		all = append(all, vector{Name: name, Hex: hex.EncodeToString(data), Error: reason})
	}
	const bad = "not in canonical form"
	n, sum, seq := name(2), bytes.Repeat([]byte{9}, 32), []byte(encodeSeq(1))

	add("encrypted, signed", "", seal(encrypted()))
	add("stub on an encrypted remote", "", seal(func() fields {
		f, e := stub(), encrypted()
		f["epoch"], f["keyset"], f["back"] = e["epoch"], e["keyset"], e["back"]
		return f
	}()))
	add("epoch without keyset", "without keyset", with(encrypted(), "keyset", nil))
	add("keyset without epoch", "without keyset", with(encrypted(), "epoch", nil))
	add("back without keys", "without keyset", with(full(), "back", encrypted()["back"]))
	add("epoch 0", "epoch 0", with(encrypted(), "epoch", list{0, 0}))
	add("first epoch begun by a root", "epoch 1", with(encrypted(), "epoch", list{1, 5}))
	add("second epoch begun by no root", "epoch 2", with(encrypted(), "epoch", list{2, 0}))
	add("epoch begun later", "since root 10", with(encrypted(), "epoch", list{2, 10}))
	add("epoch too large", "cbor", with(encrypted(), "epoch", list{1 << 32, 5}))
	keys := func(i int, value any) []byte {
		changed := slices.Clone(encrypted()["keyset"].(list))
		changed[i] = value
		return with(encrypted(), "keyset", changed)
	}
	add("keyset 0", "malformed keyset", keys(0, 0))
	add("keyset with one copy", "malformed keyset", keys(1, encrypted()["keyset"].(list)[2]))
	add("keyset without name", "malformed keyset", keys(2, []byte{}))
	add("empty keyset", "malformed keyset", keys(3, 0))
	add("keyset too large", "malformed keyset", keys(3, remote.MaxKeyset+1))
	add("keyset without hash", "malformed keyset", keys(4, []byte{}))
	add("back too short", "2 hashes of earlier roots, want 3", with(encrypted(), "back", encrypted()["back"].(list)[:2]))
	add("no back", "0 hashes of earlier roots, want 3", with(encrypted(), "back", nil))
	add("back with a short hash", "malformed hash", with(encrypted(), "back", list{sum, sum, sum[:31]}))
	add("signed is no switch", bad, with(encrypted(), "signed", false))
	add("signature too long", "too long", with(encrypted(), "signature", bytes.Repeat([]byte{1}, maxSignature+1)))
	add("stub with a signature", "malformed stub", with(stub(), "signature", sum))
	add("condemned keyset in a wrong place", "no pack", with(full(), "condemned", fields{"set": fields{"keys/" + n.String()[:2] + "/" + n.String(): seq}}))
	add("stub with refs", "malformed stub", with(stub(), "refs", full()["refs"]))
	add("stub of a short hash", "malformed stub", with(stub(), "stub", sum[:31]))
	return all
}

func TestVectors(t *testing.T) {
	all := vectors()
	for i := range all {
		if all[i].Error == "" {
			all[i].Root = all[i].view(t)
		}
	}
	data := objecttest.CheckVectors(t, vectorFile, all, *update)

	// The rest of the test uses the content of the file only.
	var read []vector
	if err := json.Unmarshal(data, &read); err != nil {
		t.Fatal(err)
	}
	for _, v := range read {
		t.Run(v.Name, func(t *testing.T) {
			root, err := decodeRoot(9, v.data(t))
			if v.Error == "" {
				if err != nil {
					t.Fatal(err)
				}
				again, err := appendRoot(root.body, root.extra)
				if err != nil || !bytes.Equal(again, v.data(t)) {
					t.Errorf("encoded again: %x, %v", again, err)
				}
				return
			}
			var damage *object.DamageError
			newer := strings.Contains(v.Error, "newer format")
			switch {
			case err == nil || !strings.Contains(err.Error(), v.Error):
				t.Errorf("error %v, want %s", err, v.Error)
			case errors.As(err, &damage) == newer || errors.Is(err, ErrFormat) != newer:
				t.Errorf("error %v is not of the right kind", err)
			}
		})
	}
}

func (v *vector) data(t testing.TB) []byte {
	data, err := hex.DecodeString(v.Hex)
	if err != nil {
		t.Fatal(err)
	}
	return data
}

// view returns the decoded root of a vector as JSON.
func (v *vector) view(t *testing.T) json.RawMessage {
	t.Helper()
	r, err := decodeRoot(9, v.data(t))
	if err != nil {
		t.Fatalf("%s: %v", v.Name, err)
	}

	keyText := func(k object.Key) string {
		if k.IsZero() {
			return ""
		}
		return k.Kind.String() + ":" + k.ID.String()
	}

	moves := []fields{}
	for _, m := range r.Moves {
		moves = append(moves, fields{"name": m.Name, "old": keyText(m.Old), "new": keyText(m.New)})
	}

	tables := fields{}
	for i, body := range r.tables() {
		if body != nil {
			set := fields{}
			for name, value := range body.Set {
				set[name] = hex.EncodeToString([]byte(value))
			}
			tables[tableKinds[i].name] = fields{"set": set, "del": body.Del, "base": body.Base != nil}
		}
	}

	content := fields{
		"seq": r.Seq, "hash": r.Hash.String(), "prev": r.Prev.String(), "txid": hex.EncodeToString(r.Txid[:]), "time": r.Time, "who": r.Who, "host": r.Host,
		"head": r.body.Head, "floor": r.body.Floor, "write": r.body.Write, "gc": r.body.GC, "stub": r.Stub,
		"moves": moves, "moved": r.Moved, "packs": len(r.packs), "tables": tables, "unknown": len(r.extra),
	}
	if r.Keys != (Keys{}) {
		content["epoch"] = r.Keys.Epoch
		content["keyset"] = fields{"serial": r.Keys.Keyset.Serial, "copies": r.Keys.Keyset.Copies(), "size": r.Keys.Keyset.Size}
		content["back"] = r.body.hashes()
		content["signature"] = hex.EncodeToString([]byte(r.body.Signature))
	}
	view, err := json.Marshal(content)
	if err != nil {
		t.Fatal(err)
	}
	return view
}

// Append keeps unknown fields of the root before.
func TestUnknownFields(t *testing.T) {
	m := remotetest.NewMemory()
	l := newLog(t, m)
	f := least(1, l.id.Hash)
	f["later"], f["zz"], f["a"] = fields{"a": list{1, "b"}}, 1.5, nil
	m.Set(RootName(1), seal(f))
	s := mustHead(t, l, nil)
	for n := range 3 {
		s = mustAppend(t, l, s, move("main", n, n+1))
	}
	body := m.Data(RootName(4))
	var got fields
	if err := decoding.Unmarshal(body[remote.HeaderSize:len(body)-32], &got); err != nil {
		t.Fatal(err)
	}
	want := fields{"later": map[any]any{"a": list{uint64(1), "b"}}, "zz": 1.5, "a": nil}
	for key, value := range want {
		if diff := cmp.Diff(value, got[key]); diff != "" {
			t.Errorf("field %q: %s", key, diff)
		}
	}
	if _, ok := got["a"]; !ok || got["seq"] != uint64(4) {
		t.Errorf("%v", got)
	}
	f["later"] = strings.Repeat("x", maxExtra)
	if _, err := decodeRoot(1, seal(f)); err == nil {
		t.Error("decodeRoot accepts more than maxExtra bytes of unknown fields")
	}
}

// An old root may be overwritten by a stub that keeps its hash.
func TestStubs(t *testing.T) {
	m := remotetest.NewMemory()
	l := newLog(t, m)
	five := grow(t, l, 5).Position()
	head := grow(t, l, 5)
	for seq := uint64(1); seq <= 9; seq++ {
		r, err := l.At(ctx, seq)
		if err != nil {
			t.Fatal(err)
		}
		m.Set(RootName(seq), stubOf(t, r))
	}
	if s := mustHead(t, l, &five); s.Position() != head.Position() {
		t.Errorf("head is root %d, want 10", s.Seq)
	}
	n := 0
	for r, err := range l.Roots(ctx, head.Position()) {
		if n++; err != nil || r.Moves[0].New != commit(int(r.Seq)) || r.Stub != (r.Seq < 10) {
			t.Errorf("root %d: stub %t, moves %v, error %v", r.Seq, r.Stub, r.Moves, err)
		}
	}
	if n != 10 {
		t.Errorf("%d roots, want 10", n)
	}
	m.Remove(RootName(10)) // a head is never a stub
	_, err := l.Head(ctx, nil)
	wantDamage(t, err, RootName(9))
}

func stubOf(t *testing.T, r *Root) []byte {
	t.Helper()
	b := r.body
	data, err := appendRoot(&rootBody{
		Seq: b.Seq, Prev: b.Prev, Txid: b.Txid, Time: b.Time, Who: b.Who, Host: b.Host, Moves: b.Moves,
		Stub: cbor.ByteString(r.Hash[:]),
	}, nil)
	if err != nil {
		t.Fatal(err)
	}
	return data
}

// A writer recognises its root by the txid, even if a stub has replaced the root.
func TestOwnRootIsAStub(t *testing.T) {
	m := remotetest.NewMemory()
	other := newLog(t, m)
	s := grow(t, other, 1)
	f := remotetest.NewFaulty(m)
	f.Fail(remotetest.Fault{Op: remotetest.Create, How: remotetest.After, Err: remote.ErrTemporary, Do: func() {
		r, err := other.At(ctx, 2)
		if err != nil {
			t.Error(err)
			return
		}
		mustAppend(t, other, mustHead(t, other, nil), move("side", 0, 1))
		m.Set(RootName(2), stubOf(t, r))
	}})
	if next := mustAppend(t, newLog(t, f), s, move("main", 1, 2)); next.Seq != 2 || mustHead(t, other, nil).Seq != 3 {
		t.Errorf("appended root %d, want 2", next.Seq)
	}
}

func FuzzDecodeRoot(f *testing.F) {
	for _, v := range vectors() {
		if data := v.data(f); len(data) > remote.HeaderSize+32 {
			f.Add(data[remote.HeaderSize : len(data)-32])
		}
	}

	f.Fuzz(func(t *testing.T, body []byte) {
		data := rawBody(body)
		r, err := decodeRoot(9, data)
		if err != nil {
			if damage := new(object.DamageError); !errors.As(err, &damage) && !errors.Is(err, ErrFormat) {
				t.Fatalf("error %v", err)
			}
			return
		}
		if again, err := appendRoot(r.body, r.extra); err != nil || !bytes.Equal(again, data) {
			t.Fatalf("%x encoded again: %x, %v", data, again, err)
		}
		if checkLine("", r.Who) != nil || checkLine("", r.Host) != nil || len(r.Moves) > r.Moved {
			t.Fatalf("%+v", r)
		}

		for _, m := range r.Moves {
			if checkRefName(m.Name) != nil || m.Old == m.New {
				t.Fatalf("%+v", m)
			}
		}

		if s, err := Open(remotetest.NewMemory(), &Identity{}, Options{}).resolveState(ctx, r); err == nil {
			for name, key := range s.Refs {
				if checkRefName(name) != nil || checkTarget(key) != nil {
					t.Fatalf("%q at %v", name, key)
				}
			}
		}
	})
}

func FuzzDecodeState(f *testing.F) {
	for _, kind := range []*tableKind{refsTable, indexesTable, condemnedTable} {
		data, err := encodeState(kind, nil)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(data[remote.HeaderSize:])
	}
	data, err := encodeState(refsTable, map[string]cbor.ByteString{"refs/heads/main": encodeKey(commit(1)), "refs/heads/x": encodeKey(commit(2))})
	if err != nil {
		f.Fatal(err)
	}
	f.Add(data[remote.HeaderSize:])
	f.Fuzz(func(t *testing.T, body []byte) {
		data := append(remote.AppendHeader(nil, remote.TypeState, remote.Version1), body...)
		for _, kind := range []*tableKind{refsTable, indexesTable, condemnedTable} {
			entries, err := decodeState(kind, data)
			if err != nil {
				continue
			}
			if again, err := encodeState(kind, entries); err != nil || !bytes.Equal(again, data) {
				t.Fatalf("%x encoded again: %x, %v", data, again, err)
			}
		}
	})
}

// False counts and lengths do not make the decoder allocate much.
func TestHostileRootsAllocateLittle(t *testing.T) {
	big := bytes.Repeat([]byte{0xa0}, maxRootSize-100)
	for name, body := range map[string][]byte{
		"huge map":           {0xbb, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff},
		"map of a million":   {0xba, 0x00, 0x0f, 0xff, 0xff},
		"huge text":          {0xa1, 0x7b, 0x7f, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff},
		"many empty maps":    append([]byte{0xa1, 0x61, 'x', 0x9a, 0x00, 0x01, 0x00, 0x00}, big[:1<<16]...),
		"many more maps":     append([]byte{0xa1, 0x61, 'x', 0x9a, 0x00, 0x0f, 0x00, 0x00}, big...),
		"deep":               append(bytes.Repeat([]byte{0x81}, 1<<18), 0),
		"a string of 64 KiB": append([]byte{0xa1, 0x61, 'x', 0x5a, 0x00, 0x01, 0x00, 0x00}, big[:1<<16]...),
	} {
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		_, err := decodeRoot(9, rawBody(body))
		runtime.ReadMemStats(&after)
		if err == nil {
			t.Errorf("%s: decodeRoot accepts it", name)
		}
		if used := after.TotalAlloc - before.TotalAlloc; used > 16<<20 {
			t.Errorf("%s: decoding %d bytes allocates %d bytes (%v)", name, len(body), used, err)
		}
	}
}
