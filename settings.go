package kist

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strings"

	"github.com/kist-vcs/kist/refs"
	"github.com/kist-vcs/kist/remote"
)

// settings are the keys and values of one configuration, as TOML has them: a section is a
// map in the map.
type settings map[string]any

// find returns the value of a key. It reports whether the key is set.
func (s settings) find(parts []string) (any, bool) {
	var at any = map[string]any(s)
	for _, part := range parts {
		m, ok := at.(map[string]any)
		if !ok {
			return nil, false
		}
		if at, ok = m[part]; !ok {
			return nil, false
		}
	}
	_, isTable := at.(map[string]any)
	return at, !isTable
}

// each calls f for each key that is set, with its parts and its value.
func (s settings) each(f func(parts []string, value any)) {
	var visit func(parts []string, m map[string]any)
	visit = func(parts []string, m map[string]any) {
		for _, k := range slices.Sorted(maps.Keys(m)) {
			at := append(slices.Clone(parts), k)
			if sub, ok := m[k].(map[string]any); ok {
				visit(at, sub)
				continue
			}
			f(at, m[k])
		}
	}
	visit(nil, s)
}

// check returns an error that matches [ErrSetting] if a key that counts in the scope has an
// invalid value. data is the file.
func (s settings) check(data []byte, scope Scope, bare bool) error {
	var bad []*SettingError
	s.each(func(parts []string, value any) {
		k, known := findKey(parts)
		if !known || k.fixed || !k.counts(scope) {
			return
		}
		if err := k.checkAll(value, bare); err != nil && !errors.Is(err, ErrSecret) {
			bad = append(bad, &SettingError{Key: strings.Join(parts, "."), Line: lineOf(data, parts), Err: err})
		}
	})
	if len(bad) == 0 {
		return nil
	}
	return slices.MinFunc(bad, func(a, b *SettingError) int { return cmp.Or(a.Line-b.Line, strings.Compare(a.Key, b.Key)) })
}

// set changes a dotted key; a nil value removes it. It sets only keys that count in the
// scope, and removes any key.
func (s settings) set(key string, value any, scope Scope, bare bool) error {
	parts := splitKey(key)
	_, isSet := s.find(parts)
	if k, known := findKey(parts); value != nil || known && k.fixed || !isSet {
		if err := checkSetting(parts, value, scope, bare); err != nil {
			return err
		}
	}
	return s.setAt(value, parts...)
}

// add adds a value to the list of a dotted key.
func (s settings) add(key, text string, scope Scope, bare bool) error {
	parts := splitKey(key)
	if k, known := findKey(parts); known && !k.List {
		return &SettingError{Key: key, Err: errors.New("has one value, not a list")}
	}
	at, _ := s.find(parts)
	values := texts(at)
	if slices.Contains(values, text) {
		return nil
	}
	return s.set(key, append(values, text), scope, bare)
}

// setAt is set for a key in parts, which may have dots. It checks nothing. A nil value also
// removes a section.
func (s settings) setAt(value any, parts ...string) error {
	key := strings.Join(parts, ".")
	m := map[string]any(s)
	for _, part := range parts[:len(parts)-1] {
		sub, ok := m[part].(map[string]any)
		if !ok {
			if _, taken := m[part]; taken {
				return fmt.Errorf("config key %q: %q has a value of its own", key, part)
			}
			sub = map[string]any{}
			m[part] = sub
		}
		m = sub
	}
	last := parts[len(parts)-1]
	if _, isTable := m[last].(map[string]any); isTable && value != nil {
		return fmt.Errorf("config key %q is a section", key)
	}
	if value == nil {
		delete(m, last)
	} else {
		m[last] = value
	}
	return nil
}

// counts reports whether a key counts in a configuration of the scope.
func (k ConfigKey) counts(scope Scope) bool {
	if k.fixed {
		return scope == RepositoryOnly
	}
	return k.Scope == Everywhere || k.Scope == scope
}

// checkSetting returns an error that matches [ErrSetting] if a key is unknown, fixed, or
// does not count in the scope, or if value is invalid.
func checkSetting(parts []string, value any, scope Scope, bare bool) error {
	key := strings.Join(parts, ".")
	k, known := findKey(parts)
	fail := func(text string) error { return &SettingError{Key: key, Err: errors.New(text)} }
	switch {
	case !known:
		return &SettingError{Key: remote.Redact(key), Near: nearestKey(parts), Err: errors.New("there is no such key")}
	case k.fixed:
		return fail("is fixed when the repository is made")
	case !k.counts(scope) && scope == UserOnly:
		return fail("is a setting of one repository")
	case !k.counts(scope):
		return fail("counts only in your own configuration: use --global")
	case parts[0] == "alias" && scope == RepositoryOnly && strings.HasPrefix(fmt.Sprint(value), "!"):
		return fail("a command of the shell counts only in your own configuration: use --global")
	}
	err := k.checkAll(value, bare)
	if err == nil {
		switch parts[0] {
		case "alias":
			err = CheckAliasName(parts[1])
		case "remote":
			err = CheckRemoteName(parts[1])
		case "branch":
			err = refs.CheckShort(parts[1])
		}
	}
	if err != nil {
		return &SettingError{Key: key, Err: err}
	}
	return nil
}

// checkAll checks a value, or each value of a list. bare means that the value is for a bare
// repository.
func (k ConfigKey) checkAll(value any, bare bool) error {
	if !k.List {
		return k.check(value)
	}
	for _, v := range listed(value) {
		if err := k.check(v); err != nil {
			return err
		}
		if k.Name == KeyBackupPaths && bare && !filepath.IsAbs(fmt.Sprint(v)) {
			return fmt.Errorf("%q is not an absolute path, which a bare repository needs", v)
		}
	}
	return nil
}

// texts returns the values of a list as texts. It returns nil for nil.
func texts(value any) (values []string) {
	if value == nil {
		return nil
	}
	for _, v := range listed(value) {
		values = append(values, fmt.Sprint(v))
	}
	return values
}

// SettingSource is the place that a setting is from.
type SettingSource int

// The sources. A later one overrides an earlier one.
const (
	FromUser SettingSource = iota
	FromRepository
	FromCommandLine
)

// Setting is a key with its values in one source.
type Setting struct {
	Key    string
	Values []string
	Source SettingSource

	Ignored bool // the key does not count in this source
}

// Settings returns the settings of a user and of a repository, by source, and then by key.
// A source may be nil.
func Settings(user *UserConfig, repo *Config) (list []Setting) {
	for _, l := range layers(user, repo) {
		l.settings.each(func(parts []string, value any) {
			k, known := findKey(parts)
			list = append(list, Setting{strings.Join(parts, "."), texts(value), l.source, known && !k.counts(l.scope())})
		})
	}
	return list
}

// layer is the settings of one source.
type layer struct {
	settings settings
	source   SettingSource
}

func (l layer) scope() Scope {
	if l.source == FromRepository {
		return RepositoryOnly
	}
	return UserOnly
}

// layers returns the sources of settings, the strongest one last.
func layers(user *UserConfig, repo *Config) (list []layer) {
	if user != nil {
		list = append(list, layer{user.values, FromUser})
	}
	if repo != nil {
		list = append(list, layer{repo.values, FromRepository})
	}
	if user != nil {
		list = append(list, layer{user.line, FromCommandLine})
	}
	return list
}

// lookup returns the values of a dotted key in the strongest source that has it.
func lookup(user *UserConfig, repo *Config, key string) ([]string, SettingSource) {
	parts := splitKey(key)
	k, known := findKey(parts)
	for _, l := range slices.Backward(layers(user, repo)) {
		if value, ok := l.settings.find(parts); ok && (!known || k.counts(l.scope())) {
			return texts(value), l.source
		}
	}
	return nil, FromRepository
}
