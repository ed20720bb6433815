package cli

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"

	"github.com/kist-vcs/kist"
)

// trustedUsers returns the users whose repositories are trusted: the user of this process,
// and for root under sudo also the user who called sudo.
func trustedUsers() []int {
	users := []int{os.Geteuid()}
	if uid, err := strconv.Atoi(os.Getenv("SUDO_UID")); err == nil && os.Geteuid() == 0 {
		users = append(users, uid)
	}
	return users
}

// configHome returns the folder of the user's configuration files.
func configHome(env *Env) (string, error) {
	if dir := env.Getenv("XDG_CONFIG_HOME"); dir != "" {
		return dir, nil
	}
	if home := env.Getenv("HOME"); home != "" {
		return filepath.Join(home, ".config"), nil
	}
	return "", failf(exitFailed, "", "neither HOME nor XDG_CONFIG_HOME is set: no place for the user's configuration")
}

// userConfig reads the user's own configuration.
func userConfig(env *Env) (*kist.UserConfig, error) {
	dir, err := configHome(env)
	if err != nil {
		return nil, err
	}
	return kist.LoadUserConfig(filepath.Join(dir, "kist", "config"))
}

// checkOwner returns an error if the worktree root or its .kist belongs to an untrusted
// user, whose files could make this process do anything. It returns nil if there is no
// repository.
func checkOwner(env *Env, root string) error {
	owner, stranger := 0, ""
	paths := []string{filepath.Join(root, kist.Dir), root}
	if kist.IsBareDir(root) {
		paths = []string{realPath(root)}
	}

	for _, path := range paths {
		info, err := os.Lstat(path)
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		if err != nil {
			return err
		}
		st, ok := info.Sys().(*syscall.Stat_t)
		if ok && info.Mode()&fs.ModeSymlink == 0 && !slices.Contains(env.Owners, int(st.Uid)) && stranger == "" {
			owner, stranger = int(st.Uid), path
		}
	}
	if stranger == "" || len(env.Owners) == 0 {
		return nil
	}
	if config, err := userConfig(env); err == nil && trusts(config.Safe.Directory, root) {
		return nil
	} else if isA[*kist.ConfigError](err) {
		return err
	}
	return hintf(failf(exitFailed, "owner", "%s belongs to another user (ID %d)", quotePath(stranger), owner),
		"if you trust whoever that is: kist config --global --add safe.directory %s", shellWord(realPath(root)))
}

// shellWord quotes text as one word of a shell's command line. It escapes characters that
// control a terminal.
func shellWord(text string) string {
	if strings.Trim(text, wordCharacters) == "" {
		return text
	}
	if quoted := strconv.Quote(text); quoted != `"`+text+`"` || strings.Contains(text, "'") {
		return "$'" + strings.ReplaceAll(strings.ReplaceAll(quoted[1:len(quoted)-1], `\"`, `"`), "'", `\'`) + "'"
	}
	return "'" + text + "'"
}

// wordCharacters have no meaning to a shell.
const wordCharacters = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789/._-+,:@%"

// trusts reports whether a list of trusted folders has root, or is "*".
func trusts(list []string, root string) bool {
	return slices.ContainsFunc(list, func(dir string) bool { return dir == "*" || realPath(dir) == realPath(root) })
}

// realPath returns a path with all symlinks resolved, if the path exists.
func realPath(path string) string {
	if real, err := filepath.EvalSymlinks(path); err == nil {
		return real
	}
	return filepath.Clean(path)
}

// warnReadable warns if other users can read the stored content. Old versions of kist
// created such repositories.
func warnReadable(env *Env, r *kist.Repository) {
	dir := r.Dir()
	info, err := os.Lstat(dir)
	if err != nil {
		return
	}
	mode := info.Mode()
	if mode&0o007 != 0 || mode&0o070 != 0 && mode&fs.ModeSetgid == 0 {
		env.warn("other users can read what is stored in %s (%v): 'chmod 700 %s' ends that", quotePath(dir), mode, shellWord(dir))
	}
}

// runGlobalConfig changes the user's own configuration, or prints it.
func runGlobalConfig(env *Env, o configOptions, args []string) error {
	config, err := userConfig(env)
	if err != nil {
		return err
	}
	action, args, err := o.settle(args)
	if err != nil {
		return err
	}
	lists := []string{kist.KeySafeDirectory, kist.KeySafeHooks}
	if len(args) > 0 && !slices.Contains(append(lists, kist.UserKeys()...), args[0]) {
		return usagef("--global has the keys %s and %s only, not %s", strings.Join(lists, ", "), strings.Join(kist.UserKeys(), ", "), quoteArg(args[0]))
	}
	if action != "get" && action != "list" {
		return setGlobal(env, config, action, args)
	}
	for _, key := range append(lists, kist.UserKeys()...) {
		if action == "get" && args[0] != key {
			continue
		}
		values := config.List(key)
		if values == nil {
			values = new([]string)
			if value := config.Backup[strings.TrimPrefix(key, kist.KeyBackup)]; value != "" {
				*values = []string{value}
			}
		}
		for _, value := range *values {
			label := ""
			if action == "list" {
				label = key + "="
			}
			printValue(env, key, value, label)
		}
	}
	return nil
}

// setGlobal sets, adds or unsets a key of the user's own configuration.
func setGlobal(env *Env, config *kist.UserConfig, action string, args []string) error {
	isList := config.List(args[0]) != nil
	switch {
	case isList && action == "unset":
		return usagef("--global and --unset cannot be used together for %s", args[0])
	case isList && action == "set":
		return usagef("want: kist config --global --add %s DIR", args[0])
	case isList:
		dir := args[1]
		if dir != "*" {
			dir = realPath(env.path(dir))
		}
		return config.Trust(args[0], dir)
	case action == "add":
		return usagef("%s has one value: leave out --add", args[0])
	case action == "unset":
		return config.Set(args[0], "")
	default:
		return config.Set(args[0], args[1])
	}
}
