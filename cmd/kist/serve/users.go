package serve

import (
	"bufio"
	"bytes"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"strings"
	"sync"

	"golang.org/x/crypto/bcrypt"
)

// Limits of logins.
const (
	maxPassword = 72   // bytes; bcrypt ignores the rest
	maxLogins   = 1000 // verified logins that are remembered
	maxHashing  = 2    // passwords hashed at once
	maxCost     = 14   // of a bcrypt hash: a second of work
)

// Users has the users of a server, from a file with lines NAME:HASH as htpasswd -B makes
// them, and their groups, from a file with lines GROUP: NAME NAME. It reads the files again
// after a change. It is safe for concurrent use.
type Users struct {
	users, groups *watched

	secret  []byte        // random key of this process for the hashes in verified, so that no table of hashes fits them
	hashing chan struct{} // has maxHashing places

	mu       sync.Mutex
	verified map[[sha256.Size]byte]bool
}

// otherHash returns a hash for unknown users. No password has it, except by chance.
var otherHash = sync.OnceValues(func() ([]byte, error) {
	return bcrypt.GenerateFromPassword([]byte(rand.Text()), bcrypt.DefaultCost)
})

// watched is a file that is parsed again after a change.
type watched struct {
	path  string
	parse func([]byte) (map[string]string, error)

	mu     sync.Mutex
	info   fs.FileInfo
	values map[string]string
}

// OpenUsers reads the files. The path of each may be "". Errors name the line, but never
// its content.
func OpenUsers(users, groups string) (*Users, error) {
	u := &Users{
		users: &watched{path: users, parse: parseUsers}, groups: &watched{path: groups, parse: parseGroups},
		secret: []byte(rand.Text()), hashing: make(chan struct{}, maxHashing), verified: map[[sha256.Size]byte]bool{},
	}
	if _, err := u.users.load(); err != nil {
		return nil, err
	}
	_, err := u.groups.load()
	return u, err
}

// load returns the values in the file. If the file is faulty after a change, the former
// values stay, and load returns them with the error.
func (w *watched) load() (map[string]string, error) {
	if w.path == "" {
		return nil, nil
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	info, err := os.Stat(w.path)
	if err != nil {
		return w.values, err
	}
	if w.info != nil && os.SameFile(info, w.info) && info.Size() == w.info.Size() && info.ModTime().Equal(w.info.ModTime()) {
		return w.values, nil
	}
	data, err := os.ReadFile(w.path)
	if err != nil {
		return w.values, err
	}
	values, err := w.parse(data)
	if err != nil {
		return w.values, fmt.Errorf("%s: %w", w.path, err)
	}
	w.values, w.info = values, info
	return values, nil
}

// lines calls each for the lines of a file that are not empty and no comments, cut at the
// first colon.
func lines(data []byte, each func(name, rest string) error) error {
	scanner := bufio.NewScanner(bytes.NewReader(data))
	for n := 1; scanner.Scan(); n++ {
		line := strings.TrimSpace(scanner.Text())
		if line == "" || line[0] == '#' {
			continue
		}
		name, rest, ok := strings.Cut(line, ":")
		err := errors.New("a colon is missing")
		if ok {
			err = each(strings.TrimSpace(name), strings.TrimSpace(rest))
		}
		if err != nil {
			return fmt.Errorf("line %d: %w", n, err)
		}
	}
	return scanner.Err()
}

// parseUsers returns the hash of each user.
func parseUsers(data []byte) (map[string]string, error) {
	values := map[string]string{}
	err := lines(data, func(name, hash string) error {
		cost, err := bcrypt.Cost([]byte(hash))
		switch {
		case err != nil:
			return errors.New("the password is not hashed with bcrypt: htpasswd -B does that")
		case cost > maxCost:
			return fmt.Errorf("the hash has cost %d, the limit is %d", cost, maxCost)
		case name == "" || values[name] != "":
			return errors.New("the name is empty, or occurs twice")
		case reserved(name):
			return errors.New("a user cannot have this name: it has a meaning in rules of access")
		}
		values[name] = hash
		return nil
	})
	if err == nil && len(values) == 0 {
		err = errors.New("it has no user")
	}
	return values, err
}

// parseGroups returns the groups of each user, separated by commas.
func parseGroups(data []byte) (map[string]string, error) {
	values := map[string]string{}
	err := lines(data, func(group, names string) error {
		if group == "" || strings.Contains(group, ",") || reserved(group) {
			return errors.New("a group cannot have this name")
		}
		for _, name := range strings.Fields(strings.ReplaceAll(names, ",", " ")) {
			values[name] += group + ","
		}
		return nil
	})
	return values, err
}

// login reports whether users log in with a password.
func (u *Users) login() bool { return u != nil && u.users.path != "" }

// Groups returns the groups of a user.
func (u *Users) Groups(name string) []string {
	if u == nil {
		return nil
	}
	groups, _ := u.groups.load()
	list := strings.Split(groups[name], ",")
	return slices.DeleteFunc(list, func(g string) bool { return g == "" })
}

// Verify reports whether a password is that of a user. It remembers successful logins, so
// only the first one is slow. Before it hashes a password, Verify calls mayTry, and returns
// false if mayTry does. The error is about the files.
func (u *Users) Verify(name, password string, mayTry func() bool) (bool, error) {
	users, err := u.users.load()
	hash, known := users[name]
	if !known { // an unknown user takes as long as a known one
		other, herr := otherHash()
		hash, err = string(other), errors.Join(err, herr)
	}
	mac := hmac.New(sha256.New, u.secret)
	fmt.Fprintf(mac, "%q %q %q", name, password, hash)
	key := [sha256.Size]byte(mac.Sum(nil))
	u.mu.Lock()
	verified := u.verified[key]
	u.mu.Unlock()
	if verified && known {
		return true, err
	}
	if len(password) > maxPassword || !mayTry() {
		return false, err
	}

	u.hashing <- struct{}{}
	ok := bcrypt.CompareHashAndPassword([]byte(hash), []byte(password)) == nil && known
	<-u.hashing
	if ok {
		u.mu.Lock()
		defer u.mu.Unlock()
		if len(u.verified) >= maxLogins {
			clear(u.verified)
		}
		u.verified[key] = true
	}
	return ok, err
}

// UserLine returns the line of a user with a password for the file of [OpenUsers].
func UserLine(name, password string) (string, error) {
	switch {
	case name == "" || reserved(name) || strings.TrimSpace(name) != name || strings.ContainsAny(name, ":,#\r\n\x00"):
		return "", fmt.Errorf("%q cannot be the name of a user", name)
	case password == "" || len(password) > maxPassword:
		return "", fmt.Errorf("a password has 1 to %d bytes", maxPassword)
	}
	hash, err := bcrypt.GenerateFromPassword([]byte(password), bcrypt.DefaultCost)
	return name + ":" + string(hash), err
}
