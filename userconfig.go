package kist

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"

	"github.com/BurntSushi/toml"

	"github.com/kist-vcs/kist/object/disk"
)

// UserConfig has the settings of a user: a file outside of all repositories, and the command
// line. docs/format/config.md describes it.
type UserConfig struct {
	file   string
	values settings // the whole file, with the keys that this version does not know
	line   settings // from the command line
}

// ErrUserConfig is matched by the [*ConfigError] for the configuration of a user.
var ErrUserConfig = errors.New("the user's own configuration")

// LoadUserConfig reads the configuration of a user. A missing file counts as empty. So do
// a file that the user must not read, as after sudo, and the name "". The error is a [*ConfigError] if the file is no configuration, and a
// [*SettingError] if a key has an invalid value.
func LoadUserConfig(file string) (*UserConfig, error) {
	c := &UserConfig{file: file, values: settings{}, line: settings{}}
	if file == "" {
		return c, nil
	}
	data, err := os.ReadFile(file)
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, fs.ErrPermission) {
		return c, nil
	}
	if err != nil {
		return nil, err
	}
	if err := toml.Unmarshal(data, (*map[string]any)(&c.values)); err != nil {
		return nil, &ConfigError{Err: &userConfigError{file, err}}
	}
	err = c.values.check(data, UserOnly, false)
	var bad *SettingError
	if errors.As(err, &bad) {
		bad.File = file
	}
	return c, err
}

// userConfigError is the cause of an error for the configuration of a user.
type userConfigError struct {
	file string
	err  error
}

func (e *userConfigError) Error() string { return fmt.Sprintf("%q: %v", e.file, e.err) }

func (e *userConfigError) Unwrap() []error { return []error{ErrUserConfig, e.err} }

// File returns the name of the file, "" if there is none.
func (c *UserConfig) File() string { return c.file }

// Values returns the list of a dotted key, as texts, like [Config.Values].
func (c *UserConfig) Values(key string) []string {
	values, _ := lookup(c, nil, key)
	return values
}

// Get returns the first of the values, "" if there is none.
func (c *UserConfig) Get(key string) string {
	for _, value := range c.Values(key) {
		return value
	}
	return ""
}

// Override sets a key for this process. It overrides all files.
func (c *UserConfig) Override(key, text string) error {
	return c.line.set(key, ParseSetting(key, text), UserOnly, false)
}

// Set changes a dotted key in the file; a nil value removes it.
func (c *UserConfig) Set(ctx context.Context, key string, value any) error {
	return c.edit(ctx, func(s settings) error { return s.set(key, value, UserOnly, false) })
}

// Add adds a value to the list of a key in the file, unless the list has it already.
func (c *UserConfig) Add(ctx context.Context, key, text string) error {
	return c.edit(ctx, func(s settings) error { return s.add(key, text, UserOnly, false) })
}

// edit reads the file, changes its settings with edit, and writes it. It holds the lock
// beside the file meanwhile. If the file is a symlink, its target changes.
func (c *UserConfig) edit(ctx context.Context, edit func(settings) error) error {
	if err := os.MkdirAll(filepath.Dir(c.file), 0o700); err != nil {
		return err
	}
	file := c.file
	if real, err := filepath.EvalSymlinks(file); err == nil {
		file = real
	}
	lock, err := disk.Lock(ctx, file+".lock", disk.Exclusive, disk.DefaultWait)
	if err != nil {
		return err
	}
	defer lock.Unlock()

	now, err := LoadUserConfig(file)
	if err != nil && !errors.Is(err, ErrSetting) { // the edit may remove a bad setting
		return err
	}
	if err := edit(now.values); err != nil {
		return err
	}
	before, err := os.ReadFile(file)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	data, err := now.values.rewrite(before)
	if err != nil {
		return err
	}
	if err := disk.WriteFile(file, data); err != nil {
		return err
	}
	c.values = now.values
	return nil
}

// rewrite returns the settings as a file. It changes the lines of before as little as
// possible, because people edit the file and put comments there.
func (s settings) rewrite(before []byte) ([]byte, error) {
	var all bytes.Buffer
	if err := toml.NewEncoder(&all).Encode(map[string]any(s)); err != nil {
		return nil, err
	}
	want, err := parseSettings(all.Bytes())
	if err != nil {
		return nil, err
	}
	had, err := parseSettings(before)
	if err != nil {
		return nil, err
	}

	lines := bytes.SplitAfter(before, []byte("\n"))
	had.each(func(parts []string, _ any) {
		if _, kept := want.find(parts); !kept {
			lines = editLine(lines, parts, nil)
		}
	})
	want.each(func(parts []string, value any) {
		if old, ok := had.find(parts); !ok || !reflect.DeepEqual(old, value) {
			lines = editLine(lines, parts, value)
		}
	})
	edited := bytes.Join(lines, nil)
	if got, err := parseSettings(edited); err == nil && got.equal(want) {
		return edited, nil
	}
	return all.Bytes(), nil // a form that kist does not write
}

func parseSettings(data []byte) (settings, error) {
	s := settings{}
	return s, toml.Unmarshal(data, (*map[string]any)(&s))
}

// equal reports whether both have the same keys and values.
func (s settings) equal(t settings) bool {
	flat := func(s settings) map[string]any {
		m := map[string]any{}
		s.each(func(parts []string, value any) { m[strings.Join(parts, "\x00")] = value })
		return m
	}
	return reflect.DeepEqual(flat(s), flat(t))
}

// editLine sets a key on its line, adds a line, or removes the line if value is nil.
func editLine(lines [][]byte, parts []string, value any) [][]byte {
	section, last := parts[:len(parts)-1], parts[len(parts)-1]
	n := lineOf(bytes.Join(lines, nil), parts)
	if value == nil {
		if n > 0 {
			lines = slices.Delete(lines, n-1, n)
		}
		return lines
	}
	var line bytes.Buffer
	if toml.NewEncoder(&line).Encode(map[string]any{last: value}) != nil {
		return lines
	}
	if n > 0 {
		indent := lines[n-1][:len(lines[n-1])-len(bytes.TrimLeft(lines[n-1], " \t"))]
		lines[n-1] = append(slices.Clone(indent), line.Bytes()...)
		return lines
	}
	header := "[" + strings.Join(section, ".") + "]"
	for i := range lines {
		if begin, _, _ := strings.Cut(strings.TrimSpace(string(lines[i])), "#"); strings.TrimSpace(begin) == header {
			return slices.Insert(lines, i+1, append([]byte("  "), line.Bytes()...))
		}
	}
	if end := lines[len(lines)-1]; len(end) > 0 {
		lines[len(lines)-1] = append(end, '\n')
	}
	return append(lines, []byte(header+"\n"), append([]byte("  "), line.Bytes()...))
}
