package keyset

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"
	"unicode"

	"filippo.io/age"

	"github.com/kist-vcs/kist/object/disk"
)

// Identity is a secret key that kist makes: it opens the keysets that have its recipient. No way of printing or
// encoding an Identity shows it, except [Identity.Secret].
type Identity struct {
	// A function, as in crypt.Key: package fmt does not look into functions.
	native func() *age.HybridIdentity
}

func newIdentity(native *age.HybridIdentity) Identity {
	return Identity{func() *age.HybridIdentity { return native }}
}

// NewIdentity returns a random identity of the kind [Hybrid].
func NewIdentity() (Identity, error) {
	forbidCoreDumps()
	native, err := age.GenerateHybridIdentity()
	if err != nil {
		return Identity{}, err
	}
	return newIdentity(native), nil
}

// Recipient returns the public key.
func (i Identity) Recipient() string { return i.native().Recipient().String() }

// Secret returns the identity as a line of 77 characters, without an end of line: AGE-SECRET-KEY-PQ-1…
func (i Identity) Secret() string { return i.native().String() }

const hidden = "[secret]"

// String returns "[secret]".
func (i Identity) String() string { return hidden }

// GoString returns "[secret]".
func (i Identity) GoString() string { return hidden }

// Format implements [fmt.Formatter]: every verb prints "[secret]".
func (i Identity) Format(f fmt.State, _ rune) { _, _ = f.Write([]byte(hidden)) }

// MarshalText implements [encoding.TextMarshaler]. It returns "[secret]".
func (i Identity) MarshalText() ([]byte, error) { return []byte(hidden), nil }

// File returns the content of a file with the identity, as age-keygen writes it.
func (i Identity) File(made time.Time) []byte {
	return fmt.Appendf(nil, "# created: %s\n# public key: %s\n%s\n", made.UTC().Format(time.RFC3339), i.Recipient(), i.Secret())
}

// lockWork is the cost of new passphrases: scrypt with N = 2^18 takes 256 MiB, and half a second.
const lockWork = 18

// Lock returns the identity as an armored age file that a passphrase opens: the field Locked of a [Recipient].
func (i Identity) Lock(passphrase []byte) ([]byte, error) { return i.lock(passphrase, lockWork) }

func (i Identity) lock(passphrase []byte, work int) ([]byte, error) {
	recipient, err := age.NewScryptRecipient(string(passphrase))
	if err != nil {
		return nil, err
	}
	recipient.SetWorkFactor(work)

	var data bytes.Buffer
	w, err := age.Encrypt(&data, recipient)
	if err != nil {
		return nil, err
	}
	_, err = io.WriteString(w, i.Secret()+"\n")
	if err := errors.Join(err, w.Close()); err != nil {
		return nil, err
	}
	return toArmor(data.Bytes()), nil
}

// PassphraseRecipient returns a recipient that a passphrase opens. Others can renew the keyset without
// the passphrase. Its cost is that of [Identity.Lock].
func PassphraseRecipient(name string, passphrase []byte, added time.Time) (Recipient, error) {
	i, err := NewIdentity()
	if err != nil {
		return Recipient{}, err
	}
	locked, err := i.Lock(passphrase)
	return Recipient{Name: name, Key: i.Recipient(), Added: added, Locked: locked}, err
}

const (
	hybridPrefix = "AGE-SECRET-KEY-PQ-1"
	groupSize    = 4 // characters that a person copies at once
)

// Paper returns the identity for a sheet of paper: its 77 characters, in groups that spaces separate.
func (i Identity) Paper() string {
	var b strings.Builder
	b.WriteString(hybridPrefix)
	for n, c := range strings.TrimPrefix(i.Secret(), hybridPrefix) {
		if n%groupSize == 0 {
			b.WriteByte(' ')
		}
		b.WriteRune(c)
	}
	return b.String()
}

// ParsePaper reads an identity that a person typed from paper. Spaces, ends of lines and the case do not matter. The
// characters have a checksum, so a slip of up to four characters is always noticed. The error matches [ErrIdentity], and
// shows nothing of the text.
func ParsePaper(text string) (Identity, error) {
	forbidCoreDumps()
	text = strings.ToUpper(strings.Map(func(r rune) rune {
		if unicode.IsSpace(r) {
			return -1
		}
		return r
	}, text))
	native, err := age.ParseHybridIdentity(text)
	if err != nil {
		return Identity{}, ErrIdentity
	}
	return newIdentity(native), nil
}

// Create writes a file that only its owner can read, and makes missing folders that only their owner can
// enter. The error matches [fs.ErrExist] if there is a file: an identity is never overwritten.
func Create(path string, data []byte) error {
	dir := filepath.Dir(path)
	if err := disk.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	temp, err := disk.CreateTemp(dir, ".identity-") // its mode is 0600
	if err != nil {
		return err
	}
	_, err = temp.Write(data)
	err = errors.Join(err, temp.Sync(), temp.Close())
	if err == nil {
		err = os.Link(temp.Name(), path)
	}
	if errors.Is(err, fs.ErrExist) { // the error of Link names the temporary file
		err = &fs.PathError{Op: "create", Path: path, Err: fs.ErrExist}
	}
	if err := errors.Join(err, disk.Remove(temp.Name())); err != nil {
		return err
	}
	return disk.SyncDir(dir)
}
