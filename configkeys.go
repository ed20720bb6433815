package kist

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/kist-vcs/kist/object"
	"github.com/kist-vcs/kist/refs"
	"github.com/kist-vcs/kist/remote"
	"github.com/kist-vcs/kist/remote/crypt"
	"github.com/kist-vcs/kist/remote/rootlog"
	"github.com/kist-vcs/kist/tree"
	"github.com/kist-vcs/kist/tree/worktree"
)

// ErrSetting is matched by the error for an unknown key of the configuration, or for an
// invalid value.
var ErrSetting = errors.New("bad setting")

// ConfigKey describes a key of the configuration. The help, the completion and the checks
// use the table of all keys.
type ConfigKey struct {
	Name    string // as in "gc.auto"; "*" stands for the name of a remote or branch
	Form    string // of a value, as the help shows it
	Default string // the value if the key is not set; empty: none
	Help    string // one line
	List    bool   // the key has any number of values
	Trusted bool   // a repository's value is used only if the user's safe.hooks lists the repository
	Scope   Scope  // the configurations in which the key counts

	fixed bool                  // set for ever when the repository is created
	check func(value any) error // of one value; nil for fixed keys
}

// Scope is the kind of configurations in which a key counts.
type Scope int

// The scopes. A key of [UserOnly] could harm the user if another user set it.
const (
	Everywhere     Scope = iota
	RepositoryOnly       // the key is about one repository
	UserOnly             // the user's own configuration, and the command line
)

// The keys of [UserOnly], and the section of aliases.
const (
	KeySafeDirectory = "safe.directory" // worktrees of other users that the user trusts
	KeySafeHooks     = "safe.hooks"     // repositories whose own configuration may run commands
	KeyPager         = "core.pager"
	KeyEditor        = "core.editor"
	KeySSHCommand    = "core.ssh-command" // the program that connects by SSH
	KeyColor         = "color.ui"
	KeyAlias         = "alias."
	KeyTool          = "diff.tool" // the program of difftool
	KeyToolSection   = "difftool." // its command, by name
	KeyToolPrompt    = "difftool.prompt"
	KeyIdentity      = "key.identity" // files with identities, which open encrypted remotes

	KeyLocalLimit  = "local.limit"
	KeyLocalAsk    = "local.ask"
	KeyLocalCopies = "local.copies"

	KeyRequireEncrypted = "remote.require-encrypted"
)

// configKeys are all known keys, sorted by name. Other keys cannot be set. They stay in the
// file, because a newer kist may have written them.
var configKeys = slices.Concat([]ConfigKey{
	{Name: KeyAlias + "*", Form: "COMMAND", Help: "the command that NAME is short for; see 'kist help config'", check: checkTextSetting(nil)},
}, backupKeys(), []ConfigKey{
	{Name: "branch.*.merge", Form: "refs/heads/NAME", Scope: RepositoryOnly, Help: "the upstream branch of the branch, on its remote; without a remote, here", check: checkTextSetting(refs.CheckName)},
	{Name: "branch.*.remote", Form: "NAME", Scope: RepositoryOnly, Help: "the remote of the upstream branch", check: checkTextSetting(CheckRemoteName)},
	{Name: "chunker.average", Help: "average size of a chunk, in bytes", fixed: true},
	{Name: "chunker.max", Help: "largest size of a chunk, in bytes", fixed: true},
	{Name: "chunker.min", Help: "smallest size of a chunk, in bytes", fixed: true},
	{Name: "chunker.polynomial", Help: "the polynomial that decides where content is cut", fixed: true},
	{Name: "clean.require-force", Form: "true or false", Default: "true", Help: "'kist clean' does nothing without -f", check: checkBoolSetting},
	{Name: KeyColor, Form: "auto, always or never", Default: "auto", Scope: UserOnly, Help: "when to use colours", check: checkOneOf("auto", "always", "never")},
	{Name: KeyEditor, Form: "COMMAND", Scope: UserOnly, Help: "the editor for messages", check: checkTextSetting(nil)},
	{Name: KeyGit, Form: "keep or write", Default: GitKeep, Help: "write: commands make and change .git folders as commits have them", check: checkOneOf(GitKeep, GitWrite)},
	{Name: KeyIgnoreFiles, Form: "list of NAMEs", Help: "more files with patterns, as .gitignore; .kistignore overrules them", List: true, check: checkTextSetting(object.CheckName)},
	{Name: KeyPager, Form: "COMMAND", Scope: UserOnly, Help: "the pager; cat for none", check: checkTextSetting(nil)},
	{Name: KeySSHCommand, Form: "COMMAND", Default: "ssh", Scope: UserOnly, Help: "the program that connects to remotes by SSH", check: checkTextSetting(func(text string) error {
		_, err := remote.SplitWords(text)
		return err
	})},
	{Name: KeyTool, Form: "NAME", Scope: UserOnly, Help: "the program of 'kist difftool'", check: checkTextSetting(nil)},
	{Name: KeyToolSection + "*.cmd", Form: "COMMAND", Scope: UserOnly, Help: "the command of the program NAME, for $LOCAL and $REMOTE", check: checkTextSetting(nil)},
	{Name: KeyToolPrompt, Form: "true or false", Default: "true", Scope: UserOnly, Help: "'kist difftool' asks before each file", check: checkBoolSetting},
	{Name: "gc.auto", Form: "true or false", Default: "true", Help: "commands that write start 'kist gc --auto'", check: checkBoolSetting},
	{Name: "gc.auto-repack", Form: "SIZE or false", Default: defaultAutoRepack, Help: "the amount of data older than two weeks that starts a repack", check: func(v any) error {
		_, _, err := parseAutoRepack(v)
		return err
	}},
	{Name: "gc.reflog-expire", Form: "AGE", Default: "90d", Help: "age at which gc removes entries of logs", check: checkAgeSetting},
	{Name: "gc.reflog-expire-unreachable", Form: "AGE", Default: "30d", Help: "the same, for commits that no branch or tag reaches", check: checkAgeSetting},
	{Name: KeyDirectoryRenames, Form: "true, false or conflict", Default: "conflict", Help: "what renamed folders do to files that others add to them", check: checkOneOf("true", "false", "conflict")},
	{Name: KeyIdentity, Form: "list of FILEs", Scope: UserOnly, List: true, Help: "files with your identities, which open encrypted remotes", check: checkTextSetting(nil)},
	{Name: KeyLocalCopies, Form: "N", Default: "1", Help: "the number of remotes that must keep the rest", check: checkedBy(parseCount)},
	{Name: KeyLocalAsk, Form: "SIZE", Default: "100MiB", Help: "how much content a command fetches before it asks", check: checkedBy(ParseSize)},
	{Name: KeyLocalLimit, Form: "SIZE", Help: "how much content to keep here; pushes give the rest away", check: checkedBy(ParseSize)},
	{Name: "metadata", Help: "the metadata that is recorded of a file", fixed: true},
	{Name: "optional", Help: "extensions that may be ignored", fixed: true},
	{Name: KeyPushMerge, Form: "true or false", Default: "true", Help: "pushes merge small packs of the remote", check: checkBoolSetting},
	{Name: "records.accept", Form: "ask, always or never", Default: "ask", Help: "which purges, expirations and ends of holds wait; see 'kist help fetch'", check: checkOneOf("ask", "always", "never")},
	{Name: "remote.*.encrypted", Form: "ID:FINGERPRINT", Scope: RepositoryOnly, Help: "the remote is encrypted: its ID, and the fingerprint of its first key", check: checkTextSetting(func(text string) error {
		_, err := crypt.ParsePin(text)
		return err
	})},
	{Name: "remote.*.object-lock", Form: "AGE[,governance] or off", Scope: RepositoryOnly, Help: "how long files on the remote are locked", check: checkTextSetting(func(text string) error {
		_, err := ParseLock(text)
		return err
	})},
	{Name: "remote.*.require-signed", Form: "true or false", Default: "false", Help: "every change of the remote must be signed by somebody you trust", check: checkBoolSetting},
	{Name: "remote.*.single-writer", Form: "true or false", Default: "false", Scope: RepositoryOnly, Help: "the store is not safe for concurrent pushes", check: checkBoolSetting},
	{Name: "remote.*.url", Form: "URL", Scope: RepositoryOnly, Help: "the URL of the remote, without a password", check: checkTextSetting(checkRemoteURL)},
	{Name: KeyRequireEncrypted, Form: "true or false", Default: "false", Scope: UserOnly, Help: "remotes that are not encrypted are refused", check: checkBoolSetting},
	{Name: "required", Help: "extensions that kist has to know", fixed: true},
	{Name: KeySafeDirectory, Form: "list of DIRs", Scope: UserOnly, List: true, Help: "repositories of other users that you trust; * for all", check: checkTextSetting(nil)},
	{Name: KeySafeHooks, Form: "list of DIRs", Scope: UserOnly, List: true, Help: "repositories whose configuration may run commands; * for all", check: checkTextSetting(nil)},
	{Name: "serve.acl", Form: "list of names", Scope: RepositoryOnly, Help: "who may read and write a path without a rule, as the attribute acl", check: checkTextSetting(nil)},
	{Name: "serve.acl-read", Form: "list of names", Scope: RepositoryOnly, Help: "the same, as the attribute acl.read", check: checkTextSetting(nil)},
	{Name: "serve.acl-write", Form: "list of names", Scope: RepositoryOnly, Help: "the same, as the attribute acl.write", check: checkTextSetting(nil)},
	{Name: KeyServeFetch, Form: "true or false", Default: "false", Help: "'kist serve' fetches content that only a remote has", check: checkBoolSetting},
	{Name: "serve.branch", Form: "NAME", Scope: RepositoryOnly, Help: "the branch with the rules of 'kist serve'; by default that of HEAD", check: checkTextSetting(checkBranchName)},
}, signKeys(), []ConfigKey{
	{Name: "user.email", Form: "TEXT", Help: "your address, for commits", check: checkTextSetting(nil)},
	{Name: "user.name", Form: "TEXT", Help: "your name, for commits", check: checkTextSetting(nil)},
	{Name: "version", Help: "version of the repository format", fixed: true},
})

// backupKeys returns the keys of 'kist backup', sorted by name. Each key has the name of an
// option and is the default of that option. Only backup.paths and backup.ignore-files have no
// option.
func backupKeys() []ConfigKey {
	keys := []ConfigKey{
		{Name: KeyBackup + "check", Form: "N%", Help: "how much of the stored data each backup reads back", check: checkedBy(ParseShare)},
		{Name: KeyBackupCopyTo, Form: "NAME", Help: "a second remote that gets each backup from the first", check: checkTextSetting(CheckRemoteName)},
		{Name: KeyBackup + "exclude", Form: "list of PATTERNs", Help: "what to leave out, as in a .kistignore file", List: true, check: checkTextSetting(nil)},
		{Name: KeyBackup + "iexclude", Form: "list of PATTERNs", Help: "the same, but the case of letters does not matter", List: true, check: checkTextSetting(nil)},
		{Name: KeyBackup + "exclude-caches", Form: "true or false", Default: "false", Help: "leave out folders with a CACHEDIR.TAG", check: checkBoolSetting},
		{Name: KeyBackup + "exclude-if-present", Form: "list of NAME[:HEADER]", Help: "leave out folders with such a file", List: true, check: checkTextSetting(nil)},
		{Name: KeyBackup + "exclude-larger-than", Form: "SIZE", Help: "leave out larger files", check: checkedBy(ParseSize)},
		{Name: KeyBackup + "one-file-system", Form: "true or false", Default: "false", Help: "leave out other file systems", check: checkBoolSetting},
		{Name: KeyExcludeXattr, Form: "list of PATTERNs", Help: "extended attributes that no command records", List: true, check: checkTextSetting(worktree.CheckXattrPattern)},
		{Name: KeyIncludeXattr, Form: "list of PATTERNs", Help: "the only extended attributes that commands record", List: true, check: checkTextSetting(worktree.CheckXattrPattern)},
		{Name: KeyNoXattrs, Form: "true or false", Default: "false", Help: "record no extended attributes", check: checkBoolSetting},
		{Name: KeyBackup + "host", Form: "NAME", Help: "the host to record in commits", check: checkTextSetting(nil)},
		{Name: KeyBackup + "jobs", Form: "N", Help: "transfers at once", check: checkedBy(parseCount)},
		{Name: KeyBackup + "keep-tag", Form: "list of PATTERNs", Help: "keep commits with such a tag", List: true, check: checkTextSetting(nil)},
		{Name: KeyBackup + "label", Form: "list of NAMEs", Help: "labels of the commits", List: true, check: checkTextSetting(nil)},
		{Name: KeyBackupLocalLimit, Form: "SIZE", Help: "how much content to keep here", check: checkedBy(ParseSize)},
		{Name: KeyBackup + "limit-download", Form: "SIZE", Help: "bytes to receive a second", check: checkedBy(ParseSize)},
		{Name: KeyBackup + "limit-upload", Form: "SIZE", Help: "bytes to send a second", check: checkedBy(ParseSize)},
		{Name: KeyBackupIgnore, Form: "true or false", Default: "false", Scope: RepositoryOnly, Help: "files with patterns count below the paths of a bare repository, too", check: checkBoolSetting},
		{Name: KeyBackup + "max-deleted", Form: "N%", Help: "how many files of a path may be gone at once", check: checkedBy(ParseShare)},
		{Name: KeyBackupPaths, Form: "list of PATHs", Scope: RepositoryOnly, Help: "what to back up, from the top of the worktree on; all of it if not set", List: true, check: checkTextSetting(func(path string) error {
			if path == "" {
				return errors.New("a path must not be empty")
			}
			return nil
		})},
		{Name: KeyBackupRemote, Form: "NAME", Help: "the remote to push to", check: checkTextSetting(CheckRemoteName)},
	}
	for _, period := range []string{"last", "hourly", "daily", "weekly", "monthly", "yearly"} {
		keys = append(keys, ConfigKey{Name: KeyBackup + "keep-" + period, Form: "N or unlimited", Help: "as the option of 'kist expire'", check: func(v any) error {
			if v == "unlimited" {
				return nil
			}
			return checkedBy(parseCount)(v)
		}})
	}
	for _, period := range []string{"", "-hourly", "-daily", "-weekly", "-monthly", "-yearly"} {
		keys = append(keys, ConfigKey{Name: KeyBackup + "keep-within" + period, Form: "AGE", Help: "as the option of 'kist expire'", check: checkAgeSetting})
	}
	for name, form := range map[string]string{"before": "COMMAND", "after": "COMMAND", "on-success": "COMMAND", "on-failure": "COMMAND", "metrics": "FILE", "ping": "URL"} {
		keys = append(keys, ConfigKey{Name: KeyBackup + name, Form: form, Help: "as the option; only if safe.hooks has the repository", Trusted: true, check: checkTextSetting(nil)})
	}
	slices.SortFunc(keys, func(a, b ConfigKey) int { return strings.Compare(a.Name, b.Name) })
	return keys
}

const (
	KeyBackup       = "backup." // the first part of the keys of 'kist backup'
	KeyBackupRemote = KeyBackup + "remote"
	KeyBackupCopyTo = KeyBackup + "copy-to"

	KeyBackupLocalLimit = KeyBackup + "local-limit"
	KeyGit              = "core.git"          // whether kist writes git's own folders
	KeyIgnoreFiles      = "core.ignore-files" // the key with more names of ignore files
	KeyBackupPaths      = KeyBackup + "paths" // the key with the paths to back up
	KeyBackupIgnore     = KeyBackup + "ignore-files"

	// Keys that select extended attributes, for all commands.
	KeyExcludeXattr = KeyBackup + "exclude-xattr"
	KeyIncludeXattr = KeyBackup + "include-xattr"
	KeyNoXattrs     = KeyBackup + "no-xattrs"

	// KeyDirectoryRenames is the key for the effect of renamed directories on merges.
	KeyDirectoryRenames = "merge.directory-renames"
)

// The values of [KeyGit].
const (
	GitKeep  = "keep"  // kist leaves git's own folders in a worktree as they are
	GitWrite = "write" // kist writes them as any folder
)

// ConfigKeys returns the keys that can be set, sorted by name.
func ConfigKeys() []ConfigKey {
	return slices.DeleteFunc(slices.Clone(configKeys), func(k ConfigKey) bool { return k.fixed })
}

// splitKey splits a key at its dots. The name of a remote or branch, in the middle, may
// have dots.
func splitKey(key string) []string {
	parts := strings.Split(key, ".")
	if len(parts) > 3 && (parts[0] == "branch" || parts[0] == "remote") {
		parts = []string{parts[0], strings.Join(parts[1:len(parts)-1], "."), parts[len(parts)-1]}
	}
	return parts
}

// findKey returns the description of a key in parts. It reports whether the key is known.
func findKey(parts []string) (ConfigKey, bool) {
	for _, k := range configKeys {
		if matchesKey(k, parts) {
			return k, true
		}
	}
	return ConfigKey{}, false
}

// matchesKey reports whether parts name a key. It runs for each setting and each known key.
func matchesKey(k ConfigKey, parts []string) bool {
	rest, more := k.Name, true
	for _, part := range parts {
		if !more {
			return false
		}
		var want string
		want, rest, more = strings.Cut(rest, ".")
		if want != part && (want != "*" || part == "") {
			return false
		}
	}
	return !more
}

// listed returns the values of a list. A single value is a list of one.
func listed(value any) []any {
	switch v := value.(type) {
	case []any:
		return v
	case []string:
		list := make([]any, len(v))
		for i := range v {
			list[i] = v[i]
		}
		return list
	}
	return []any{value}
}

// SettingError is the error for an unknown key, or for an invalid value. It matches
// [ErrSetting].
type SettingError struct {
	Key  string
	File string // the user's own configuration, if the setting is from there
	Line int    // of the file; 0: not from the file, or unknown
	Near string // a similar key that exists; may be empty
	Err  error
}

func (e *SettingError) Error() string {
	file := "config"
	if e.File != "" {
		file = strconv.Quote(e.File)
	}
	switch {
	case e.Line > 0:
		return fmt.Sprintf("%s, line %d: %s: %v", file, e.Line, e.Key, e.Err)
	case e.File != "":
		return fmt.Sprintf("%s: %s: %v", file, e.Key, e.Err)
	}
	return fmt.Sprintf("config key %q: %v", e.Key, e.Err)
}

// Unwrap returns [ErrSetting] and the cause.
func (e *SettingError) Unwrap() []error { return []error{ErrSetting, e.Err} }

// CheckAliasName returns an error unless name has only letters, digits and dashes of ASCII,
// and does not begin with a dash.
func CheckAliasName(name string) error {
	const letters = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789"
	if name == "" || strings.Trim(name, letters+"-") != "" || name[0] == '-' {
		return errors.New("an alias has letters, digits and dashes only")
	}
	return nil
}

// nearestKey returns the known key that is most similar to an unknown one, or "".
func nearestKey(parts []string) string {
	key := strings.Join(parts, ".")
	best, least := "", 1+max(2, len(key)/3)
	for _, k := range ConfigKeys() {
		name := k.Name
		if want := strings.Split(name, "."); len(want) == len(parts) && len(parts) > 1 && want[1] == "*" {
			if EditDistance(parts[0], want[0], 2) > 2 {
				continue
			}
			want[1] = parts[1]
			name = strings.Join(want, ".")
		}
		if d := EditDistance(strings.ToLower(key), strings.ToLower(name), least); d < least {
			best, least = name, d
		}
	}
	return best
}

// EditDistance returns the number of edits that turn a into b. An edit adds, removes or
// replaces a letter, or swaps two neighbours. If the number is above limit, or a name is
// long, EditDistance returns limit+1.
func EditDistance(a, b string, limit int) int {
	const maxName = 100 // longer names are not compared
	s, t := []rune(a), []rune(b)
	if len(t) > maxName || max(len(s)-len(t), len(t)-len(s)) > limit {
		return limit + 1
	}
	before, last, row := make([]int, len(t)+1), make([]int, len(t)+1), make([]int, len(t)+1)
	for j := range last {
		last[j] = j
	}
	for i := range s {
		row[0] = i + 1
		for j := range t {
			change := last[j]
			if s[i] != t[j] {
				change++
			}
			row[j+1] = min(change, last[j+1]+1, row[j]+1)
			if i > 0 && j > 0 && s[i] == t[j-1] && s[i-1] == t[j] {
				row[j+1] = min(row[j+1], before[j-1]+1)
			}
		}
		before, last, row = last, row, before
	}
	return min(last[len(t)], limit+1)
}

func checkBoolSetting(value any) error {
	if text := fmt.Sprint(value); text != "true" && text != "false" {
		return fmt.Errorf("%q is neither true nor false", text)
	}
	return nil
}

// checkOneOf returns a check for a value that is one of words.
func checkOneOf(words ...string) func(any) error {
	return func(value any) error {
		if text := fmt.Sprint(value); !slices.Contains(words, text) {
			return fmt.Errorf("%q is none of %s", text, strings.Join(words, ", "))
		}
		return nil
	}
}

// checkedBy returns a check for values that parse accepts.
func checkedBy[T any](parse func(string) (T, error)) func(any) error {
	return func(value any) error {
		_, err := parse(fmt.Sprint(value))
		return err
	}
}

// ParseShare parses a share such as "2.5%", greater than 0% and at most 100%.
func ParseShare(text string) (float64, error) {
	digits, ok := strings.CutSuffix(text, "%")
	percent, err := strconv.ParseFloat(digits, 64)
	if !ok || err != nil || !(percent > 0 && percent <= 100) {
		return 0, fmt.Errorf("%q is not a share as in 5%%", text)
	}
	return percent / 100, nil
}

// parseCount parses a number, 0 or more.
func parseCount(text string) (int64, error) {
	n, err := strconv.ParseInt(text, 10, 32)
	if err != nil || n < 0 {
		return 0, fmt.Errorf("%q is not a number from 0 on", text)
	}
	return n, nil
}

func checkAgeSetting(value any) error {
	text := fmt.Sprint(value)
	if _, err := refs.ParseAge(text); err != nil {
		return fmt.Errorf("%q is %w", text, err)
	}
	return nil
}

// checkTextSetting returns a check for texts of one line, which check accepts. If check is
// nil, any text will do.
func checkTextSetting(check func(string) error) func(any) error {
	return func(value any) error {
		text, ok := value.(string)
		switch {
		case !ok:
			return errors.New("the value is not a text in quotes")
		case strings.ContainsAny(text, "\n\r\x00"):
			return errors.New("has more than one line")
		case check == nil:
			return nil
		}
		return check(text)
	}
}

func checkBranchName(name string) error { return refs.CheckName(refs.Heads + name) }

// ParseLock parses the setting of a lock: an age of 1 to 3650 days. ",governance" behind it
// permits some users to end the lock. The age of the result is negative for "off", and 0
// for an empty text.
func ParseLock(text string) (remote.Lock, error) {
	switch text {
	case "":
		return remote.Lock{}, nil
	case "off":
		return remote.Lock{Age: -1}, nil
	}
	span, governance := strings.CutSuffix(text, ",governance")
	age, err := refs.ParseAge(span)
	if err != nil || age < 24*time.Hour || age > rootlog.MaxLock {
		return remote.Lock{}, fmt.Errorf("%q is no lock: write 30d, or 30d,governance, with 1 to 3650 days, or off", text)
	}
	return remote.Lock{Age: age.Truncate(time.Second), Governance: governance}, nil
}

func checkRemoteURL(url string) error {
	switch {
	case url == "":
		return errors.New("a remote needs a URL")
	case remote.HasSecret(url):
		return fmt.Errorf("%q: %w", remote.Redact(url), ErrSecret)
	}
	return nil
}

// DirectoryRenames returns the effect of renamed directories on merges.
func (c *Config) DirectoryRenames() tree.DirectoryRenames {
	switch text, _ := c.Get(KeyDirectoryRenames); text {
	case "true":
		return tree.FollowDirectoryRenames
	case "false":
		return tree.IgnoreDirectoryRenames
	}
	return tree.AskDirectoryRenames
}

// defaultAutoRepack is the value of gc.auto-repack if the key is not set.
const defaultAutoRepack = "16MiB"

// AutoRepack reports whether 'kist gc --auto' repacks data, and returns the least amount of
// data, in bytes, that it repacks.
func (c *Config) AutoRepack() (bool, int64, error) {
	text, set := c.Get("gc.auto-repack")
	if !set {
		text = defaultAutoRepack
	}
	return parseAutoRepack(text)
}

func parseAutoRepack(value any) (bool, int64, error) {
	text := fmt.Sprint(value)
	if text == "false" {
		return false, 0, nil
	}
	size, err := ParseSize(text)
	if err != nil {
		return false, 0, fmt.Errorf("%q is not a size like 64MiB, or false", text)
	}
	return true, int64(size), nil
}

// lineOf returns the number of the line that sets a key, from 1 on, or 0 if it finds none.
// It knows only the forms that kist writes.
func lineOf(data []byte, parts []string) int {
	section, last := strings.Join(parts[:len(parts)-1], "."), parts[len(parts)-1]
	in := ""
	n := 0
	for line := range strings.Lines(string(data)) {
		n++
		line = strings.ReplaceAll(strings.TrimSpace(line), `"`, "")
		if strings.HasPrefix(line, "[") {
			in, _, _ = strings.Cut(strings.Trim(line, "[ "), "]")
			in = strings.TrimSpace(in)
			continue
		}
		name, _, found := strings.Cut(line, "=")
		if name = strings.TrimSpace(name); found && in == section && name == last {
			return n
		}
	}
	return 0
}

// ParseSize parses a number of bytes: "4096", "64KiB", "64k", "1.5 MiB". Units are powers of
// 1024.
func ParseSize(s string) (uint64, error) {
	lower := strings.ToLower(s)
	number := strings.TrimRight(lower, "abcdefghijklmnopqrstuvwxyz")
	unit := strings.TrimSuffix(strings.TrimSuffix(lower[len(number):], "b"), "i")
	number = strings.TrimSpace(number)
	shift := 0
	if unit != "" {
		shift = 10 * (1 + strings.Index("kmgtpe", unit))
	}
	value, err := strconv.ParseFloat(number, 64)
	value *= float64(uint64(1) << shift)
	switch {
	case err != nil, strings.Trim(number, "0123456789.") != "",
		len(unit) > 1, unit != "" && shift == 0,
		value >= math.MaxInt64, value != math.Trunc(value):
		return 0, fmt.Errorf("%q is no size: write it as in 64KiB", s)
	}
	return uint64(value), nil
}
