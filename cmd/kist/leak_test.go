package main

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/binary"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/kist-vcs/kist"
	"github.com/kist-vcs/kist/object"
	"github.com/kist-vcs/kist/remote"
	"github.com/kist-vcs/kist/remote/crypt"
	"github.com/kist-vcs/kist/remote/keyset"
	"github.com/kist-vcs/kist/remote/transfer"
)

// canaries runs commands with secrets that exist nowhere else, and finds the secrets that get out.
type canaries struct {
	watched
	encrypted bool

	anna, berta *shell            // the owner of the remote, and a recipient
	words       map[string]string // secrets that are words, by kind
	secrets     *leakFinder       // the store may have none
	keys        *leakFinder       // no output, file or child may have one
	ids         map[object.ID]bool

	outputs map[string][]byte // of commands
	odd     map[string]int64  // sizes of files on the store outside the classes
}

func newCanaries(t *testing.T, open func(t testing.TB, path string) watched, encrypted bool) *canaries {
	c := &canaries{
		encrypted: encrypted, words: map[string]string{}, secrets: newLeakFinder(), keys: newLeakFinder(),
		ids: map[object.ID]bool{}, outputs: map[string][]byte{}, odd: map[string]int64{},
	}
	path := randomWord()
	c.watched = open(t, path)
	if !c.hasPath {
		c.words["path"] = path
		c.secrets.add("path", []byte(path))
	}

	env := []string{
		"KIST_AUTHOR_NAME=" + c.word("author"), "KIST_AUTHOR_EMAIL=" + c.word("address") + "@example.org",
		"KIST_DEBUG=" + filepath.Join(c.root, "log"), "KIST_DATE=2026-01-31T12:00:00Z",
	}
	c.anna, c.berta = c.folder().in(c.word("worktree")).with(env...), c.folder().in("b").with(env...)
	for _, s := range []*shell{c.anna, c.berta} {
		s.env = append(s.env, "HOME="+s.path("../home"))
		if err := errors.Join(os.Mkdir(s.dir, 0o755), os.Mkdir(s.path("../home"), 0o755)); err != nil {
			t.Fatal(err)
		}
	}
	return c
}

// randomWord returns a new word of 16 letters.
func randomWord() string { return strings.ToLower(rand.Text()[:16]) }

// word returns the secret word of a kind.
func (c *canaries) word(kind string) string {
	if c.words[kind] == "" {
		c.words[kind] = randomWord()
		c.secrets.add(kind, []byte(c.words[kind]))
	}
	return c.words[kind]
}

// noise returns content that does not compress. Each part of it is a secret.
func (c *canaries) noise(kib int) string {
	data := make([]byte, kib<<10)
	rand.Read(data)
	for part := range slices.Chunk(data, 4<<10) {
		c.secrets.add("content", part[:16])
	}
	return string(data)
}

// addKey adds a secret that nothing but files of identities may have.
func (c *canaries) addKey(kind string, secret []byte) {
	c.secrets.add(kind, secret)
	c.keys.add(kind, secret)
}

// addIdentity adds the identity in a file: its text, in small letters too, and the key in it.
func (c *canaries) addIdentity(kind, path string) {
	c.Helper()
	data, err := os.ReadFile(path)
	if err != nil {
		c.Fatal(err)
	}
	_, text, _ := strings.Cut(string(data), "AGE-SECRET-KEY-PQ-1")
	text, _, _ = strings.Cut(text, "\n")
	if len(text) < 50 {
		c.Fatalf("%s has no identity: %q", path, data)
	}
	c.addKey(kind, []byte(text))
	c.addKey(kind, []byte(strings.ToLower(text)))
	c.addKey(kind, bytesOfBech32(text))
}

// bytesOfBech32 returns the bytes in the data part of a bech32 text, without its checksum.
func bytesOfBech32(text string) (data []byte) {
	bits, n := 0, 0
	for _, c := range strings.ToLower(text[:len(text)-6]) {
		bits, n = bits<<5|strings.IndexRune("qpzry9x8gf2tvdw0s3jn54khce6mua7l", c), n+5
		if n >= 8 {
			data, n = append(data, byte(bits>>(n-8))), n-8
			bits &= 1<<n - 1
		}
	}
	return data
}

// run runs a command, wants an exit status, and learns the secrets that it made.
func (c *canaries) run(s *shell, status int, args ...string) outcome {
	c.Helper()
	return c.ended(s, status, s.here(args...))
}

// ended notes the outcome of a command.
func (c *canaries) ended(s *shell, status int, o outcome) outcome {
	c.Helper()
	if o.status != status {
		c.Fatalf("want exit status %d: %v", status, o)
	}
	command := fmt.Sprint(len(c.outputs), ": ", strings.Join(o.args, " "))
	c.outputs[command] = []byte(o.stdout + o.stderr)
	c.outputs[command+", without spaces"] = []byte(strings.Join(strings.Fields(o.stdout+o.stderr), ""))
	c.learnObjects(s)
	return o
}

// checkSizes notes the files of the store with a size outside the classes.
func (c *canaries) checkSizes() {
	c.Helper()
	for name, size := range c.list() {
		if isOddSize(name, size) {
			c.odd[name] = size
		}
	}
}

// isOddSize reports whether a file of an encrypted remote has a size outside the classes.
func isOddSize(name string, size int64) bool {
	folder, _, _ := strings.Cut(name, "/")
	header := map[string]int64{"packs": 88, "index": 88, "state": 88, "root": 120}[folder]
	if header == 0 {
		return false
	}
	const segment, tag = 16 << 10, 16
	size -= header
	whole, rest := size/(segment+tag), size%(segment+tag)
	padded := whole*segment + max(0, rest-tag)
	return rest > 0 && rest <= tag || crypt.Pad(padded) != padded
}

// learnObjects adds the IDs of the objects of a repository, and its chunking parameters.
func (c *canaries) learnObjects(s *shell) {
	c.Helper()
	if _, err := os.Stat(s.path(kist.Dir)); err != nil {
		return
	}
	s.open(func(ctx context.Context, r *kist.Repository) error {
		if len(c.ids) == 0 {
			digits := strings.TrimPrefix(r.Config().Chunker.Polynomial, "0x")
			n, err := strconv.ParseUint(digits, 16, 64)
			if err != nil {
				return err
			}
			for _, form := range [][]byte{
				[]byte(digits), strconv.AppendUint(nil, n, 10), binary.BigEndian.AppendUint64(nil, n), binary.LittleEndian.AppendUint64(nil, n),
			} {
				c.secrets.add("polynomial", form)
			}
			c.secrets.add("ID of the repository", []byte(r.ID()))
		}
		for key, err := range r.Objects().Keys(ctx) {
			if err != nil {
				return err
			}
			if !c.ids[key.ID] {
				c.ids[key.ID] = true
				c.secrets.add("ID of a "+key.Kind.String(), key.ID[:8])
			}
		}
		return nil
	})
}

// learnKeys adds the keys of all epochs.
func (c *canaries) learnKeys() {
	c.Helper()
	identities := keyset.NewIdentities(keyset.Places{Own: c.anna.path("../home/.config/kist/identities")})
	r, err := transfer.Open(c.Context(), notClosed{c.backend}, transfer.Options{Now: time.Now, Keys: transfer.Keys{Identities: identities}})
	if err != nil {
		c.Fatal(err)
	}
	defer r.Close()
	opened, _, err := r.Keyset(c.Context())
	if err != nil {
		c.Fatal(err)
	}
	for _, e := range opened.Epochs {
		c.addKey("key of an epoch", e.Key.Secret())
	}
}

// notClosed is a store that somebody else closes.
type notClosed struct{ remote.Backend }

func (notClosed) Close() error { return nil }

// damage flips a byte in the middle of the first file of a folder of the store, or of each keyset: some are old.
func (c *canaries) damage(folder string) {
	c.Helper()
	blobs := c.blobs()
	names := slices.DeleteFunc(slices.Sorted(maps.Keys(blobs)), func(name string) bool { return !strings.HasPrefix(name, folder) })
	if len(names) == 0 {
		c.Fatalf("the store has no %s", folder)
	}
	if folder != "keys/" {
		names = names[:1]
	}
	for _, name := range names {
		data := []byte(blobs[name])
		data[len(data)/2] ^= 1
		ctx := c.Context()
		if err := errors.Join(c.backend.Delete(ctx, name), c.backend.Put(ctx, name, bytes.NewReader(data), int64(len(data)))); err != nil {
			c.Fatal(err)
		}
	}
}

// spy is a shell command that notes its variables, its standard input, and the arguments of its parent.
func (c *canaries) spy() string {
	return "(env; cat; tr '\\0' '\\n' </proc/$PPID/cmdline) </dev/stdin >>'" + filepath.Join(c.root, "children") + "'"
}

// edit changes the files of a repository.
func (c *canaries) edit(s *shell, kib int) {
	c.Helper()
	s.write(map[string]string{
		c.word("folder") + "/" + c.word("name"): c.noise(kib),
		c.word("folder") + "/text":              strings.Repeat(c.word("text")+" in a text\n", 20) + rand.Text(),
		c.word("folder") + "/secret":            c.noise(70),
	})
}

// begin makes the repository, the remote, and the first push.
func (c *canaries) begin() {
	c.Helper()
	a := c.anna
	c.run(a, 0, "init", "--chunk-size", "64KiB")
	c.edit(a, 700)
	many := 500 // enough for an index file
	if c.slow {
		many = 5
	}
	for i := range many {
		a.write(map[string]string{fmt.Sprintf("many/%s%d", c.word("name"), i): c.noise(1)})
	}
	c.run(a, 0, "add", ".")
	c.run(a, 0, "commit", "-m", c.word("message"))
	c.run(a, 0, "branch", "-m", c.word("branch"))
	c.run(a, 0, "tag", "-m", c.word("message of a tag"), c.word("tag"))
	if c.encrypted {
		c.run(a, 0, "remote", "add", "--encrypted", "--recovery-file", "../recovery", "origin", c.url)
		c.addIdentity("identity", a.path("../home/.config/kist/identities"))
		c.addIdentity("recovery key", a.path("../recovery"))
		c.learnKeys()
	} else {
		c.run(a, 0, "remote", "add", "origin", c.url)
	}
	c.run(a, 0, "push", "-u", "--all", "--tags", "-v", "origin")
}

// share lets berta read the remote, who pushes, and takes her key away.
func (c *canaries) share() {
	c.Helper()
	a, b := c.anna, c.berta
	if c.encrypted {
		c.run(b, 16, "clone", c.url, ".")
		key := c.run(b, 0, "key", "new").stdout
		c.addIdentity("identity", b.path("../home/.config/kist/identities"))
		c.run(a, 0, "key", "add", "origin", "--name", c.word("recipient"), strings.TrimSpace(key))
		a.write(map[string]string{"../passphrase": randomWord()})
		c.addKey("passphrase", []byte(a.textOf("../passphrase")))
		c.run(a.with("KIST_PASSWORD_FILE=../passphrase"), 0, "key", "add", "origin", "--passphrase")
	}
	c.run(b, 0, "clone", "-v", c.url, ".")
	c.edit(b, 100)
	c.run(b, 0, "add", "-A", ".")
	c.run(b, 0, "commit", "-m", c.word("second message"))
	c.run(b, 0, "push", "--json")
	c.run(a, 0, "fetch", "-v")
	c.run(a, 0, "pull", "--json")
	if !c.encrypted {
		return
	}

	ask := c.spy() + "; cat '" + a.path("../passphrase") + "'"
	third := a.in("../third")
	c.ended(third, 0, a.with("HOME="+c.root, "KIST_PASSWORD_COMMAND="+ask).runProcess("clone", "-v", c.url, third.dir))
	c.run(a, 0, "key", "rotate", "-v", "origin")
	c.learnKeys()
	c.run(a, 0, "key", "remove", "origin", c.words["recipient"])
	c.learnKeys()
	c.run(a, 0, "key", "list", "origin", "--json")
	c.run(a, 0, "key", "list", "origin")
	c.edit(a, 100)
	c.run(a, 0, "commit", "-a", "-m", c.word("third message"))
	c.run(a, 0, "push")
	c.run(b, 16, "fetch", "-v")
}

// repair has files of the remote damaged and repaired.
func (c *canaries) repair() {
	c.Helper()
	a := c.anna
	if c.encrypted {
		c.run(a, 0, "key", "export", "origin", "../exported")
		c.damage("keys/")
		c.run(a, 11, "verify", "--remote", "origin")
		c.run(a, 0, "verify", "--remote", "origin", "--repair", "-v")
	}
	for _, folder := range []string{"index/", "packs/"} {
		c.damage(folder)
		c.run(a, 11, "verify", "--remote", "origin", "--read-data", "--json")
		c.run(a, 0, "verify", "--remote", "origin", "--repair", "-v")
	}
	c.run(a, 0, "verify", "--remote", "origin", "--read-data")
}

// care backs up and looks after the remote.
func (c *canaries) care() {
	c.Helper()
	a := c.anna
	c.edit(a, 2100)
	c.ended(a, 0, a.runProcess("backup", "-v", "--local-limit", "1MB", "-m", c.word("message of a backup"), "--host", c.word("host"),
		"--label", c.word("label"), "--before", c.spy(), "--after", c.spy(), "--check", "50%"))
	c.run(a, 0, "hold", "add", c.words["tag"], "--reason", c.word("reason of a hold"))
	c.run(a, 0, "expire", "HEAD~1")
	c.run(a, 0, "purge", "--yes", "--reason", c.word("reason of a purge"), "HEAD:"+c.words["folder"]+"/secret")
	c.run(a, 0, "push", "-v")
	c.checkSizes()
	c.run(a, 0, "remote", "gc", "--grace", "now", "--max-waste", "0%", "origin", "-v")
	c.run(a, 0, "remote", "gc", "--grace", "now", "--repack", "origin", "--json")
	if c.encrypted {
		c.run(a, 0, "remote", "gc", "--grace", "now", "--rekey", "origin", "-v")
	}
	for _, args := range [][]string{
		{"check-age", "-v", "--max", "99y"}, {"remote", "log"}, {"remote", "log", "--json"}, {"remote", "show", "origin"}, {"ls-remote"}, {"stats"}, {"gc"},
		{"config", "list"}, {"push", "origin", "--delete", c.words["tag"]}, {"remote", "gc", "origin"}, {"verify"},
	} {
		c.run(a, 0, args...)
	}
	if c.encrypted {
		b := c.berta
		again := b.in("../again")
		c.ended(again, 3, b.with("KIST_IDENTITY="+a.path("../recovery")).here("clone", "-v", c.url, again.dir)) // a content is purged
	}
}

// leaks returns the kinds of the secrets that a finder finds, each with the place.
func leaks(f *leakFinder, in map[string][]byte) map[string]string {
	found := map[string]string{}
	for _, where := range slices.Sorted(maps.Keys(in)) {
		for kind, form := range f.find(in[where]) {
			found[kind] = where + ": " + form
		}
	}
	return found
}

// written returns the files of the clones, of their users' configuration and of the log, without those with identities.
func (c *canaries) written() map[string][]byte {
	c.Helper()
	all := map[string][]byte{}
	err := filepath.WalkDir(c.root, func(path string, e fs.DirEntry, err error) error {
		if err != nil || !e.Type().IsRegular() || slices.Contains([]string{"identities", "recovery", "passphrase"}, e.Name()) {
			return err
		}
		all[path], err = os.ReadFile(path)
		return err
	})
	if err != nil {
		c.Fatal(err)
	}
	return all
}

// TestCanaries runs all commands that write or read a remote. An encrypted remote gets nothing that is secret: no content, name,
// message, branch, ID, no beginning of one, no parameter of the chunker and no key. Sizes are of few classes. No
// output, log or file, and no child process gets a key. A clear remote shows that the test finds all kinds.
func TestCanaries(t *testing.T) {
	t.Parallel()
	for store, open := range watchedStores {
		t.Run(store, func(t *testing.T) {
			t.Parallel()
			c := newCanaries(t, open, true)
			stored := c.play()
			for kind, where := range leaks(c.secrets, stored) {
				t.Errorf("the store gets a secret, %s: %s", kind, where)
			}
			for name, size := range c.odd {
				t.Errorf("%s has a size outside the classes: %d", name, size)
			}

			written := c.written()
			children := written[filepath.Join(c.root, "children")]
			for i, sign := range []string{"KIST_DEBUG=", "KIST_PASSWORD_COMMAND=", "clone", "--local-limit", `"steps"`} {
				if (i < 3 || !c.slow) && !bytes.Contains(children, []byte(sign)) {
					t.Errorf("the notes of the child processes have no %s: %.4000s", sign, children)
				}
			}
			for what, in := range map[string]map[string][]byte{"output": c.outputs, "files": written} {
				for kind, where := range leaks(c.keys, in) {
					t.Errorf("%s: a key gets out, %s: %s", what, kind, where)
				}
			}
		})
	}

	t.Run("in clear", func(t *testing.T) {
		t.Parallel()
		c := newCanaries(t, watchS3, false)
		found := leaks(c.secrets, c.play())
		kinds := slices.Collect(maps.Keys(c.words))
		kinds = append(kinds, "content", "polynomial", "ID of the repository", "ID of a chunk", "ID of a manifest", "ID of a tree", "ID of a commit", "ID of a tag")
		for _, kind := range kinds {
			if found[kind] == "" && kind != "worktree" {
				t.Errorf("%s is not found in a remote in clear", kind)
			}
		}
		if found["worktree"] != "" {
			t.Errorf("the remote gets the path of the worktree: %s", found["worktree"])
		}
		if len(c.odd) == 0 {
			t.Error("all sizes of a remote in clear are of the classes")
		}
	})
}

// play runs the commands, and returns all bytes and names that the store got.
func (c *canaries) play() map[string][]byte {
	c.Helper()
	stored := map[string][]byte{}
	parts := []func(){c.begin, c.share, c.repair, c.care}
	if c.slow {
		parts = parts[:2]
	}
	for i, part := range parts {
		part()
		c.checkSizes()
		for where, data := range c.notice() {
			stored[fmt.Sprint("part ", i, ", ", where)] = data
		}
	}
	return stored
}
