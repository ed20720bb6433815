package cli

import (
	"errors"
	"path/filepath"

	"github.com/kist-vcs/kist"
)

// loadUserConfig reads the user's own configuration. It is empty without a home folder, as
// in some jobs of cron.
func loadUserConfig(env *Env) (*kist.UserConfig, error) {
	dir, err := ConfigHome(env)
	if err != nil {
		return kist.LoadUserConfig("")
	}
	return kist.LoadUserConfig(filepath.Join(dir, "kist", "config"))
}

// NearKey adds the similar key to the error for an unknown key.
func NearKey(err error) error {
	var bad *kist.SettingError
	if errors.As(err, &bad) && bad.Near != "" {
		return Hintf(err, "did you mean %s?", QuoteArg(bad.Near))
	}
	return err
}

// ConfigHome returns the folder of the user's configuration files.
func ConfigHome(env *Env) (string, error) {
	if dir := env.Getenv("XDG_CONFIG_HOME"); filepath.IsAbs(dir) { // others do not count
		return dir, nil
	}
	if home := env.Getenv("HOME"); home != "" {
		return filepath.Join(home, ".config"), nil
	}
	return "", Failf(ExitFailed, "", "neither HOME nor XDG_CONFIG_HOME is set: no place for the user's configuration")
}
