package keyset

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path/filepath"
	"slices"
	"strings"
	"syscall"

	"github.com/kist-vcs/kist/object/disk"
	"github.com/kist-vcs/kist/remote"
	"github.com/kist-vcs/kist/remote/crypt"
)

// The files of Options.Dir.
const (
	copyFile  = "keyset" // the stored form of the newest keyset that an identity has opened
	knownFile = "known"  // what the clone knows of the keys, which is not secret
	lockFile  = "lock"
)

// maxKnown is the number of keysets whose names a clone remembers.
const maxKnown = 16

// knownKeys is the knowledge of a clone about the keys of a remote. A store could give it a keyset of its own: then
// the fingerprints differ.
type knownKeys struct {
	remote  [16]byte
	keysets []knownKeyset // the newest comes first
	epochs  []crypt.Fingerprint
}

type knownKeyset struct {
	serial uint64
	names  [2][16]byte
}

// newest returns the serial of the newest keyset, 0 if none is known.
func (k *knownKeys) newest() uint64 {
	if len(k.keysets) == 0 {
		return 0
	}
	return k.keysets[0].serial
}

// has reports whether the clone has opened the keyset with these names, or a later one.
func (k *knownKeys) has(names [2][16]byte) bool {
	return slices.ContainsFunc(k.keysets, func(s knownKeyset) bool { return s.names == names })
}

// checkSuccessor returns an error if a keyset is older than the newest known one, or if it has not the same keys.
func (k *knownKeys) checkSuccessor(next *Keyset) error {
	for i, want := range k.epochs {
		got := crypt.Fingerprint{}
		if i < len(next.Epochs) {
			got = next.Epochs[i].Key.Fingerprint(next.Remote)
		} else if next.Serial < k.newest() {
			return fmt.Errorf("%w: serial %d instead of %d", ErrOlder, next.Serial, k.newest())
		}
		if got != want {
			return &KeyChangedError{Epoch: uint32(i + 1), Want: want, Got: got}
		}
	}
	if next.Serial < k.newest() {
		return fmt.Errorf("%w: serial %d instead of %d", ErrOlder, next.Serial, k.newest())
	}
	return nil
}

// with returns the knowledge after a keyset was opened.
func (k *knownKeys) with(opened *Opened) *knownKeys {
	next := &knownKeys{remote: opened.Remote}
	next.keysets = append(next.keysets, knownKeyset{opened.Serial, opened.Names})
	for _, s := range k.keysets {
		if s.names != opened.Names && len(next.keysets) < maxKnown {
			next.keysets = append(next.keysets, s)
		}
	}
	for _, e := range opened.Epochs {
		next.epochs = append(next.epochs, e.Key.Fingerprint(opened.Remote))
	}
	return next
}

const (
	knownFirst   = "kist keys 1\n"
	knownRemote  = "remote %x\n"
	knownKeysets = "keyset %d %x %x\n"
	knownEpochs  = "epoch %d %x\n"
)

func (k *knownKeys) encode() []byte {
	data := fmt.Appendf([]byte(knownFirst), knownRemote, k.remote)
	for _, s := range k.keysets {
		data = fmt.Appendf(data, knownKeysets, s.serial, s.names[0], s.names[1])
	}
	for i, e := range k.epochs {
		data = fmt.Appendf(data, knownEpochs, i+1, [16]byte(e))
	}
	return disk.WithSum(data)
}

// parseKnown decodes the file. Only one text is the encoding of a knowledge.
func parseKnown(file []byte) (*knownKeys, error) {
	data, err := disk.WithoutSum(file)
	if err != nil {
		return nil, err
	}
	k := &knownKeys{}
	for line := range strings.Lines(string(data)) {
		var id, first, second []byte
		var number uint64
		if n, _ := fmt.Sscanf(line, knownRemote, &id); n == 1 && len(id) == 16 {
			k.remote = [16]byte(id)
		}
		if n, _ := fmt.Sscanf(line, knownKeysets, &number, &first, &second); n == 3 && len(first) == 16 && len(second) == 16 {
			k.keysets = append(k.keysets, knownKeyset{number, [2][16]byte{[16]byte(first), [16]byte(second)}})
		}
		if n, _ := fmt.Sscanf(line, knownEpochs, &number, &id); n == 2 && len(id) == 16 {
			k.epochs = append(k.epochs, crypt.Fingerprint(id))
		}
	}
	if !bytes.Equal(k.encode(), file) {
		return nil, errors.New("not in the form that kist writes")
	}
	return k, nil
}

// readKnown returns the knowledge of the clone. It is empty without a folder, before the first use, and if the folder belongs
// to another remote. A damaged file is an error: without it, a store could bring in keys of its own.
func (s *Source) readKnown() (*knownKeys, error) {
	none := &knownKeys{remote: s.o.Remote}
	if s.o.Dir == "" {
		return none, nil
	}
	path := filepath.Join(s.o.Dir, knownFile)
	data, err := disk.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return none, nil
	}
	if err != nil {
		return nil, err
	}
	known, err := parseKnown(data)
	if err != nil {
		return nil, &KnownError{File: path, Err: err}
	}
	if known.remote != s.o.Remote {
		return none, nil
	}
	return known, nil
}

// readCopy returns the clone's own copy of the keyset, nil if there is none that is intact.
func (s *Source) readCopy() *File {
	if s.o.Dir == "" {
		return nil
	}
	file, err := ReadFile(filepath.Join(s.o.Dir, copyFile))
	if err != nil || file.Remote != s.o.Remote {
		return nil
	}
	return file
}

// KnownFile is the name of the file in which a clone remembers the keys of a remote.
const KnownFile = knownFile

// CheckFile returns the damage of a file with a name in the folder of a clone. The error is nil for a file
// that is not read. It needs no identity.
func CheckFile(name string, data []byte) error {
	var err error
	switch name {
	case knownFile:
		_, err = parseKnown(data)
	case copyFile:
		_, err = Parse(data)
	}
	return err
}

// ReadFile reads a keyset file on this machine: an export, or the copy of a clone. The errors are those of [Parse] and of
// the file.
func ReadFile(path string) (*File, error) {
	f, err := disk.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	data, err := io.ReadAll(io.LimitReader(f, remote.MaxKeyset+1))
	if err != nil {
		return nil, err
	}
	return Parse(data)
}

// keep makes the clone remember a keyset. If another process knows a later one by now, it changes nothing. In a folder that
// nobody may write, it does nothing.
func (s *Source) keep(ctx context.Context, known *knownKeys, opened *Opened) error {
	if err := known.checkSuccessor(opened.Keyset); err != nil || s.o.Dir == "" {
		return err
	}
	err := s.write(ctx, opened)
	if errors.Is(err, fs.ErrPermission) || errors.Is(err, syscall.EROFS) {
		return nil
	}
	return err
}

func (s *Source) write(ctx context.Context, opened *Opened) error {
	if err := disk.MakeDir(s.o.Dir); err != nil {
		return err
	}
	lock, err := disk.Lock(ctx, filepath.Join(s.o.Dir, lockFile), disk.Exclusive, disk.DefaultWait)
	if err != nil {
		return err
	}
	defer lock.Unlock()

	known, err := s.readKnown()
	if err != nil {
		return err
	}
	switch err := known.checkSuccessor(opened.Keyset); {
	case errors.Is(err, ErrOlder):
		return nil
	case err != nil:
		return err
	}
	// The copy comes first: the other file would promise it.
	if err := s.replace(copyFile, opened.File.data); err != nil {
		return err
	}
	return s.replace(knownFile, known.with(opened).encode())
}

// replace replaces a file that only the user can read. In a repository that a group shares, the group can.
func (s *Source) replace(name string, data []byte) error {
	temp, err := disk.CreateTemp(s.o.Dir, name+".tmp-")
	if err != nil {
		return err
	}
	_, err = temp.Write(data)
	if err = errors.Join(err, temp.Sync(), temp.Close()); err == nil {
		err = disk.Rename(temp.Name(), filepath.Join(s.o.Dir, name))
	}
	if err != nil {
		return errors.Join(err, disk.Remove(temp.Name()))
	}
	return disk.SyncDir(s.o.Dir)
}
