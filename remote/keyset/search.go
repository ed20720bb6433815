package keyset

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"slices"
	"sync"

	"filippo.io/age"
)

// Identities finds an identity that opens a keyset. It reads files and asks for a passphrase only when no
// earlier place has a fitting identity, and each of them once. It is safe for concurrent use.
type Identities struct {
	places Places

	mu     sync.Mutex
	opened []candidate            // silent ones that have opened a keyset
	read   map[string][]candidate // by file
	locked map[string]candidate   // locked identities of keysets, by their bytes
	secret func() ([]byte, error) // the passphrase, once asked
}

// NewIdentities returns a search in the places. It reads nothing before it is used.
func NewIdentities(places Places) *Identities {
	return &Identities{places: places, read: map[string][]candidate{}, locked: map[string]candidate{}}
}

// fatalError ends a search.
type fatalError struct{ err error }

func (e *fatalError) Error() string { return e.err.Error() }

func (e *fatalError) Unwrap() error { return e.err }

// Open opens a keyset with the first identity that fits. The error matches ErrDamaged if the content of the file is not
// that of its first lines, and ErrOtherRemote if it is of another remote. It is a [*NoIdentityError], or
// matches ErrPassphrase, if nothing opens it.
func (s *Identities) Open(ctx context.Context, f *File) (*Keyset, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	forbidCoreDumps()

	o := &opening{file: f, search: s}
	for _, find := range s.finders() {
		list, err := find(f)
		if err != nil {
			return nil, err
		}
		for _, c := range list {
			if k, err := o.try(ctx, c); k != nil || err != nil {
				return k, err
			}
		}
	}
	return nil, o.failure()
}

// finders returns functions that return identities, in the order of the search.
func (s *Identities) finders() []func(*File) ([]candidate, error) {
	list := []func(*File) ([]candidate, error){
		func(*File) ([]candidate, error) { return s.opened, nil },
	}
	for _, path := range slices.Concat(s.places.Named, s.places.Configured) {
		list = append(list, func(*File) ([]candidate, error) { return s.fromFile(path) })
	}
	if path := s.places.Own; path != "" {
		list = append(list, func(*File) ([]candidate, error) {
			found, err := s.fromFile(path)
			if errors.Is(err, fs.ErrNotExist) {
				return nil, nil
			}
			return found, err
		})
	}
	for _, path := range s.places.SSH {
		list = append(list, func(*File) ([]candidate, error) { return s.fromSSH(path), nil })
	}
	return append(list, s.fromKeyset)
}

// fromFile returns the identities of a file.
func (s *Identities) fromFile(path string) ([]candidate, error) {
	if list, ok := s.read[path]; ok {
		return list, nil
	}
	list, err := s.readIdentityFile(path)
	if err == nil {
		s.read[path] = list
	}
	return list, err
}

// fromSSH returns the key of a file that the user has not named for kist: it is skipped unless it can be used. That others
// can read it matters only if the key is that of a recipient.
func (s *Identities) fromSSH(path string) []candidate {
	if list, ok := s.read[path]; ok {
		return list
	}
	var list []candidate
	data, mode, err := readSecretFile(path)
	if err == nil {
		if k, err := s.parseSSH(path, data); err == nil {
			k.bad = checkMode(path, mode)
			list = []candidate{k}
		} else {
			clear(data)
		}
	}
	s.read[path] = list
	return list
}

// fromKeyset returns the locked identities of the keyset. Both copies of a keyset have the same ones, and unlocking costs up
// to 1 GiB of memory, so each is unlocked once.
func (s *Identities) fromKeyset(f *File) (list []candidate, err error) {
	for _, armored := range f.locked {
		data, err := dearmor(armored)
		if err != nil {
			return nil, malformed("a locked identity: %v", err)
		}
		if s.locked[string(data)] == nil {
			s.locked[string(data)] = &lockedIdentity{data: data, search: s}
		}
		list = append(list, s.locked[string(data)])
	}
	return list, nil
}

// lockedIdentity is a locked identity of a keyset.
type lockedIdentity struct {
	data   []byte
	search *Identities
	once   once
	opened *silent
}

func (l *lockedIdentity) unwrap(ctx context.Context, e *envelope) ([]byte, error) {
	if err := l.once.do(func() error { return l.unlock(ctx) }); err != nil {
		return nil, err
	}
	return l.opened.unwrap(ctx, e)
}

// once makes an attempt once, and remembers its error. The attempt unlocks something: the passphrase
// does not change, and a second attempt would cost as much.
type once struct {
	done bool
	err  error
}

func (o *once) do(attempt func() error) error {
	if !o.done {
		o.err = attempt()
		o.done = true
	}
	return o.err
}

// unlock accepts only identities that kist makes: others could run a plugin that somebody else chose.
func (l *lockedIdentity) unlock(ctx context.Context) error {
	text, err := l.search.openLocked(ctx, l.data, "")
	if err != nil {
		return err
	}
	defer clear(text)
	native, err := age.ParseHybridIdentity(string(bytes.TrimSuffix(text, []byte("\n"))))
	if err != nil {
		return malformed("a locked identity of an unknown kind")
	}
	l.opened = silentOf(native)
	return nil
}

func (l *lockedIdentity) key() string { return l.opened.key() }

// passphrase returns the passphrase, after asking for it at most once.
func (s *Identities) passphrase(ctx context.Context, of string) ([]byte, error) {
	if s.secret == nil {
		secret, err := s.places.Passphrase.Read(ctx, of)
		if err != nil && !errors.Is(err, errNoPassphrase) {
			err = &fatalError{err}
		}
		s.secret = func() ([]byte, error) { return secret, err }
	}
	return s.secret()
}

// openLocked returns the content of an age file that a passphrase locks. The caller clears it.
func (s *Identities) openLocked(ctx context.Context, data []byte, of string) ([]byte, error) {
	wrong := func(err error) error {
		if of == "" {
			return err
		}
		return &IdentityFileError{File: of, Err: err}
	}
	stanzas, err := stanzasOf(data)
	if err == nil {
		err = checkScrypt(stanzas)
	}
	if err != nil {
		return nil, wrong(err)
	}

	passphrase, err := s.passphrase(ctx, of)
	if err != nil {
		return nil, err
	}
	identity, err := age.NewScryptIdentity(string(passphrase))
	if err != nil {
		return nil, ErrPassphrase // it is empty
	}
	identity.SetMaxWorkFactor(maxWork)
	text, err := decrypt(data, identity)
	if noMatch := new(*age.NoIdentityMatchError); errors.As(err, noMatch) {
		return nil, ErrPassphrase
	}
	if err != nil {
		return nil, wrong(malformed("%v", err))
	}
	return text, nil
}

// decrypt returns the content of an age file.
func decrypt(data []byte, identity age.Identity) ([]byte, error) {
	r, err := age.Decrypt(bytes.NewReader(data), identity)
	if err != nil {
		return nil, err
	}
	text := make([]byte, 0, len(data)) // so that no smaller buffer is left behind
	for {
		n, err := r.Read(text[len(text):cap(text)])
		text = text[:len(text)+n]
		if errors.Is(err, io.EOF) {
			return text, nil
		}
		if err == nil && len(text) == cap(text) {
			err = errors.New("longer than its file")
		}
		if err != nil {
			clear(text)
			return nil, err
		}
	}
}

// opening is an attempt to open a keyset.
type opening struct {
	file   *File
	search *Identities

	tried   []candidate
	unasked int
	wrong   bool // a passphrase was wrong
	failed  []error
}

// try opens the keyset with a candidate. It returns neither a keyset nor an error if the candidate does not fit.
func (o *opening) try(ctx context.Context, c candidate) (*Keyset, error) {
	if slices.Contains(o.tried, c) {
		return nil, nil
	}
	o.tried = append(o.tried, c)
	unasked, wrong := false, false
	for i := range o.file.envelopes {
		e := &o.file.envelopes[i]
		fileKey, err := c.unwrap(ctx, e)
		fatal := new(*fatalError)
		switch {
		case err == nil:
			defer clear(fileKey)
			return o.finish(ctx, c, e, fileKey)
		case errors.As(err, fatal):
			return nil, (*fatal).err
		case ctx.Err() != nil:
			return nil, ctx.Err()
		case errors.Is(err, errNoPassphrase):
			unasked = true
		case errors.Is(err, ErrPassphrase):
			wrong = true
		case !errors.Is(err, age.ErrIncorrectIdentity):
			o.failed = append(o.failed, err)
		}
	}
	if unasked {
		o.unasked++
	}
	o.wrong = o.wrong || wrong
	return nil, nil
}

// failure returns the error for a keyset that no candidate opens.
func (o *opening) failure() error {
	none := &NoIdentityError{Tried: len(o.tried) - o.unasked, Unasked: o.unasked, Failed: o.failed}
	if o.wrong {
		return fmt.Errorf("%w: %w", ErrPassphrase, none)
	}
	return none
}

// finish reads the content of an envelope. It compares it with the first lines of the file, and with the other envelope if a
// silent identity opens that.
func (o *opening) finish(ctx context.Context, c candidate, e *envelope, fileKey []byte) (*Keyset, error) {
	line, err := decrypt(e.data, age.NewInjectedFileKeyIdentity(fileKey))
	if err != nil {
		return nil, malformed("envelope %s: %v", e.kind, err)
	}
	defer clear(line)
	k, err := decode(line, o.file.locked)
	if err != nil {
		return nil, err
	}
	if k.Remote != o.file.Remote || k.Serial != o.file.Serial {
		return nil, malformed("its content is that of remote %x, serial %d", k.Remote, k.Serial)
	}
	if err := o.compareOthers(ctx, e, line); err != nil {
		return nil, err
	}
	k.opener = c.key()
	o.search.keepOpened(c)
	return k, nil
}

// compareOthers returns an error if another envelope has another content.
func (o *opening) compareOthers(ctx context.Context, opened *envelope, line []byte) error {
	for i := range o.file.envelopes {
		e := &o.file.envelopes[i]
		if e == opened {
			continue
		}
		for _, c := range o.search.silent() {
			fileKey, err := c.unwrap(ctx, e)
			if err != nil {
				continue
			}
			other, err := decrypt(e.data, age.NewInjectedFileKeyIdentity(fileKey))
			same := bytes.Equal(other, line)
			clear(fileKey)
			clear(other)
			if err != nil || !same {
				return malformed("its envelopes have different contents")
			}
		}
	}
	return nil
}

// silent returns the identities read so far that ask nothing and run no program.
func (s *Identities) silent() (list []candidate) {
	all := slices.Clone(s.opened)
	for _, read := range s.read {
		all = append(all, read...)
	}
	for _, c := range all {
		switch c := c.(type) {
		case *silent:
			list = append(list, c)
		case *sshKey:
			if c.private != nil && c.bad == nil {
				list = append(list, c.private)
			}
		case *lockedFile:
			for _, inside := range c.unlocked {
				if inside, ok := inside.(*silent); ok {
					list = append(list, inside)
				}
			}
		}
	}
	return list
}

// keepOpened makes the next searches begin with an identity that opened a keyset. A locked one is kept
// unlocked: it costs a second to unlock.
func (s *Identities) keepOpened(c candidate) {
	switch locked := c.(type) {
	case *lockedIdentity:
		c = locked.opened
	case *lockedFile:
		c = locked.opened
	}
	if _, runs := c.(*pluginIdentity); !runs && !slices.Contains(s.opened, c) {
		s.opened = slices.Insert(s.opened, 0, c)
	}
}
