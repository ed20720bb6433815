package web_test

import (
	"context"
	"fmt"
	"maps"
	"math/rand/v2"
	"path"
	"slices"
	"strings"

	"github.com/kist-vcs/kist/cmd/kist/kisttest"
	"github.com/kist-vcs/kist/cmd/kist/readable"
	"github.com/kist-vcs/kist/object"
	"github.com/kist-vcs/kist/object/volume"
	"github.com/kist-vcs/kist/refs"
	"github.com/kist-vcs/kist/tree"
	"github.com/kist-vcs/kist/tree/work/checkout"
)

// visitor is a user in the tests of leaks.
type visitor struct{ name, groups string }

var visitors = []visitor{{"anna", "crew"}, {"bob", ""}, {"eve", ""}, {"", ""}}

// in is an independent form of the words of rules.
func (v visitor) in(list string) bool {
	for _, word := range strings.Split(list, ",") {
		if word == "everyone" || v.name != "" && (word == "users" || word == v.name || word == v.groups && word != "") {
			return true
		}
	}
	return false
}

// leaf is a file or folder of a model.
type leaf struct {
	dir   bool
	text  string            // of a file; begins with a word of its own
	rules map[string]string // attributes
}

// word returns the first word of a file, which no other content has.
func (l leaf) word() string { first, _, _ := strings.Cut(l.text, "\n"); return first }

// modelCommit is a commit of a model.
type modelCommit struct {
	id      object.ID
	parents []int
	files   map[string]leaf      // with folders
	trees   map[string]object.ID // by folder
}

// world is a model of a repository. The commits have tags t0, t1, and so on.
type world struct {
	*kisttest.Repository
	rand    *rand.Rand
	commits []*modelCommit
	head    int               // of the served branch
	top     map[string]string // the rule of the top folder
	names   []string          // all names that paths were made of
	sizes   int               // so far
}

const letters = "ghjkmnpqrstvwxyz" // none is a hexadecimal digit

func (w *world) token(n int) string {
	var b strings.Builder
	for range n {
		b.WriteByte(letters[w.rand.IntN(len(letters))])
	}
	return b.String()
}

// newText returns a content with a word and a size that no other has.
func (w *world) newText() string {
	w.sizes++
	text := w.token(12) + "\n"
	return text + strings.Repeat(".\n", (10_000+1030*w.sizes-len(text))/2) // pages round to 1 KiB
}

func pick[T any](r *rand.Rand, list []T) T { return list[r.IntN(len(list))] }

// newWorld makes a repository with a random history.
func newWorld(s *kisttest.Repository, r *rand.Rand) *world {
	s.Helper()
	w := &world{Repository: s, rand: r}
	first := map[string]leaf{}
	for range 6 {
		w.change(first)
	}
	w.commits = append(w.commits, &modelCommit{files: first})

	tips := []int{0}
	for range 8 + r.IntN(8) {
		i := r.IntN(len(tips))
		c := &modelCommit{parents: []int{tips[i]}, files: maps.Clone(w.commits[tips[i]].files)}
		if other := pick(r, tips); other != tips[i] && r.IntN(2) == 0 {
			c.parents = append(c.parents, other)
			for p, l := range w.commits[other].files { // a merge in which each side wins at times
				if _, ours := c.files[p]; !ours && r.IntN(2) == 0 && c.files[path.Dir(p)].dir == (path.Dir(p) != ".") {
					c.files[p] = l
				}
			}
		}

		for range 1 + r.IntN(3) {
			w.change(c.files)
		}
		w.commits = append(w.commits, c)
		if tips[i] = len(w.commits) - 1; len(tips) < 3 && r.IntN(3) == 0 {
			tips = append(tips, c.parents[0])
		}
	}

	w.head = tips[0]
	if value := r.IntN(6); value < 2 {
		w.top = map[string]string{"acl": []string{"anna,eve", "users"}[value]}
		s.Check(s.Repo.SetConfig(s.Context(), "serve.acl", w.top["acl"]))
	}
	w.store(tips)
	s.Checkout(checkout.SwitchOptions{Rev: "main", Force: true})
	return w
}

// change makes a random change of files.
func (w *world) change(files map[string]leaf) {
	r := w.rand
	all := slices.Sorted(maps.Keys(files))
	dirs := []string{""}
	for _, p := range all {
		if files[p].dir && strings.Count(p, "/") < 2 {
			dirs = append(dirs, p)
		}
	}
	fresh := func() string {
		name := w.token(7)
		if len(w.names) > 0 && r.IntN(4) == 0 {
			name = pick(r, w.names)
		}
		if p := tree.Join(pick(r, dirs), name); files[p].rules == nil && files[p].text == "" && !files[p].dir {
			w.names = append(w.names, name)
			return p
		}
		return tree.Join(dirs[0], w.token(8))
	}

	op := r.IntN(12)
	if len(all) < 4 {
		op = r.IntN(3)
	}
	switch op {
	case 0:
		files[fresh()] = leaf{dir: true}
	case 1, 2:
		files[fresh()] = leaf{text: w.newText()}
	case 3:
		if p := pick(r, all); !files[p].dir {
			files[p] = leaf{text: w.newText(), rules: files[p].rules}
		}
	case 4:
		w.move(files, pick(r, all), "")
	case 5, 6:
		from, to := pick(r, all), fresh()
		if !tree.Below(to, from) {
			w.move(files, from, to)
		}
	default:
		w.setRule(files, pick(r, all))
	}
}

// move moves a path with everything below it. Without a destination, it removes it.
func (w *world) move(files map[string]leaf, from, to string) {
	for _, p := range slices.Sorted(maps.Keys(files)) {
		if tree.Below(p, from) {
			l := files[p]
			delete(files, p)
			if to != "" {
				files[to+strings.TrimPrefix(p, from)] = l
			}
		}
	}
}

func (w *world) setRule(files map[string]leaf, p string) {
	l := files[p]
	l.rules = maps.Clone(l.rules)
	if l.rules == nil {
		l.rules = map[string]string{}
	}
	key := pick(w.rand, []string{"acl", "acl", "acl.read", "acl.write"})
	if l.rules[key] = pick(w.rand, []string{"", "anna", "bob", "crew", "users", "everyone", "eve", "anna,eve"}); w.rand.IntN(4) == 0 {
		delete(l.rules, key)
	}
	files[p] = l
}

// store writes the commits. HEAD is on a branch of its own, at any commit.
func (w *world) store(tips []int) {
	session := w.Repo.Objects().Begin(volume.SessionOptions{})
	defer session.Close()
	var changes []refs.Change
	for i, c := range w.commits {
		w.storeOne(session, c, i)
		changes = append(changes, refs.Change{Name: fmt.Sprint(refs.Tags, "t", i), New: c.id})
	}

	for i, tip := range tips {
		name := refs.Heads + "team"
		if i > 0 {
			name = fmt.Sprint(refs.Heads, "side", i)
		}
		changes = append(changes, refs.Change{Name: name, New: w.commits[tip].id})
	}

	changes = append(changes, refs.Change{Name: refs.Heads + "main", New: pick(w.rand, w.commits).id})
	w.Check(session.Publish(w.Context(), func(ctx context.Context) error {
		return w.Repo.Refs().Update(ctx, changes, refs.Who{})
	}))
	w.Check(w.Repo.SetConfig(w.Context(), "serve.branch", "team"))

	for _, c := range w.commits {
		c.trees = map[string]object.ID{}
		info, err := object.ReadCommit(w.Context(), w.Repo.Objects(), c.id)
		w.Check(err)
		c.trees[""] = info.Tree
		for p, l := range c.files {
			if l.dir {
				e, err := tree.Find(w.Context(), w.Repo.Objects(), info.Tree, p)
				w.Check(err)
				c.trees[p] = e.Content.ID
			}
		}
	}
}

func (w *world) storeOne(rw object.ReadWriter, c *modelCommit, number int) {
	ctx := w.Context()
	e := tree.NewEditor(rw, tree.Info{})
	var totals object.Commit
	for _, p := range slices.SortedFunc(maps.Keys(c.files), tree.ComparePaths) {
		l := c.files[p]
		entry := object.Entry{Name: path.Base(p), Type: object.TypeDir, Mode: 0o755}
		if !l.dir {
			id, err := rw.Put(ctx, object.KindChunk, []byte(l.text))
			w.Check(err)
			entry = object.Entry{Name: path.Base(p), Type: object.TypeFile, Mode: 0o644, Size: uint64(len(l.text)), Content: object.Key{Kind: object.KindChunk, ID: id}}
			totals.Files, totals.Bytes = totals.Files+1, totals.Bytes+entry.Size
		}
		entry.SetAttrs(maps.Clone(l.rules))
		if l.dir {
			w.Check(e.SetDir(ctx, p, entry))
		} else {
			w.Check(e.Set(ctx, p, entry))
		}
	}
	info, err := e.Finish(ctx)
	w.Check(err)

	totals.Tree, totals.Message = info.ID, fmt.Sprintf("change %d\n", number)
	totals.Committer = object.Stamp{Name: "A", Email: "a@x", Time: object.TimeOf(kisttest.Version{}.When(number))}
	totals.Author = totals.Committer
	for _, p := range c.parents {
		totals.Parents = append(totals.Parents, w.commits[p].id)
	}
	data, err := totals.Encode()
	w.Check(err)
	c.id, err = rw.Put(ctx, object.KindCommit, data)
	w.Check(err)
}

// past returns the commits in the history of a commit.
func (w *world) past(of int) map[int]bool {
	found := map[int]bool{of: true}
	for _, p := range w.commits[of].parents {
		maps.Copy(found, w.past(p))
	}
	return found
}

// rule returns the rule for reading a path in a commit. Ok is false without one.
func (w *world) rule(c *modelCommit, p string, top map[string]string) (rule string, ok bool) {
	apply := func(rules map[string]string) {
		if both, has := rules["acl"]; has {
			rule, ok = both, true
		}
		if read, has := rules["acl.read"]; has {
			rule, ok = read, true
		}
	}
	apply(top)
	for i := range len(p) + 1 {
		if i == len(p) || p[i] == '/' {
			apply(c.files[p[:i]].rules)
		}
	}
	return rule, ok
}

// visible reports whether a visitor may see a path of a commit.
func (w *world) visible(v visitor, of int, p string) bool {
	for _, c := range []int{of, w.head} {
		if rule, ok := w.rule(w.commits[c], p, w.top); ok && !v.in(rule) || !ok && v.name == "" {
			return false
		}
	}
	past := w.past(of)
	for c := range w.past(w.head) {
		if rule, ok := w.rule(w.commits[c], p, nil); ok && !past[c] && !v.in(rule) {
			return false
		}
	}
	return true
}

// below reports whether a visitor may see a folder of a commit and everything in it, and returns
// the sum of the sizes.
func (w *world) below(v visitor, of int, dir string) (all bool, size int) {
	all = w.visible(v, of, dir)
	for p, l := range w.commits[of].files {
		if tree.Below(p, dir) {
			all = all && w.visible(v, of, p)
			size += len(l.text)
		}
	}
	return all, size
}

// secrets has everything that one visitor must not see anywhere.
type secrets struct {
	words  []string        // names, and words of contents
	hashes map[string]bool // the first 16 digits
	sizes  map[string]bool // as numbers, and as pages show them
	seen   map[string]bool // words that the visitor may see
}

func shownSize(n int) string { return readable.FormatSize(uint64(n)) }

// secretsOf returns the secrets for a visitor.
func (w *world) secretsOf(v visitor) *secrets {
	seen, all := map[string]bool{}, map[string]bool{}
	hashes, sizes := map[string]bool{}, map[string]bool{}

	mark := func(visible bool, set map[string]bool, keys ...string) {
		for _, key := range keys {
			set[key] = true
			seen[key] = seen[key] || visible
		}
	}
	for i, c := range w.commits {
		for p, l := range c.files {
			visible := w.visible(v, i, p)
			mark(visible, all, strings.Split(p, "/")...)
			if !l.dir {
				mark(visible, all, l.word())
				mark(visible, hashes, object.Sum([]byte(l.text)).String()[:16])
				mark(visible, sizes, fmt.Sprint(len(l.text)), shownSize(len(l.text)))
			}
		}

		for dir, id := range c.trees {
			visible, size := w.below(v, i, dir)
			mark(visible, hashes, id.String()[:16])
			if size > 0 {
				mark(visible, sizes, fmt.Sprint(size), shownSize(size))
			}
		}
	}

	hidden := func(set map[string]bool) map[string]bool {
		maps.DeleteFunc(set, func(key string, _ bool) bool { return seen[key] })
		return set
	}
	return &secrets{words: slices.Sorted(maps.Keys(hidden(all))), hashes: hidden(hashes), sizes: hidden(sizes), seen: seen}
}

// made reports whether a visitor may see a content in a commit that made it: no parent has it
// at the same path.
func (w *world) made(v visitor, word string) bool {
	for i, c := range w.commits {
		for p, l := range c.files {
			if l.dir || l.word() != word {
				continue
			}
			is := func(parent int) bool { return w.commits[parent].files[p].text == l.text }
			if !slices.ContainsFunc(c.parents, is) && w.visible(v, i, p) {
				return true
			}
		}
	}
	return false
}
