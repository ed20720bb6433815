package rootlog

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/fxamacker/cbor/v2"

	"github.com/kist-vcs/kist/object"
	"github.com/kist-vcs/kist/refs/record"
	"github.com/kist-vcs/kist/remote"
	"github.com/kist-vcs/kist/remote/pack"
)

// applyChange returns the state after a change, without its hash and without the fields that
// fill sets. Its tables have the bases of s.
func (s *State) applyChange(c *Change, k *KeysetChange) (*State, error) {
	next := &State{
		Seq: s.Seq + 1, Time: c.Time.UTC(), Who: c.Who, Host: c.Host,
		Floor: s.Floor, DefaultBranch: s.DefaultBranch, Packs: s.Packs,
		Policy: s.Policy.afterChange(c.Policy),
		Read:   s.Read, Write: s.Write, GC: s.GC, extra: s.extra, back: s.backAfter(),
		tableSet: tableSet{s.refs.clone(), s.indexes.clone(), s.condemned.clone(), s.records.clone(), s.lost.clone()},
	}
	if next.Seq > maxSeq {
		return nil, asInvalid(errors.New("the log is full"))
	}
	if c.Head != "" {
		next.DefaultBranch = c.Head
	}
	for _, step := range []func(*State, *Change) error{next.moveRefs, next.addFiles, next.markForDeletion, next.forgetMarked, next.addRecords, next.changeLost, next.confirm} {
		if err := step(s, c); err != nil {
			return nil, err
		}
	}
	setFeature(&next.Write, featureSigned, next.Signed)
	if err := next.changeKeys(s, k); err != nil {
		return nil, err
	}
	return next, nil
}

// setFeature adds a feature to a list, or removes it.
func setFeature(list *[]string, feature string, on bool) {
	features := slices.DeleteFunc(slices.Clone(*list), func(name string) bool { return name == feature })
	if on {
		features = append(features, feature)
		slices.Sort(features)
	}
	*list = features
}

// afterChange returns the policy after a change.
func (p Policy) afterChange(c Policy) Policy {
	p.SingleWriter = p.SingleWriter || c.SingleWriter
	p.Signed = p.Signed || c.Signed
	switch {
	case c.Lock.Age > 0:
		p.Lock = c.Lock
	case c.Lock.Age < 0:
		p.Lock = remote.Lock{}
	}
	return p
}

// checkRefs returns [ErrRefMoved] if a ref is not at the Old of its change.
func checkRefs(refs map[string]object.Key, changes []RefChange) error {
	for _, c := range changes {
		if have := refs[c.Name]; have != c.Old {
			return fmt.Errorf("%w: %s is at %s, not at %s", ErrRefMoved, c.Name, have, c.Old)
		}
	}
	return nil
}

// moveRefs changes the refs. It sorts the changes, and removes changes without effect.
func (s *State) moveRefs(before *State, c *Change) error {
	c.Refs = slices.Clone(c.Refs)
	slices.SortFunc(c.Refs, func(a, b RefChange) int { return strings.Compare(a.Name, b.Name) })
	if !isSorted(c.Refs, func(r RefChange) string { return r.Name }) {
		return asInvalid(errors.New("a ref is changed twice"))
	}
	if err := checkRefs(before.Refs, c.Refs); err != nil {
		return err
	}
	c.Refs = slices.DeleteFunc(c.Refs, func(r RefChange) bool { return r.Old == r.New })
	for _, r := range c.Refs {
		if r.New.IsZero() {
			delete(s.refs.entries, r.Name)
			continue
		}
		if err := errors.Join(checkRefName(r.Name), checkTarget(r.New)); err != nil {
			return asInvalid(err)
		}
		s.refs.entries[r.Name] = encodeKey(r.New)
	}
	return nil
}

// addFiles adds packs and index files. It refuses names that the state has, and
// condemned names (CONDEMNED_IS_FINAL).
func (s *State) addFiles(before *State, c *Change) error {
	inline := make(map[pack.Name]Inline)
	for _, p := range before.Packs {
		inline[p.Name] = p
	}

	for _, name := range c.Merged {
		delete(inline, name)
	}
	for _, p := range c.AddPacks {
		if _, ok := before.Condemned[p.Name.Path()]; ok {
			return ErrReplan
		}
		if _, ok := inline[p.Name]; ok || len(p.Entries) == 0 {
			return asInvalid(fmt.Errorf("pack %s exists already, or is empty", p.Name))
		}
		inline[p.Name] = p
	}

	s.Packs = nil
	for _, p := range inline {
		s.Packs = append(s.Packs, p)
	}

	slices.SortFunc(s.Packs, func(a, b Inline) int { return a.Name.Compare(b.Name) })
	for _, f := range c.AddIndexes {
		if _, ok := before.Condemned[f.Name.IndexPath()]; ok {
			return ErrReplan
		}
		if _, ok := s.indexes.entries[f.Name.String()]; ok || f.Size <= 0 {
			return asInvalid(fmt.Errorf("index file %s exists already, or is empty", f.Name))
		}
		s.indexes.entries[f.Name.String()] = encodeIndex(f)
	}
	return nil
}

// markForDeletion condemns files. The root no longer has the entries of a condemned pack.
func (s *State) markForDeletion(before *State, c *Change) error {
	for _, name := range c.Condemn {
		if err := CheckFileName(name); err != nil {
			return asInvalid(err)
		}
		if _, ok := s.condemned.entries[name]; ok {
			return asInvalid(fmt.Errorf("%s is condemned already", name))
		}
		// A live keyset is never condemned, except by a change of keys. A remote in clear has none:
		// programs that do not know keysets would take the name for damage.
		isKeyset := strings.HasPrefix(name, keysFolder)
		if isKeyset && (before.Keys == (Keys{}) || slices.Contains(before.NamedFiles(), name)) {
			return asInvalid(fmt.Errorf("%s is in use, or no file of this remote", name))
		}
		s.condemned.entries[name] = encodeSeq(s.Seq)
		delete(s.indexes.entries, strings.TrimPrefix(name, "index/"))
		s.Packs = slices.DeleteFunc(s.Packs, func(p Inline) bool { return p.Name.Path() == name })
	}
	return nil
}

// forgetMarked removes condemned files from the state. It raises the floor to the roots that
// condemned them, whether the files were ever live or not (FLOOR_COVERS_ALL).
func (s *State) forgetMarked(before *State, c *Change) error {
	for _, name := range c.Delist {
		seq, ok := before.Condemned[name]
		if !ok {
			return asInvalid(fmt.Errorf("%s is not condemned", name))
		}
		delete(s.condemned.entries, name)
		s.Floor = max(s.Floor, seq)
	}
	return nil
}

// addRecords adds records. It does not replace a record of a later generation.
func (s *State) addRecords(before *State, c *Change) error {
	set := before.Records.Clone()
	for _, r := range c.Records {
		if !set.Merge(r) {
			continue
		}
		name, value, err := record.Encode(r)
		if err != nil {
			return asInvalid(err)
		}
		s.records.entries[name] = cbor.ByteString(value)
	}
	return nil
}

// changeLost changes the list of lost objects, and has programs that do not know it
// neither write nor collect while it is not empty.
func (s *State) changeLost(before *State, c *Change) error {
	for _, key := range c.Found {
		delete(s.lost.entries, lostName(key))
	}
	for _, key := range c.Lost {
		if _, listed := before.Lost[key]; !listed {
			s.lost.entries[lostName(key)] = cbor.ByteString(c.Who)
		}
	}
	for _, list := range []*[]string{&s.Write, &s.GC} {
		setFeature(list, featureLost, len(s.lost.entries) > 0)
	}
	return nil
}

// fillFields sets the exported fields that follow from the tables.
func (s *State) fillFields() error {
	s.Refs = make(map[string]object.Key, len(s.refs.entries))
	s.Condemned = make(map[string]uint64, len(s.condemned.entries))
	s.Lost = make(map[object.Key]string, len(s.lost.entries))
	s.Records, s.Implausible, s.Indexes = &record.Set{}, nil, nil
	err := cmp.Or(
		s.refs.eachEntry(func(name string, value cbor.ByteString) (err error) {
			s.Refs[name], err = decodeKey(value)
			return err
		}),
		s.condemned.eachEntry(func(name string, value cbor.ByteString) error {
			seq, err := decodeSeq(value)
			if err == nil && seq > s.Seq {
				err = fmt.Errorf("%s was condemned by root %d", name, seq)
			}
			s.Condemned[name] = seq
			return err
		}),
		s.records.eachEntry(func(name string, value cbor.ByteString) error {
			r, err := record.Decode(name, string(value))
			if r.Plausible() {
				s.Records.Merge(r)
			} else {
				s.Implausible = append(s.Implausible, r)
			}
			return err
		}),
		s.lost.eachEntry(func(name string, who cbor.ByteString) error {
			key, err := parseLostName(name)
			s.Lost[key] = string(who)
			return err
		}),
		s.indexes.eachEntry(func(name string, value cbor.ByteString) error {
			f, err := decodeIndex(name, value)
			if err == nil && s.Condemned[f.Name.IndexPath()] != 0 {
				err = fmt.Errorf("index file %s is live and condemned", name)
			}
			s.Indexes = append(s.Indexes, f)
			return err
		}),
	)
	if err != nil {
		return err
	}

	slices.SortFunc(s.Indexes, func(a, b File) int { return a.Name.Compare(b.Name) })
	s.Time = s.Time.Round(0)
	return nil
}
