// Package keyset keeps the keys of an encrypted remote: its epoch keys, and the recipients who can
// read them. A [File] is a keyset in its stored form. A [Keyset] is one that an identity opened.
// [Identities] finds an identity, and a [Source] reads the keyset of a remote.
//
// The package is the door to age. docs/format/keysets.md describes the format.
package keyset

import (
	"encoding/hex"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/kist-vcs/kist/chunker"
	"github.com/kist-vcs/kist/remote/crypt"
)

// The limits of a keyset.
const (
	MaxRecipients = 200
	MaxLocked     = 8    // recipients with a passphrase: each costs a second to try
	maxEpochs     = 4096 // a rotation each month for 300 years
	maxRemoved    = 1000 // after that, the oldest are forgotten
	maxNameSize   = 100  // bytes of a recipient's name
	maxNumber     = 1<<53 - 1
)

// Keyset has the keys of an encrypted remote. Its methods return changed copies, and never change it.
type Keyset struct {
	Remote     [16]byte // ID of the remote
	Serial     uint64   // number of the change that made this keyset, from 1
	Repository [16]byte // ID of the repository
	Chunker    chunker.Params
	Epochs     []Epoch // epoch 1 comes first
	Recipients []Recipient
	Removed    []Removed // the oldest first

	opener string // the recipient whose identity opened the keyset, if that is known
}

// Epoch is a time in which all blobs are encrypted with one key.
type Epoch struct {
	Key  crypt.Key
	Root uint64 // number of the root that began the epoch; the first begins with kist.json, 0
}

// Recipient can open the keyset, and so read the remote.
type Recipient struct {
	Name  string // unique in a keyset
	Key   string // the public key, in the canonical form of [ParseRecipient]
	Added time.Time

	// Locked is the identity of the recipient, as an armored age file that a passphrase opens. It is
	// empty unless the recipient is a passphrase.
	Locked []byte
}

// Removed is a former recipient.
type Removed struct {
	Name  string
	At    time.Time
	Epoch uint32 // the last epoch that it can read
}

// New returns the first keyset of a remote, with a new key.
func New(remote, repository [16]byte, chunks chunker.Params, recipients ...Recipient) (*Keyset, error) {
	k := &Keyset{
		Remote: remote, Serial: 1, Repository: repository, Chunker: chunks,
		Epochs:     []Epoch{{Key: crypt.NewKey()}},
		Recipients: slices.Clone(recipients),
	}
	return k.checked()
}

// Keys returns the keys in the form that encrypts and decrypts blobs.
func (k *Keyset) Keys() *crypt.Keys {
	keys := &crypt.Keys{Remote: k.Remote}
	for _, e := range k.Epochs {
		keys.Epochs = append(keys.Epochs, e.Key)
	}
	return keys
}

// Opener returns the recipient whose identity opened the keyset. There is none in a keyset of
// [New], and none that is known if a plugin opened it.
func (k *Keyset) Opener() (r Recipient, ok bool) {
	i := slices.IndexFunc(k.Recipients, func(r Recipient) bool { return r.Key == k.opener })
	if i < 0 {
		return Recipient{}, false
	}
	return k.Recipients[i], true
}

// find returns the index of a recipient, or -1.
func (k *Keyset) find(name string) int {
	return slices.IndexFunc(k.Recipients, func(r Recipient) bool { return r.Name == name })
}

// check returns an error if a keyset breaks a rule of the format.
func (k *Keyset) check() error {
	switch {
	case k.Serial == 0 || k.Serial > maxNumber:
		return malformed("serial %d", k.Serial)
	case len(k.Epochs) == 0:
		return malformed("no epoch")
	case len(k.Epochs) > maxEpochs:
		return fmt.Errorf("%w: %d epochs, at most %d", ErrTooLarge, len(k.Epochs), maxEpochs)
	case len(k.Recipients) == 0:
		return ErrLastRecipient
	case len(k.Recipients) > MaxRecipients:
		return fmt.Errorf("%w: %d recipients, at most %d", ErrTooLarge, len(k.Recipients), MaxRecipients)
	case len(k.Removed) > maxRemoved:
		return malformed("%d removed recipients", len(k.Removed))
	}
	if err := k.Chunker.Validate(); err != nil {
		return malformed("%v", err)
	}
	return errors.Join(k.checkEpochs(), k.checkRecipients(), k.checkRemoved())
}

func (k *Keyset) checkEpochs() error {
	last := uint64(0)
	for i, e := range k.Epochs {
		if e.Key.IsZero() {
			return malformed("epoch %d without a key", i+1)
		}
		if (i == 0) != (e.Root == 0) || i > 0 && e.Root <= last || e.Root > maxNumber {
			return malformed("epoch %d begins with root %d", i+1, e.Root)
		}
		last = e.Root
	}
	return nil
}

func (k *Keyset) checkRecipients() error {
	names, keys, locked := map[string]bool{}, map[string]string{}, 0
	for _, r := range k.Recipients {
		if err := CheckName(r.Name); err != nil {
			return err
		}
		key, err := ParseRecipient(r.Key)
		if err != nil {
			return err
		}
		if key != r.Key {
			return malformed("the recipient %q is not in its canonical form", r.Name)
		}
		if names[r.Name] {
			return fmt.Errorf("%w: %q", ErrNameTaken, r.Name)
		}
		if other, taken := keys[r.Key]; taken {
			return fmt.Errorf("%w: %q", ErrRecipientTaken, other)
		}
		names[r.Name], keys[r.Key] = true, r.Name

		if len(r.Locked) > 0 {
			locked++
			if err := checkLocked(r.Locked); err != nil {
				return err
			}
		}
	}
	if locked > MaxLocked {
		return fmt.Errorf("%w: %d passphrases, at most %d", ErrTooLarge, locked, MaxLocked)
	}
	return nil
}

func (k *Keyset) checkRemoved() error {
	for _, r := range k.Removed {
		if err := CheckName(r.Name); err != nil {
			return err
		}
		if r.Epoch == 0 || int64(r.Epoch) >= int64(len(k.Epochs)) {
			return malformed("%q was removed in epoch %d", r.Name, r.Epoch)
		}
	}
	return nil
}

// CheckName returns an error that matches ErrName if no recipient can have the name. A name is
// printable, has at most 100 bytes, and neither begins nor ends with a space.
func CheckName(name string) error {
	printable := utf8.ValidString(name) && !strings.ContainsFunc(name, func(r rune) bool { return !unicode.IsPrint(r) })
	if name == "" || len(name) > maxNameSize || !printable || strings.TrimSpace(name) != name {
		return fmt.Errorf("%w: %q", ErrName, name[:min(len(name), maxNameSize)])
	}
	return nil
}

// folder is the folder of keysets on a remote.
const folder = "keys/"

// Name returns the name of a copy of a keyset on a remote: keys/ and 32 hexadecimal digits.
func Name(copy [16]byte) string { return folder + hex.EncodeToString(copy[:]) }
