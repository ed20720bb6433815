package record

import (
	"bytes"
	"context"
	"errors"
	"math/rand/v2"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/kist-vcs/kist/object"
)

func key(kind object.Kind, n byte) object.Key { return object.Key{Kind: kind, ID: object.ID{n}} }

func commit(n byte) object.Key { return key(object.KindCommit, n) }

var noon = time.Date(2026, 3, 1, 12, 0, 0, 5, time.UTC)

func sample() []Record {
	return []Record{
		{Kind: Expire, Key: commit(1), Generation: 1, On: true, Time: noon, Who: "A <a@b>", Host: "h", Reason: "--keep-daily 7"},
		{Kind: Hold, Key: commit(2), Generation: 3, On: true, Time: noon, Reason: "the release\nof March", Until: noon.AddDate(1, 0, 0)},
		{Kind: Hold, Key: commit(1), Generation: 2, Time: noon},
		{Kind: Purge, Key: key(object.KindChunk, 7), Generation: 1, On: true, Time: noon},
		{Kind: Purge, Key: key(object.KindManifest, 7), Generation: 1, On: true, Time: noon},
	}
}

func TestRoundTrip(t *testing.T) {
	for _, r := range sample() {
		name, value, err := Encode(r)
		if err != nil {
			t.Fatal(err)
		}
		got, err := Decode(name, value)
		if err != nil || got != r {
			t.Errorf("%s: got %+v, %v; want %+v", name, got, err, r)
		}
	}
}

func TestEncodeRefuses(t *testing.T) {
	for name, change := range map[string]func(*Record){
		"no generation":        func(r *Record) { r.Generation = 0 },
		"too many generations": func(r *Record) { r.Generation = 1 << 63 },
		"a tree":               func(r *Record) { r.Key.Kind = object.KindTree },
		"no object":            func(r *Record) { r.Key.ID = object.ID{} },
		"unknown kind":         func(r *Record) { r.Kind = "keep" },
		"long reason":          func(r *Record) { r.Reason = strings.Repeat("x", MaxText+1) },
		"escape sequence":      func(r *Record) { r.Reason = "\x1b[2J" },
		"not UTF-8":            func(r *Record) { r.Who = "\xff" },
		"two lines of names":   func(r *Record) { r.Host = "a\nb" },
		"expires until":        func(r *Record) { r.Until = noon },
		"year 10000":           func(r *Record) { r.Time = noon.AddDate(9000, 0, 0) },
	} {
		r := sample()[0]
		change(&r)
		if _, _, err := Encode(r); err == nil {
			t.Errorf("%s was encoded", name)
		}
	}
}

// Merging the same records in any order, and some of them twice, gives equal sets.
func TestMergeOrder(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	var all []Record
	for range 200 {
		r := Record{
			Kind: []Kind{Hold, Expire}[rng.IntN(2)], Key: commit(byte(1 + rng.IntN(5))),
			Generation: uint64(1 + rng.IntN(3)), On: rng.IntN(2) == 0, Time: noon, Reason: string(rune('a' + rng.IntN(3))),
		}
		all = append(all, r)
	}
	var want *Set
	for range 20 {
		rng.Shuffle(len(all), func(i, j int) { all[i], all[j] = all[j], all[i] })
		got := &Set{}
		for _, r := range append(slices.Clone(all), all[:20]...) {
			got.Merge(r)
		}
		if want == nil {
			want = got
		}
		if n := append(got.Newer(want), want.Newer(got)...); len(n) > 0 {
			t.Fatalf("another order gives another set: %v", n)
		}
	}
}

// Of two concurrent changes with the same generation, the change that keeps more content wins.
func TestMergeKeeps(t *testing.T) {
	for kind, want := range map[Kind]bool{Hold: true, Expire: false} {
		a := Record{Kind: kind, Key: commit(1), Generation: 4, On: true, Time: noon}
		b := a
		b.On = false
		for _, order := range [][]Record{{a, b}, {b, a}} {
			set := &Set{}
			set.Merge(order[0])
			set.Merge(order[1])
			if got, _ := set.Get(kind, commit(1)); got.On != want {
				t.Errorf("%s: on is %v, want %v", kind, got.On, want)
			}
		}
	}
}

func TestSwitch(t *testing.T) {
	set := &Set{}
	for i, on := range []bool{true, false, true} {
		set.Switch(Record{Kind: Expire, Key: commit(1), On: on, Time: noon})
		if got, _ := set.Get(Expire, commit(1)); got.On != on || got.Generation != uint64(i+1) {
			t.Errorf("switch %d: %+v, want on %v and generation %d", i, got, on, i+1)
		}
	}
}

// A generation above MaxPlausible is refused. At MaxPlausible, an expiration can still be
// switched off, but a hold cannot.
func TestGenerations(t *testing.T) {
	for _, kind := range []Kind{Hold, Expire} {
		forged := Record{Kind: kind, Key: commit(1), Generation: MaxPlausible + 1, On: true, Time: noon}
		set := &Set{}
		if set.Merge(forged) || set.Len() > 0 {
			t.Errorf("%s: generation %d was merged", kind, forged.Generation)
		}

		forged.Generation = MaxPlausible
		if !set.Merge(forged) {
			t.Fatalf("%s: generation %d was refused", kind, forged.Generation)
		}

		err := set.Switch(Record{Kind: kind, Key: commit(1), Time: noon})
		got, _ := set.Get(kind, commit(1))
		if kind == Hold && (!errors.Is(err, ErrFinal) || !got.On) || kind == Expire && (err != nil || got.On) {
			t.Errorf("%s, switched off: on is %v, %v", kind, got.On, err)
		}
		if set.Merge(forged) {
			t.Errorf("%s: the same generation counts again", kind)
		}
	}

	// Load skips an implausible record, which an earlier version may have stored.
	s := Open(t.TempDir())
	forged := Record{Kind: Expire, Key: commit(1), Generation: maxGeneration, On: true, Time: noon}
	other := Record{Kind: Expire, Key: commit(2), Generation: 1, On: true, Time: noon}
	data, err := encodeFile(&Set{byName: map[string]Record{forged.Name(): forged, other.Name(): other}})
	if err == nil {
		err = os.WriteFile(s.filePath(FileName), data, 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
	if set, err := s.Load(); err != nil || set.Len() != 1 {
		t.Errorf("loaded %d records, %v, want 1", set.Len(), err)
	}
}

func TestView(t *testing.T) {
	set := &Set{}
	for _, r := range []Record{
		{Kind: Expire, Key: commit(1), Generation: 1, On: true},
		{Kind: Expire, Key: commit(2), Generation: 1, On: true},
		{Kind: Expire, Key: commit(3), Generation: 2},
		{Kind: Hold, Key: commit(2), Generation: 1, On: true, Until: noon},
		{Kind: Purge, Key: key(object.KindChunk, 9), Generation: 1, On: true},
	} {
		set.Merge(r)
	}

	tree, chunk, other := key(object.KindTree, 5), key(object.KindChunk, 9), key(object.KindManifest, 9)
	before, after := set.At(noon.Add(-1)), set.At(noon)
	for _, c := range []struct {
		view       *Effects
		from, link object.Key
		want       bool
	}{
		{before, commit(1), tree, true},
		{before, commit(1), commit(4), false}, // history stays
		{before, commit(2), tree, false},      // held
		{after, commit(2), tree, true},        // the hold has ended
		{before, commit(3), tree, false},      // switched off
		{before, commit(4), tree, false},
		{before, tree, chunk, true},
		{before, object.Key{}, chunk, true}, // from a gc root
		{before, tree, other, false},
		{nil, commit(1), tree, false},
	} {
		if got := c.view.Skips(c.from, c.link); got != c.want {
			t.Errorf("%s → %s: Skips = %v, want %v", c.from, c.link, got, c.want)
		}
	}

	if _, held := before.Held(object.ID{2}); !held || len(after.Holds()) != 0 {
		t.Error("a hold does not end exactly at its Until time")
	}
}

func TestEndHolds(t *testing.T) {
	set := &Set{}
	for n, until := range []time.Time{noon, noon.Add(1), {}} {
		set.Switch(Record{Kind: Hold, Key: commit(byte(n + 1)), On: true, Time: noon, Until: until, Reason: "why"})
		set.Switch(Record{Kind: Expire, Key: commit(byte(n + 1)), On: true, Time: noon})
	}
	before := set.View()
	if n := len(before.Holds()); n != 3 {
		t.Errorf("%d holds, want 3", n)
	}
	if _, expired := before.Expired(object.ID{1}); expired {
		t.Error("a commit is expired before its hold has ended")
	}
	set.EndHolds(noon, "B", "host")
	want := Record{Kind: Hold, Key: commit(1), Generation: 2, Time: noon, Who: "B", Host: "host", Reason: "why", Until: noon}
	if got, _ := set.Get(Hold, commit(1)); got != want {
		t.Errorf("got %+v, want %+v", got, want)
	}
	after := set.View()
	if _, expired := after.Expired(object.ID{1}); !expired || len(after.Holds()) != 2 {
		t.Errorf("expired: %v, holds left: %v, want 2", expired, after.Holds())
	}
	set.EndHolds(noon, "C", "host")
	if got, _ := set.Get(Hold, commit(1)); got != want {
		t.Errorf("the hold was ended twice: %+v", got)
	}
}

func TestForget(t *testing.T) {
	set := &Set{}
	first := Record{Kind: Expire, Key: commit(1), Generation: 1, On: true, Time: noon}
	second := first
	second.Generation++
	set.Merge(second)
	set.Forget(first) // the set has second by now
	if set.Len() != 1 {
		t.Error("Forget deleted a newer record")
	}
	set.Forget(second)
	if set.Len() != 0 || !set.Merge(first) {
		t.Error("Forget did not delete the record, or left a trace")
	}
}

func TestStore(t *testing.T) {
	ctx := context.Background()
	s := Open(t.TempDir())
	if set, err := s.Load(); err != nil || set.Len() != 0 {
		t.Fatalf("without a file: %d records, %v", set.Len(), err)
	}
	for _, r := range sample() {
		if err := s.Update(ctx, func(set *Set) error { set.Merge(r); return nil }); err != nil {
			t.Fatal(err)
		}
	}
	stop := errors.New("stop")
	if err := s.Update(ctx, func(set *Set) error { set.Switch(sample()[0]); return stop }); err != stop {
		t.Fatal(err)
	}
	got, err := s.Load()
	if err != nil {
		t.Fatal(err)
	}
	var want []Record
	want = append(want, sample()...)
	slices.SortFunc(want, func(a, b Record) int { return strings.Compare(a.Name(), b.Name()) })
	if !slices.Equal(slices.Collect(got.All()), want) {
		t.Errorf("stored %v, want %v", slices.Collect(got.All()), want)
	}
}

// Load detects each changed byte and each truncation. Update does not overwrite damaged records.
func TestStoreDamaged(t *testing.T) {
	set := &Set{}
	for _, r := range sample() {
		set.Merge(r)
	}
	data, err := encodeFile(set)
	if err != nil {
		t.Fatal(err)
	}

	dir := t.TempDir()
	s := Open(dir)
	for i := range data {
		bad := bytes.Clone(data)
		bad[i] ^= 1
		if err := os.WriteFile(filepath.Join(dir, FileName), bad, 0o666); err != nil {
			t.Fatal(err)
		}
		_, err := s.Load()
		if !errors.Is(err, object.ErrCorrupt) && !errors.Is(err, object.ErrNewerFormat) {
			t.Fatalf("byte %d changed: %v, want damage", i, err)
		}
		if err := s.Update(context.Background(), func(*Set) error { return nil }); err == nil {
			t.Fatalf("byte %d changed: Update replaced the damaged records", i)
		}
	}

	for n := range data {
		if _, err := decodeFile(data[:n]); err == nil {
			t.Fatalf("the first %d bytes were accepted", n)
		}
	}
}

func sampleFile(t testing.TB) (*Set, []byte) {
	set := &Set{}
	for _, r := range sample() {
		set.Merge(r)
	}
	data, err := encodeFile(set)
	if err != nil {
		t.Fatal(err)
	}
	return set, data
}

// A file above the size limit is refused without reading it.
func TestStoreTooLong(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, FileName)
	if err := os.WriteFile(file, []byte(magic), 0o666); err != nil {
		t.Fatal(err)
	}
	if err := os.Truncate(file, maxSize+1); err != nil {
		t.Fatal(err)
	}
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	_, err := Open(dir).Load()
	var damage *object.DamageError
	if !errors.As(err, &damage) || !strings.Contains(err.Error(), "longer than") {
		t.Errorf("error %v, want damage: longer than the limit", err)
	}
	if set, from, err := Open(dir).Salvage(); err != nil || from != FromReadable || set.Len() > 0 {
		t.Errorf("salvaged %d records from %v, %v", set.Len(), from, err)
	}
	if runtime.ReadMemStats(&after); after.TotalAlloc-before.TotalAlloc > 1<<20 {
		t.Errorf("%d bytes were allocated", after.TotalAlloc-before.TotalAlloc)
	}
}

// Salvage restores all records if a single bit is flipped.
func TestSalvageBit(t *testing.T) {
	set, data := sampleFile(t)
	for bit := 0; bit < 8*len(data); bit += 7 {
		data[bit/8] ^= 1 << (bit % 8)
		if got, exact := salvageFile(data); !exact || !got.Equal(set) {
			t.Fatalf("bit %d: exact: %v, %d records", bit, exact, got.Len())
		}
		data[bit/8] ^= 1 << (bit % 8)
	}
}

// Salvage restores the records beside a damaged stretch unchanged.
func TestSalvageTorn(t *testing.T) {
	set, data := sampleFile(t)
	for start := 0; start+20 <= len(data); start++ {
		bad := bytes.Clone(data)
		clear(bad[start : start+20])
		got, exact := salvageFile(bad)
		same := 0
		for r := range got.All() {
			if want, _ := set.Get(r.Kind, r.Key); r == want {
				same++
			}
		}
		if exact || same < set.Len()-2 {
			t.Fatalf("20 bytes at %d damaged: exact: %v, %d records unchanged", start, exact, same)
		}
	}
	if got, exact := salvageFile(data[:len(data)-40]); exact || got.Len() != set.Len()-1 {
		t.Fatalf("last 40 bytes cut off: exact: %v, %d records", exact, got.Len())
	}
}

func FuzzSalvage(f *testing.F) {
	_, data := sampleFile(f)
	f.Add(data)
	f.Add(data[:len(data)-1])
	f.Fuzz(func(t *testing.T, data []byte) {
		set := readableRecords(data)
		again, err := encodeFile(set)
		if err != nil {
			t.Fatal(err)
		}
		if other, err := decodeFile(again); err != nil || !other.Equal(set) {
			t.Fatalf("the salvaged records changed when stored: %v", err)
		}
		if intact, err := decodeFile(data); err == nil && !set.Equal(intact) {
			t.Fatalf("intact file: salvaged %d of %d records", set.Len(), intact.Len())
		}
	})
}

func FuzzDecode(f *testing.F) {
	for _, r := range sample() {
		name, value, err := Encode(r)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(name, value)
	}
	f.Fuzz(func(t *testing.T, name, value string) {
		r, err := Decode(name, value)
		if err != nil {
			return
		}
		again, v, err := Encode(r)
		if err != nil || again != name || v != value {
			t.Fatalf("%q, %q became %q, %q, %v", name, value, again, v, err)
		}
	})
}

func TestSetEqual(t *testing.T) {
	var old, later Set
	for _, r := range sample() {
		old.Merge(r)
		later.Merge(r)
	}
	if !old.Equal(&later) || !(*Set)(nil).Equal(&Set{}) {
		t.Error("sets with the same records are not equal")
	}
	later.Switch(Record{Kind: Expire, Key: commit(1), Time: noon})
	if old.Equal(&later) || later.Equal(&old) {
		t.Error("sets are equal despite a later record")
	}
}

// The copy proves that there were records, and has all of them.
func TestRecordsCopy(t *testing.T) {
	dir := t.TempDir()
	s := Open(dir)
	set, _ := sampleFile(t)
	if err := s.Update(t.Context(), func(to *Set) error {
		for r := range set.All() {
			to.Merge(r)
		}
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	intact, err := os.ReadFile(filepath.Join(dir, FileName))
	if err != nil {
		t.Fatal(err)
	}

	for what, spoil := range map[string]func() error{
		"gone": func() error { return os.Remove(filepath.Join(dir, FileName)) },
		"cut":  func() error { return os.WriteFile(filepath.Join(dir, FileName), intact[:len(intact)/2], 0o666) },
	} {
		if err := spoil(); err != nil {
			t.Fatal(err)
		}
		if _, err := s.Load(); !errors.Is(err, ErrDamaged) {
			t.Errorf("%s: %v, want ErrDamaged", what, err)
		}
		got, from, err := s.Salvage()
		if err != nil || from != FromCopy || !got.Equal(set) {
			t.Errorf("%s: salvaged %d records from %v, %v", what, got.Len(), from, err)
		}
		if did, err := s.Replace(t.Context(), got, func() error { return nil }); !did || err != nil {
			t.Errorf("%s: replaced %v, %v", what, did, err)
		}
	}

	if err := os.WriteFile(filepath.Join(dir, CopyFile), intact[1:], 0o666); err != nil {
		t.Fatal(err)
	}
	var damage *object.DamageError
	if err := s.CheckCopy(); !errors.As(err, &damage) || damage.Name != CopyFile {
		t.Errorf("a damaged copy: %v", err)
	}
	for range 2 {
		if err := s.RenewCopy(t.Context(), func() error { return nil }); err != nil || s.CheckCopy() != nil {
			t.Errorf("renew the copy: %v", err)
		}
	}
	if err := os.Remove(filepath.Join(dir, CopyFile)); err != nil { // as after an earlier version
		t.Fatal(err)
	}
	if err := s.Update(t.Context(), func(*Set) error { return nil }); err != nil {
		t.Fatal(err)
	}
	if got, err := os.ReadFile(filepath.Join(dir, CopyFile)); err != nil || !bytes.Equal(got, intact) {
		t.Errorf("an update without a change made no copy: %v", err)
	}
}

// A copy that is older than the records is renewed. Until then, the records that it lacks are
// not lost with the file: an earlier version writes no copy.
func TestOlderCopy(t *testing.T) {
	dir := t.TempDir()
	s := Open(dir)
	all, _ := sampleFile(t)
	add := func(n int) {
		t.Helper()
		err := s.Update(t.Context(), func(to *Set) error {
			for r := range all.All() {
				if n--; n >= 0 {
					to.Merge(r)
				}
			}
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	read := func(name string) []byte {
		t.Helper()
		data, err := os.ReadFile(filepath.Join(dir, name))
		if err != nil {
			t.Fatal(err)
		}
		return data
	}
	write := func(name string, data []byte) {
		t.Helper()
		if err := os.WriteFile(filepath.Join(dir, name), data, 0o666); err != nil {
			t.Fatal(err)
		}
	}

	add(all.Len() - 1)
	older := read(CopyFile)
	add(all.Len())
	intact := read(FileName)
	write(CopyFile, older)
	write(FileName, slices.Concat(intact[:len(intact)-2], []byte{^intact[len(intact)-2], ^intact[len(intact)-1]}))
	if got, from, err := s.Salvage(); err != nil || from != FromReadable || !got.Equal(all) {
		t.Errorf("salvaged %d records of %d from %v, %v", got.Len(), all.Len(), from, err)
	}

	write(FileName, intact)
	add(0)
	if !bytes.Equal(read(CopyFile), intact) {
		t.Error("an update without a change left an older copy")
	}
}
