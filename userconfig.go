package kist

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"

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
	} `toml:"safe"`

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

// Trust adds a worktree to safe.directory and writes the file.
func (c *UserConfig) Trust(dir string) error {
	if slices.Contains(c.Safe.Directory, dir) {
		return nil
	}
	safe, ok := c.values["safe"].(map[string]any)
	if !ok {
		safe = map[string]any{}
		c.values["safe"] = safe
	}
	c.Safe.Directory = append(c.Safe.Directory, dir)
	safe["directory"] = c.Safe.Directory

	var data bytes.Buffer
	if err := toml.NewEncoder(&data).Encode(c.values); err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Dir(c.file), 0o700); err != nil {
		return err
	}
	return disk.WriteFile(c.file, data.Bytes())
}
