package keyset

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"sync"

	"github.com/kist-vcs/kist/object"
	"github.com/kist-vcs/kist/remote"
	"github.com/kist-vcs/kist/remote/crypt"
	"github.com/kist-vcs/kist/remote/retry"
)

// Source reads the keyset of a remote. It never returns an older keyset than the last one that this clone
// has seen, nor one with other keys. It is safe for concurrent use.
type Source struct {
	o Options

	mu     sync.Mutex
	opened map[[2][16]byte]*Opened // by the names that were asked for
	live   *Opened                 // the last one that a root names
}

// Options describe a [Source].
type Options struct {
	Blobs  remote.Blobs // the store, not encrypted
	Remote [16]byte     // ID of the remote
	Pin    *crypt.Fingerprint

	// Dir is the folder in which the source keeps a copy of the keyset, and fingerprints of the keys. Empty: there is
	// none.
	Dir string

	Identities *Identities
	Export     *File // a copy to use if those of the store are damaged; nil: none
}

// Opened is a keyset that an identity has opened, and its stored form.
type Opened struct {
	*Keyset
	File  *File
	Names [2][16]byte // of its copies on the store; zero if they are unknown

	kept bool // the clone has a copy
}

// NewSource returns a source. Pin in the options is the fingerprint of epoch 1 that the user's configuration has, nil
// if it has none.
func NewSource(o Options) *Source { return &Source{o: o, opened: map[[2][16]byte]*Opened{}} }

// Load returns the keys of the keyset whose copies have these names. They may be names that a store made up, or those of a
// change of keys that never became part of the remote. So the clone does not remember this keyset: see Open.
func (s *Source) Load(ctx context.Context, names [2][16]byte) (*crypt.Keys, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	_, opened, err := s.find(ctx, names)
	if err != nil {
		return nil, err
	}
	return opened.Keys(), nil
}

// Open returns the keyset whose copies have these names, which an authentic root has. The clone remembers it. If this clone knows a
// later one, Open returns that: a later keyset has all earlier keys. It reads the store only if the clone has no copy.
//
// The errors are those of [Identities.Open] and of the store. A [*CopiesError] means that no copy is
// intact, a [*KeyChangedError] that the keyset has other keys than before.
func (s *Source) Open(ctx context.Context, names [2][16]byte) (*Opened, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if opened := s.opened[names]; opened != nil && opened.kept {
		s.live = opened
		return opened, nil
	}
	known, opened, err := s.find(ctx, names)
	if err == nil && opened.Names == names && !opened.kept {
		err = s.keep(ctx, known, opened)
		opened.kept = err == nil
	}
	if err != nil {
		return nil, err
	}
	s.live = opened
	return opened, nil
}

// find opens the keyset whose copies have these names, and returns what the clone knew before.
func (s *Source) find(ctx context.Context, names [2][16]byte) (*knownKeys, *Opened, error) {
	known, err := s.readKnown()
	if err != nil {
		return nil, nil, err
	}
	if opened := s.opened[names]; opened != nil {
		return known, opened, nil
	}

	var opened *Opened
	if known.has(names) {
		opened, err = s.openKept(ctx, known)
	}
	if opened == nil && err == nil {
		opened, err = s.openStored(ctx, known, names)
	}
	if err != nil {
		return nil, nil, err
	}
	s.opened[names] = opened
	return known, opened, nil
}

// RememberIn sets the folder of a source that was made without one, and keeps the keyset there that Open returned last.
func (s *Source) RememberIn(ctx context.Context, dir string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.o.Dir = dir
	if s.live == nil {
		return nil
	}
	known, err := s.readKnown()
	if err != nil {
		return err
	}
	return s.keep(ctx, known, s.live)
}

// openKept opens the clone's own copy. It returns nil if there is none that is intact.
func (s *Source) openKept(ctx context.Context, known *knownKeys) (*Opened, error) {
	file := s.readCopy()
	if file == nil || file.Serial < known.newest() {
		return nil, nil
	}
	opened, err := s.openFile(ctx, known, file)
	if errors.Is(err, ErrDamaged) {
		return nil, nil
	}
	if err == nil && file.Serial == known.newest() {
		opened.Names = known.keysets[0].names
	}
	if err == nil {
		opened.kept = true
	}
	return opened, err
}

// openStored opens a copy on the store, or else the export or the clone's own copy.
func (s *Source) openStored(ctx context.Context, known *knownKeys, names [2][16]byte) (*Opened, error) {
	var damage []error // of each copy that is damaged or missing
	var refused error  // of a copy that is intact
	var tried []*File
	try := func(file *File) *Opened {
		for _, earlier := range tried {
			if bytes.Equal(earlier.data, file.data) {
				return nil
			}
		}
		tried = append(tried, file)
		opened, err := s.openFile(ctx, known, file)
		switch {
		case errors.Is(err, ErrDamaged):
			damage = append(damage, err)
		case err != nil && refused == nil:
			refused = err
		}
		return opened
	}

	for _, name := range names {
		file, err := s.readStored(ctx, name)
		if err != nil {
			if !isDamage(err) {
				return nil, err
			}
			damage = append(damage, err)
			continue
		}
		if opened := try(file); opened != nil {
			opened.Names = names
			return opened, nil
		}
	}
	if refused != nil {
		return nil, refused
	}

	for _, file := range []*File{s.o.Export, s.readCopy()} {
		if file == nil {
			continue
		}
		if opened := try(file); opened != nil {
			return opened, nil
		}
	}
	if refused != nil {
		return nil, refused
	}
	return nil, &CopiesError{Names: names, Errs: damage}
}

// isDamage reports whether another copy may help.
func isDamage(err error) bool {
	return errors.Is(err, remote.ErrNotFound) || errors.Is(err, remote.ErrDamaged)
}

// openFile opens a keyset file, and checks that it is a successor of the known one.
func (s *Source) openFile(ctx context.Context, known *knownKeys, file *File) (*Opened, error) {
	if file.Remote != s.o.Remote {
		return nil, fmt.Errorf("%w: %x instead of %x", ErrOtherRemote, file.Remote, s.o.Remote)
	}
	k, err := s.o.Identities.Open(ctx, file)
	if err != nil {
		return nil, err
	}
	if s.o.Pin != nil && k.Epochs[0].Key.Fingerprint(k.Remote) != *s.o.Pin {
		return nil, &KeyChangedError{Epoch: 1, Want: *s.o.Pin, Got: k.Epochs[0].Key.Fingerprint(k.Remote)}
	}
	if err := known.checkSuccessor(k); err != nil {
		return nil, err
	}
	return &Opened{Keyset: k, File: file}, nil
}

// readStored reads a copy from the store. Damage matches [remote.ErrDamaged].
func (s *Source) readStored(ctx context.Context, name [16]byte) (file *File, err error) {
	err = retry.Verified(func() (err error) {
		file, err = ReadCopy(ctx, s.o.Blobs, name)
		return err
	})
	return file, err
}

// ReadCopy reads one copy of a keyset. Damage is a [*object.DamageError] that matches [remote.ErrDamaged]. It reads once: the
// caller repeats it before it reports damage.
func ReadCopy(ctx context.Context, blobs remote.Blobs, name [16]byte) (*File, error) {
	data := make([]byte, remote.MaxKeyset+1)
	n, err := blobs.Get(ctx, Name(name), data, 0)
	if err != nil {
		return nil, err
	}
	file, err := Parse(bytes.Clone(data[:n]))
	if errors.Is(err, ErrDamaged) {
		err = &object.DamageError{Name: Name(name), Err: err, Kind: remote.ErrDamaged}
	}
	return file, err
}
