package keyset

import (
	"context"
	"errors"
	"io/fs"
	"slices"
)

// Own has the user's own identities, as [Identities.Own] finds them.
type Own struct {
	Recipients []string // their public keys
	Plugins    []string // names of the plugins of those whose public key only the plugin knows
}

// Own reads the user's files of identities, except those of ssh. It asks for the passphrase of a locked file. A user without
// identities has an empty Own.
func (s *Identities) Own(ctx context.Context) (own Own, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	forbidCoreDumps()
	list, err := s.ownFiles()
	for i := 0; i < len(list) && err == nil; i++ {
		switch c := list[i].(type) {
		case *lockedFile:
			err = c.once.do(func() error { return c.unlock(ctx) })
			list = append(list, c.unlocked...)
		case *pluginIdentity:
			own.Plugins = append(own.Plugins, c.plugin.Name())
		default:
			own.Recipients = append(own.Recipients, c.key())
		}
	}
	if fatal := new(*fatalError); errors.As(err, fatal) {
		err = (*fatal).err
	}
	own.Recipients = sortedSet(own.Recipients)
	own.Plugins = sortedSet(own.Plugins)
	return own, err
}

// Plugins returns the plugins that may run when a keyset is sealed: those of the user's own identities. It asks nothing, so
// it leaves out those in locked files that no search has unlocked. A caller adds those of recipients
// that the user has just named.
func (s *Identities) Plugins() (Plugins, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	list, err := s.ownFiles()
	var names []string
	for i := 0; i < len(list); i++ {
		switch c := list[i].(type) {
		case *lockedFile:
			list = append(list, c.unlocked...)
		case *pluginIdentity:
			names = append(names, c.plugin.Name())
		}
	}
	return Plugins{Allowed: sortedSet(names), Dialog: s.places.Passphrase.Dialog}, err
}

// ownFiles returns the identities in the files that the user has for kist.
func (s *Identities) ownFiles() (list []candidate, err error) {
	for _, path := range slices.Concat(s.places.Named, s.places.Configured) {
		found, err := s.fromFile(path)
		if err != nil {
			return nil, err
		}
		list = append(list, found...)
	}
	if s.places.Own == "" {
		return list, nil
	}
	found, err := s.fromFile(s.places.Own)
	if errors.Is(err, fs.ErrNotExist) {
		return list, nil
	}
	return append(list, found...), err
}

func sortedSet(list []string) []string {
	slices.Sort(list)
	return slices.Compact(list)
}
