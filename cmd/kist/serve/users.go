package serve

import (
	"bufio"
	"bytes"
	"context"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"io/fs"
	"maps"
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
	maxWaiting  = 64   // passwords that wait for it
	maxCost     = 14   // of a bcrypt hash: a second of work
)

// Users has the users of a server, from a file with lines NAME:HASH as htpasswd -B makes
// them, and their groups, from a file with lines GROUP: NAME NAME. It reads the files again
// after a change. It is safe for concurrent use.
type Users struct {
	users, groups *watched

	secret  []byte        // random key of this process for the hashes in verified, so that no table of hashes fits them
	hashing chan struct{} // has maxHashing places
	waiting chan struct{} // has maxWaiting places

	mu       sync.Mutex
	verified map[login]bool
	guesses  map[login]*guess // under way
}

// login is the keyed hash of a client, a name, a password and the hash of the password. A login of
// one client says nothing to another: it could try any number of passwords.
type login [sha256.Size]byte

// guess is the check of a password. Requests with the same login share one.
type guess struct {
	done    chan struct{} // closed at the end
	verdict verdict       // set before
}

// verdict is the result of a check.
type verdict int

const (
	unknown verdict = iota // the client of the check has gone
	wrong
	right
	tooMany // the client must not guess now
	busy    // the server must not check more passwords now
)

// otherHash returns the hash with which the password of an unknown user is compared. No password
// has it, except by chance. It costs as much as the hash of one of the users, always the same one
// for a name. So the time of an answer does not reveal whether a name exists.
func (u *Users) otherHash(name string, users map[string]string) string {
	cost := bcrypt.DefaultCost
	if len(users) > 0 {
		sum := u.keyedHash("cost", name)
		names := slices.Sorted(maps.Keys(users))
		cost, _ = bcrypt.Cost([]byte(users[names[binary.BigEndian.Uint64(sum[:])%uint64(len(names))]]))
	}
	const salted = 53 // letters of the salt and the hash; those of rand.Text are allowed there
	return fmt.Sprintf("$2a$%02d$%s", cost, (rand.Text() + rand.Text() + rand.Text())[:salted])
}

// keyedHash returns a hash of texts that only this process can compute.
func (u *Users) keyedHash(texts ...string) login {
	mac := hmac.New(sha256.New, u.secret)
	fmt.Fprintf(mac, "%q", texts)
	return login(mac.Sum(nil))
}

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
		secret: []byte(rand.Text()), hashing: make(chan struct{}, maxHashing), waiting: make(chan struct{}, maxWaiting),
		verified: map[login]bool{}, guesses: map[login]*guess{},
	}
	if _, err := u.users.loadValues(); err != nil {
		return nil, err
	}
	_, err := u.groups.loadValues()
	return u, err
}

// loadValues returns the values in the file. If the file is faulty after a change, the former
// values stay, and load returns them with the error.
func (w *watched) loadValues() (map[string]string, error) {
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

// needsLogin reports whether users log in with a password.
func (u *Users) needsLogin() bool { return u != nil && u.users.path != "" }

// Groups returns the groups of a user.
func (u *Users) Groups(name string) []string {
	if u == nil {
		return nil
	}
	groups, _ := u.groups.loadValues()
	list := strings.Split(groups[name], ",")
	return slices.DeleteFunc(list, func(g string) bool { return g == "" })
}

// verifyPassword checks a password of a user. It remembers successful logins of a client, so only the first
// one is slow. Before it hashes a password, verify calls reserve, and afterwards the returned function
// with the result. The error is about the files.
func (u *Users) verifyPassword(ctx context.Context, client, name, password string, reserve func() (settle func(failed bool), ok bool)) (verdict, error) {
	users, err := u.users.loadValues()
	hash, known := users[name]
	key := u.keyedHash(client, name, password, hash)
	for {
		g, first := u.joinCheck(key, known)
		switch {
		case g == nil:
			return right, err
		case first:
			defer u.endCheck(key, g)
			g.verdict = u.compareHash(ctx, name, password, users, reserve)
			return g.verdict, err
		}

		select {
		case <-g.done:
		case <-ctx.Done():
			return unknown, err
		}
		if g.verdict != unknown {
			return g.verdict, err
		}
	}
}

// joinCheck returns the check of a login that is under way. If there is none, it begins one, and
// first is set. The check is nil if the login of a known user was right before.
func (u *Users) joinCheck(key login, known bool) (g *guess, first bool) {
	u.mu.Lock()
	defer u.mu.Unlock()
	if known && u.verified[key] {
		return nil, false
	}
	if g = u.guesses[key]; g != nil {
		return g, false
	}
	g = &guess{done: make(chan struct{})}
	u.guesses[key] = g
	return g, true
}

// endCheck ends a check.
func (u *Users) endCheck(key login, g *guess) {
	u.mu.Lock()
	defer u.mu.Unlock()
	if g.verdict == right {
		if len(u.verified) >= maxLogins {
			clear(u.verified)
		}
		u.verified[key] = true
	}
	delete(u.guesses, key)
	close(g.done)
}

// compareHash compares a password with the hash of a user. The hash of an unknown name has the same
// cost.
func (u *Users) compareHash(ctx context.Context, name, password string, users map[string]string, reserve func() (settle func(failed bool), ok bool)) (v verdict) {
	if len(password) > maxPassword {
		return wrong
	}
	settle, ok := reserve()
	if !ok {
		return tooMany
	}
	defer func() { settle(v == wrong) }()
	select {
	case u.waiting <- struct{}{}:
		defer func() { <-u.waiting }()
	default:
		return busy
	}
	select {
	case u.hashing <- struct{}{}:
		defer func() { <-u.hashing }()
	case <-ctx.Done():
		return unknown
	}

	other := u.otherHash(name, users)
	hash, known := users[name]
	if !known {
		hash = other
	}
	if bcrypt.CompareHashAndPassword([]byte(hash), []byte(password)) == nil && known {
		return right
	}
	return wrong
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
