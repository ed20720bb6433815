package cli

import (
	"errors"
	"path/filepath"

	"github.com/kist-vcs/kist"
)

// loadUserConfig reads the user's own configuration. It is empty without a home folder, as
// in some jobs of cron.
func loadUserConfig(env *Env) (*kist.UserConfig, error) {
	dir, err := configHome(env)
	if err != nil {
		return kist.LoadUserConfig("")
	}
	return kist.LoadUserConfig(filepath.Join(dir, "kist", "config"))
}

// nearKey adds the similar key to the error for an unknown key.
func nearKey(err error) error {
	var bad *kist.SettingError
	if errors.As(err, &bad) && bad.Near != "" {
		return hintf(err, "did you mean %s?", quoteArg(bad.Near))
	}
	return err
}

// configHome returns the folder of the user's configuration files.
func configHome(env *Env) (string, error) {
	if dir := env.Getenv("XDG_CONFIG_HOME"); filepath.IsAbs(dir) { // others do not count
		return dir, nil
	}
	if home := env.Getenv("HOME"); home != "" {
		return filepath.Join(home, ".config"), nil
	}
	return "", failf(exitFailed, "", "neither HOME nor XDG_CONFIG_HOME is set: no place for the user's configuration")
}
