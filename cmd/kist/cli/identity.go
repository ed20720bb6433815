package cli

import "time"

// author returns who a commit is by: the environment's word, then the
// configuration's (name and email, empty where it has none), then the user of
// this machine. It never fails: a server that makes backups has nobody to ask.
func (e *Env) author(name, email string) (string, string) {
	if v := e.Getenv("KIST_AUTHOR_NAME"); v != "" {
		name = v
	}
	if v := e.Getenv("KIST_AUTHOR_EMAIL"); v != "" {
		email = v
	}
	if name == "" {
		name = e.Username
	}
	if email == "" {
		email = e.Username + "@" + e.Hostname
	}
	return name, email
}

// commitTime returns the time that is recorded in what a command writes: now,
// unless KIST_DATE fixes it for a script whose commits are to come out equal.
func (e *Env) commitTime() (time.Time, error) {
	fixed := e.Getenv("KIST_DATE")
	if fixed == "" {
		return e.Now(), nil
	}
	t, err := time.Parse(time.RFC3339Nano, fixed)
	if err != nil {
		return time.Time{}, usagef("KIST_DATE %s is not a time as in 2026-01-31T12:00:00Z", quoteArg(fixed))
	}
	return t, nil
}
