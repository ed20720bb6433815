package keyset

import (
	"fmt"
	"iter"
	"slices"
	"time"

	"github.com/kist-vcs/kist/remote/crypt"
)

// Add returns a keyset that recipients can open, too.
func (k *Keyset) Add(recipients ...Recipient) (*Keyset, error) {
	next := k.next()
	next.Recipients = append(next.Recipients, recipients...)
	return next.checked()
}

// Remove returns a keyset without a recipient, and with a new epoch: the recipient still has the
// earlier keys. Root is the number of the root that will name the keyset.
func (k *Keyset) Remove(name string, root uint64, at time.Time) (*Keyset, error) {
	i := k.find(name)
	if i < 0 {
		return nil, fmt.Errorf("%w: %q", ErrNoRecipient, name)
	}
	next, err := k.Rotate(root)
	if err != nil {
		return nil, err
	}
	next.Recipients = slices.Delete(next.Recipients, i, i+1)
	next.Removed = append(next.Removed, Removed{Name: name, At: at, Epoch: uint32(len(k.Epochs))})
	next.Removed = slices.Delete(next.Removed, 0, max(0, len(next.Removed)-maxRemoved))
	return next.checked()
}

// Rotate returns a keyset with a new epoch and the same recipients. Root is the number of the root that will
// name the keyset.
func (k *Keyset) Rotate(root uint64) (*Keyset, error) {
	next := k.next()
	next.Epochs = append(next.Epochs, Epoch{Key: crypt.NewKey(), Root: root})
	return next.checked()
}

// Renew returns a keyset with the same keys and recipients.
func (k *Keyset) Renew() (*Keyset, error) { return k.next().checked() }

// checked returns the keyset, or an error if it breaks a rule of the format.
func (k *Keyset) checked() (*Keyset, error) {
	if err := k.check(); err != nil {
		return nil, err
	}
	return k, nil
}

// next returns a copy with the next serial.
func (k *Keyset) next() *Keyset {
	next := *k
	next.Serial++
	next.Epochs = slices.Clone(k.Epochs)
	next.Recipients = slices.Clone(k.Recipients)
	next.Removed = slices.Clone(k.Removed)
	return &next
}

// Use says what depends on the key of an epoch.
type Use struct {
	Epoch   uint32
	Root    uint64   // number of the root that began it
	Files   int      // encrypted with the key
	Bytes   int64    // of these files
	Removed []string // former recipients who can read them
}

// Uses returns a Use for each epoch. Files yields the epoch and the size of each file in bytes. The error
// matches [ErrDamaged] if the keyset does not have the epoch of a file.
func (k *Keyset) Uses(files iter.Seq2[uint32, int64]) ([]Use, error) {
	uses := make([]Use, len(k.Epochs))
	for i, e := range k.Epochs {
		uses[i] = Use{Epoch: uint32(i + 1), Root: e.Root}
		for _, r := range k.Removed {
			if r.Epoch >= uses[i].Epoch {
				uses[i].Removed = append(uses[i].Removed, r.Name)
			}
		}
	}
	for epoch, size := range files {
		if epoch == 0 || int64(epoch) > int64(len(uses)) {
			return nil, malformed("without the key of epoch %d", epoch)
		}
		uses[epoch-1].Files++
		uses[epoch-1].Bytes += size
	}
	return uses, nil
}
