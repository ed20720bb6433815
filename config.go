package kist

import (
	"bytes"
	"cmp"
	"crypto/sha256"
	"encoding/hex"
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
	"github.com/kist-vcs/kist/refs"
	"github.com/kist-vcs/kist/remote"
	"github.com/kist-vcs/kist/remote/rootlog"
	"github.com/kist-vcs/kist/tree"
)

// FormatVersion is the version of the repository format that this package
// reads and writes.
const FormatVersion = 1

// The values of [Config.Metadata].
const (
	MetadataPortable = "portable" // type, permission bits, size, mtime and content
	MetadataFull     = "full"     // and owners, extended attributes, devices, hard links, times of folders
)

// ErrUnsupportedFormat is matched by the error for a repository that needs a
// newer or different program.
var ErrUnsupportedFormat = errors.New("repository format not supported")

// Config is a repository's configuration, the file .kist/config. docs/format/config.md
// describes its format.
type Config struct {
	Version  int      `toml:"version"`
	Required []string `toml:"required"` // extensions without which the repository cannot be used
	Optional []string `toml:"optional"` // extensions that may be ignored
	Metadata string   `toml:"metadata"` // MetadataPortable or MetadataFull

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
	View   map[string]ViewConfig   `toml:"view,omitempty"`   // by name
	Sparse *SparseConfig           `toml:"sparse,omitempty"`

	values settings    // the whole file, unknown keys included
	user   *UserConfig // the user's own configuration; may be nil
	cone   *tree.Cone  // see Cone
}

// SparseConfig has the folders of a sparse worktree. Only 'kist sparse' sets it.
type SparseConfig struct {
	Folders []string `toml:"folders,omitempty"`
}

// RemoteConfig has the settings of a remote.
type RemoteConfig struct {
	URL          string `toml:"url"`
	SingleWriter bool   `toml:"single-writer,omitempty"`
	ObjectLock   string `toml:"object-lock,omitempty"` // see [ParseLock]
	Encrypted    string `toml:"encrypted,omitempty"`   // the pin of an encrypted remote; see [crypt.ParsePin]

	// RequireSigned is for a new configuration: [RequiresSigned] also knows the user's own.
	RequireSigned bool `toml:"require-signed,omitempty"`
}

// BranchConfig has the settings of a branch: its upstream.
type BranchConfig struct {
	Remote string `toml:"remote"` // name of a remote; empty: this repository
	Merge  string `toml:"merge"`  // full name of the branch there
}

// TrackingBranch returns the full name of the remote-tracking branch of a branch's
// upstream, as in "refs/remotes/origin/main". An upstream in this repository has its own
// name. The error matches [ErrNoUpstream], or is a [*ConfigError] if the configured upstream
// is invalid.
func (c *Config) TrackingBranch(branch string) (string, error) {
	b := c.Branch[branch]
	if b.Merge == "" {
		return "", fmt.Errorf("branch %q has %w", branch, ErrNoUpstream)
	}
	short, ok := strings.CutPrefix(b.Merge, refs.Heads)
	full := b.Merge
	if b.Remote != "" {
		full = refs.Remotes + b.Remote + "/" + short
	}
	if !ok || refs.CheckName(full) != nil {
		return "", &ConfigError{Err: fmt.Errorf("branch %q: merge %q is not the full name of a branch, as in %q", branch, b.Merge, refs.Heads+branch)}
	}
	return full, nil
}

// ViewConfig has the definition of a view. Only 'kist view' sets it.
type ViewConfig struct {
	Template string `toml:"template"`
	Dir      string `toml:"dir,omitempty"` // absolute; default: a folder in .kist/views
	Rev      string `toml:"rev"`
}

// NewConfig returns the configuration of a new repository.
func NewConfig(p chunker.Params) *Config {
	c := &Config{Version: FormatVersion, Required: []string{}, Optional: []string{}, Metadata: MetadataPortable}
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
	case c.unknownExtension() != "":
		return nil, fmt.Errorf("%w: needs the extension %q", ErrUnsupportedFormat, c.unknownExtension())
	case c.Metadata != MetadataPortable && c.Metadata != MetadataFull:
		return nil, fmt.Errorf("%w: metadata %q", ErrUnsupportedFormat, c.Metadata)
	}
	if _, err := c.params(); err != nil {
		return nil, err
	}
	if err := c.checkValues(data); err != nil {
		return nil, err
	}
	if err := c.readCone(); err != nil {
		return nil, err
	}
	return c, nil
}

// The extensions in "required". A program that does not know one of them refuses the repository. Otherwise it would take
// the folder above a bare repository for its worktree, the content that is away for missing, and the folders that a sparse
// worktree lacks for deleted.
const (
	bareExtension   = "bare"
	lazyExtension   = "lazy"
	sparseExtension = "sparse"
)

// bare reports whether the repository is bare.
func (c *Config) bare() bool { return slices.Contains(c.Required, bareExtension) }

// IsLazy reports whether content may be away: remotes have promised to keep it, see [transfer.Promise].
func (c *Config) IsLazy() bool { return slices.Contains(c.Required, lazyExtension) }

// LazyExtensions returns "required" of a new lazy repository.
func LazyExtensions() []string { return []string{lazyExtension} }

// EndLazy ends that content may be away. The caller has brought all content here.
func (c *Config) EndLazy() error {
	return c.SetAt(slices.DeleteFunc(slices.Clone(c.Required), func(name string) bool { return name == lazyExtension }), "required")
}

// IsLazyNow is [Config.IsLazy] by the present configuration, which another process may have changed.
func IsLazyNow(r *Repository) (bool, error) {
	c, err := loadConfig(r.dir)
	return err == nil && c.IsLazy(), err
}

// unknownExtension returns the first extension in "required" that this program does not know, or
// "". A repeated one is unknown, too, and so is a sparse worktree of a bare repository.
func (c *Config) unknownExtension() string {
	known := []string{bareExtension, lazyExtension, sparseExtension}
	for i, name := range c.Required {
		if !slices.Contains(known, name) || slices.Contains(c.Required[:i], name) || name == sparseExtension && c.bare() {
			return name
		}
	}
	return ""
}

// Cone returns the folders that the worktree has, or nil if it has all.
func (c *Config) Cone() *tree.Cone { return c.cone }

// readCone reads the folders of a sparse worktree. Without the extension they do not count.
func (c *Config) readCone() (err error) {
	if !slices.Contains(c.Required, sparseExtension) {
		return nil
	}
	var folders []string
	if c.Sparse != nil {
		folders = c.Sparse.Folders
	}
	if c.cone, err = tree.NewCone(folders); err != nil {
		err = fmt.Errorf("sparse.folders: %w", err)
	}
	return err
}

// SetCone makes the worktree one that has only the folders of a cone, or all folders if it
// is nil. The caller then changes the worktree.
func (c *Config) SetCone(cone *tree.Cone) error {
	required := slices.DeleteFunc(slices.Clone(c.Required), func(name string) bool { return name == sparseExtension })
	if cone == nil {
		return cmp.Or(c.SetAt(nil, "sparse"), c.SetAt(required, "required"))
	}
	return cmp.Or(c.SetAt(cone.Dirs(), "sparse", "folders"), c.SetAt(append(required, sparseExtension), "required"))
}

// params returns the chunker's parameters.
func (c *Config) params() (chunker.Params, error) {
	digits, prefixed := strings.CutPrefix(c.Chunker.Polynomial, "0x")
	pol, err := strconv.ParseUint(digits, 16, 64)
	if err != nil || !prefixed || digits != strconv.FormatUint(pol, 16) {
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

// ErrConfigSize is the cause of the error for a configuration file that is too large.
var ErrConfigSize = errors.New("larger than 1 MiB")

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
		return nil, &ConfigError{Err: ErrConfigSize}
	}
	c, err := parseConfig(data)
	if err != nil && !errors.Is(err, ErrSetting) {
		err = &ConfigError{Err: err}
	}
	return c, err
}

// ConfigError is the error for an invalid configuration file of a repository. It matches
// [ErrUserConfig] if the file is the user's own.
type ConfigError struct{ Err error }

func (e *ConfigError) Error() string { return "config: " + e.Err.Error() }

// Unwrap returns the cause.
func (e *ConfigError) Unwrap() error { return e.Err }

// Get returns the value of a dotted key such as "user.name", as text. It reports whether
// the key is set: on the command line, here, or in the user's own configuration.
func (c *Config) Get(key string) (string, bool) {
	values, _ := c.Lookup(key)
	if len(values) == 0 {
		return "", false
	}
	return values[0], true
}

// Values returns the list of a dotted key, as texts. A single value is a list of one. The
// result is empty if the key is not set.
func (c *Config) Values(key string) []string {
	values, _ := c.Lookup(key)
	return values
}

// Lookup returns the values of a dotted key and their source.
func (c *Config) Lookup(key string) ([]string, SettingSource) {
	return lookup(c.user, c, key)
}

// checkValues returns an error that matches [ErrSetting] if a known key has an invalid
// value. It accepts a password in a URL, because a user may have edited the file by hand.
// data is the content of the file.
func (c *Config) checkValues(data []byte) error {
	return c.values.check(data, RepositoryOnly, c.bare())
}

// ParseSetting returns text as a value for [Repository.SetConfig]: true, false, a number,
// or the text. If the values of key are texts, it is the text. If they are lists, it is a
// list of one text.
func ParseSetting(key, text string) any {
	k, known := findKey(splitKey(key))
	switch {
	case known && k.List:
		return []string{text}
	case known && (slices.Contains([]string{"TEXT", "URL", "COMMAND", "FILE"}, k.Form) || strings.HasSuffix(k.Form, "NAME")):
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

// set changes a dotted key; a nil value removes it. It sets only known keys, and removes
// any key.
func (c *Config) set(key string, value any) error {
	return c.values.set(key, value, RepositoryOnly, c.bare())
}

// SetAt is set for a key in parts, which may have dots. It checks nothing. A nil value also
// removes a section.
func (c *Config) SetAt(value any, parts ...string) error { return c.values.setAt(value, parts...) }

// MoveAt renames a part of a section, as in remote.old to remote.new. It reports whether
// there is such a part.
func (c *Config) MoveAt(section, from, to string) bool {
	parts, _ := c.values[section].(map[string]any)
	at, ok := parts[from]
	if ok {
		delete(parts, from)
		parts[to] = at
	}
	return ok
}

// encode returns the configuration as a file.
func (c *Config) encode() ([]byte, error) {
	var buf bytes.Buffer
	var v any = c
	if c.values != nil {
		v = map[string]any(c.values)
	}
	err := toml.NewEncoder(&buf).Encode(v)
	if err == nil && buf.Len() > maxConfig {
		err = &ConfigError{Err: ErrConfigSize} // no command could read it again
	}
	return buf.Bytes(), err
}

// KeyServeFetch is the key that, set to true, lets 'kist serve' fetch content that is away.
const KeyServeFetch = "serve.fetch"

// KeyPushMerge is the key that, set to false, keeps pushes from merging small packs
// and index files of a remote.
const KeyPushMerge = "push.merge"

// ErrSecret is the error for a URL with a password. The configuration must not hold
// passwords.
var ErrSecret = errors.New("the URL holds a password, which kist does not store")

// CheckRemoteName returns an error if name is not valid for a remote. The name is the
// first part of remote-tracking branches.
func CheckRemoteName(name string) error {
	if strings.Contains(name, "/") {
		return &refs.NameError{Name: remote.Redact(name), Reason: "a remote's name has no slash"}
	}
	if err := refs.CheckShort(name); err != nil {
		return err
	}
	return refs.CheckName(refs.Remotes + name + "/x")
}

// ID returns an ID that a repository shares with its clones. See [Config.RepositoryID].
func (r *Repository) ID() string { return r.config.RepositoryID() }

// RepositoryID returns a hash of the chunker's parameters. A new repository has a random
// polynomial, and its clones keep it. Repositories with different IDs cut files at
// different places, so they share no chunks.
func (c *Config) RepositoryID() string {
	text := fmt.Sprintf("kist repository\n%s %d %d %d\n", c.Chunker.Polynomial, c.Chunker.Min, c.Chunker.Average, c.Chunker.Max)
	sum := sha256.Sum256([]byte(text))
	return hex.EncodeToString(sum[:16])
}

// RemoteChunker returns the chunker's parameters as a remote records them.
func (c *Config) RemoteChunker() rootlog.Chunker { return rootlog.Chunker(c.Chunker) }
