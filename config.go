package kist

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/BurntSushi/toml"

	"github.com/kist-vcs/kist/chunker"
	"github.com/kist-vcs/kist/object/disk"
	"github.com/kist-vcs/kist/remote"
)

// FormatVersion is the version of the repository format that this package
// reads and writes.
const FormatVersion = 1

// ErrUnsupportedFormat is matched by the error for a repository that needs a
// newer or different program.
var ErrUnsupportedFormat = errors.New("repository format not supported")

// Config is a repository's configuration, the file .kist/config. Its format
// is described in docs/format/config.md.
type Config struct {
	Version  int      `toml:"version"`
	Required []string `toml:"required"` // extensions without which the repository cannot be used
	Optional []string `toml:"optional"` // extensions that may be ignored
	Metadata string   `toml:"metadata"` // "portable"

	Chunker struct {
		Polynomial string `toml:"polynomial"` // hexadecimal, with 0x
		Min        int    `toml:"min"`        // bytes
		Average    int    `toml:"average"`    // bytes, a power of two
		Max        int    `toml:"max"`        // bytes
	} `toml:"chunker"`

	User struct {
		Name  string `toml:"name,omitempty"`
		Email string `toml:"email,omitempty"`
	} `toml:"user"`

	Remote map[string]RemoteConfig `toml:"remote,omitempty"` // by name
	Branch map[string]BranchConfig `toml:"branch,omitempty"` // by short name

	values map[string]any // the whole file, with what this version does not know
}

// RemoteConfig is what is configured of a remote.
type RemoteConfig struct {
	URL          string `toml:"url"`
	SingleWriter bool   `toml:"single-writer,omitempty"`
}

// BranchConfig is what is configured of a branch: its upstream.
type BranchConfig struct {
	Remote string `toml:"remote"` // name of a remote
	Merge  string `toml:"merge"`  // full name of the branch there
}

// newConfig returns the configuration of a new repository.
func newConfig(p chunker.Params) *Config {
	c := &Config{Version: FormatVersion, Required: []string{}, Optional: []string{}, Metadata: "portable"}
	c.Chunker.Polynomial = fmt.Sprintf("%#x", uint64(p.Polynomial))
	c.Chunker.Min, c.Chunker.Average, c.Chunker.Max = p.Min, p.Avg, p.Max
	return c
}

// parseConfig reads and checks a configuration.
func parseConfig(data []byte) (*Config, error) {
	c := &Config{}
	if _, err := toml.NewDecoder(bytes.NewReader(data)).Decode(c); err != nil {
		return nil, err
	}
	if _, err := toml.NewDecoder(bytes.NewReader(data)).Decode(&c.values); err != nil {
		return nil, err
	}
	switch {
	case c.Version < 1:
		return nil, errors.New("no format version")
	case c.Version > FormatVersion:
		return nil, fmt.Errorf("%w: version %d, this program knows %d", ErrUnsupportedFormat, c.Version, FormatVersion)
	case len(c.Required) > 0:
		return nil, fmt.Errorf("%w: needs the extension %q", ErrUnsupportedFormat, c.Required[0])
	case c.Metadata != "portable":
		return nil, fmt.Errorf("%w: metadata %q", ErrUnsupportedFormat, c.Metadata)
	}
	if _, err := c.params(); err != nil {
		return nil, err
	}
	return c, nil
}

// params returns the chunker's parameters.
func (c *Config) params() (chunker.Params, error) {
	var pol uint64
	if _, err := fmt.Sscanf(c.Chunker.Polynomial, "0x%x", &pol); err != nil {
		return chunker.Params{}, fmt.Errorf("chunker.polynomial %q is not a hexadecimal number", c.Chunker.Polynomial)
	}
	p := chunker.Params{Polynomial: pol, Min: c.Chunker.Min, Avg: c.Chunker.Average, Max: c.Chunker.Max}
	if err := p.Validate(); err != nil {
		return chunker.Params{}, fmt.Errorf("chunker: %w", err)
	}
	return p, nil
}

// maxConfig bounds a configuration file, in bytes.
const maxConfig = 1 << 20

var errConfigSize = errors.New("larger than 1 MiB")

// loadConfig reads the configuration file of the repository in kistDir.
func loadConfig(kistDir string) (*Config, error) {
	f, err := disk.Open(filepath.Join(kistDir, "config"))
	if err != nil {
		return nil, err
	}
	defer f.Close()
	data, err := io.ReadAll(io.LimitReader(f, maxConfig+1))
	if err != nil {
		return nil, fmt.Errorf("read config: %w", err)
	}
	if len(data) > maxConfig {
		return nil, &ConfigError{Err: errConfigSize}
	}
	c, err := parseConfig(data)
	if err != nil {
		return nil, &ConfigError{Err: err}
	}
	return c, nil
}

// ConfigError says that the configuration file cannot be used.
type ConfigError struct{ Err error }

func (e *ConfigError) Error() string { return "config: " + e.Err.Error() }

// Unwrap returns what is wrong.
func (e *ConfigError) Unwrap() error { return e.Err }

// fixedKeys are set when a repository is made: the objects stored depend on them.
var fixedKeys = []string{"version", "required", "optional", "metadata", "chunker"}

// Get returns the value of a dotted key such as "user.name", as text, and
// whether it is set.
func (c *Config) Get(key string) (string, bool) {
	var at any = c.values
	for part := range strings.SplitSeq(key, ".") {
		m, ok := at.(map[string]any)
		if !ok {
			return "", false
		}
		if at, ok = m[part]; !ok {
			return "", false
		}
	}
	if _, isTable := at.(map[string]any); isTable {
		return "", false
	}
	return fmt.Sprint(at), true
}

// Keys returns every dotted key that is set, sorted.
func (c *Config) Keys() []string {
	var keys []string
	var visit func(prefix string, m map[string]any)
	visit = func(prefix string, m map[string]any) {
		for k, v := range m {
			if sub, ok := v.(map[string]any); ok {
				visit(prefix+k+".", sub)
				continue
			}
			keys = append(keys, prefix+k)
		}
	}
	visit("", c.values)
	slices.Sort(keys)
	return keys
}

// ParseSetting returns the value that text stands for, for
// [Repository.SetConfig]: true, false, a number, or the text itself, which it
// always is for names of people.
func ParseSetting(key, text string) any {
	if strings.HasPrefix(key, "user.") {
		return text
	}
	switch text {
	case "true":
		return true
	case "false":
		return false
	}
	if n, err := strconv.ParseInt(text, 10, 64); err == nil && strconv.FormatInt(n, 10) == text {
		return n
	}
	return text
}

// set changes a dotted key; a nil value removes it. What was read from a file
// of a later version is kept as it is.
func (c *Config) set(key string, value any) error {
	if remote.HasSecret(key) {
		return fmt.Errorf("config key %q: a URL is not a key", remote.Redact(key))
	}
	parts := strings.Split(key, ".")
	if slices.Contains(fixedKeys, parts[0]) {
		return fmt.Errorf("config key %q is fixed when the repository is made", key)
	}
	if len(parts) < 2 || slices.Contains(parts, "") {
		return fmt.Errorf("config key %q: want the form section.name", key)
	}
	if parts[0] == "branch" && len(parts) > 3 { // a branch's name may have dots
		parts = []string{"branch", strings.Join(parts[1:len(parts)-1], "."), parts[len(parts)-1]}
	}
	if _, isValue := c.Get(key); value == nil && !isValue && slices.ContainsFunc(c.Keys(), func(k string) bool { return strings.HasPrefix(k, key+".") }) {
		return fmt.Errorf("config key %q is a section", key)
	}
	return c.setAt(value, parts...)
}

// setAt is set for a key given by its parts, each of which may have dots. A nil
// value also removes a whole section.
func (c *Config) setAt(value any, parts ...string) error {
	key := strings.Join(parts, ".")
	m := c.values
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

// encode returns the configuration as a file.
func (c *Config) encode() ([]byte, error) {
	var buf bytes.Buffer
	var v any = c
	if c.values != nil {
		v = c.values
	}
	err := toml.NewEncoder(&buf).Encode(v)
	if err == nil && buf.Len() > maxConfig {
		err = &ConfigError{Err: errConfigSize} // nobody could read it again
	}
	return buf.Bytes(), err
}
