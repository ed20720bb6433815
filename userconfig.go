package kist

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/BurntSushi/toml"

	"github.com/kist-vcs/kist/object/disk"
)

// UserConfig is the configuration of a user, a file outside of all
// repositories. docs/format/config.md describes it.
type UserConfig struct {
	Safe struct {
		// Directory lists the worktrees of repositories that the user trusts
		// though they belong to somebody else. "*" stands for all.
		Directory []string `toml:"directory"`
		// Hooks lists the repositories whose own configuration may run commands.
		Hooks []string `toml:"hooks"`
	} `toml:"safe"`
	// Backup holds the keys of [UserKeys] without [KeyBackup]. They are for the backups
	// of all repositories.
	Backup map[string]string `toml:"backup"`

	file   string
	values map[string]any // the whole file, with the keys that this version does not know
}

// LoadUserConfig reads the configuration of a user. A missing file counts as empty.
// The error is a [*ConfigError] if the file is no configuration.
func LoadUserConfig(file string) (*UserConfig, error) {
	c := &UserConfig{file: file, values: map[string]any{}}
	data, err := os.ReadFile(file)
	if errors.Is(err, fs.ErrNotExist) {
		return c, nil
	}
	if err != nil {
		return nil, err
	}
	if _, err = toml.Decode(string(data), c); err == nil {
		_, err = toml.Decode(string(data), &c.values)
	}
	if err != nil {
		return nil, &ConfigError{Err: fmt.Errorf("%q: %w", file, err)}
	}
	return c, nil
}

// The keys of a [UserConfig].
const (
	KeySafeDirectory = "safe.directory"
	KeySafeHooks     = "safe.hooks"
)

// List returns the list of a key, nil if there is no such key. Changing it changes the
// configuration.
func (c *UserConfig) List(key string) *[]string {
	switch key {
	case KeySafeDirectory:
		return &c.Safe.Directory
	case KeySafeHooks:
		return &c.Safe.Hooks
	}
	return nil
}

// UserKeys returns the keys that both a repository and the user's own configuration may
// have: see [ConfigKey.Trusted].
func UserKeys() (names []string) {
	for _, k := range configKeys {
		if k.Trusted {
			names = append(names, k.Name)
		}
	}
	return names
}

// Set sets a key of [UserKeys], or removes it if value is empty, and writes the file.
func (c *UserConfig) Set(key, value string) error {
	name := strings.TrimPrefix(key, KeyBackup)
	if c.Backup == nil {
		c.Backup = map[string]string{}
	}
	c.Backup[name] = value
	if value == "" {
		delete(c.Backup, name)
	}
	c.values["backup"] = c.Backup
	return c.save()
}

// Trust adds a folder to the list of a key and writes the file.
func (c *UserConfig) Trust(key, dir string) error {
	list := c.List(key)
	if slices.Contains(*list, dir) {
		return nil
	}
	safe, ok := c.values["safe"].(map[string]any)
	if !ok {
		safe = map[string]any{}
		c.values["safe"] = safe
	}
	*list = append(*list, dir)
	safe[strings.TrimPrefix(key, "safe.")] = *list
	return c.save()
}

// save writes the file.
func (c *UserConfig) save() error {
	var data bytes.Buffer
	if err := toml.NewEncoder(&data).Encode(c.values); err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Dir(c.file), 0o700); err != nil {
		return err
	}
	return disk.WriteFile(c.file, data.Bytes())
}
