package web

import (
	"cmp"
	"context"
	"net/http"
	"net/url"
	"path"
	"slices"
	"strings"
	"time"

	"github.com/kist-vcs/kist/cmd/kist/serve"
	"github.com/kist-vcs/kist/object"
	"github.com/kist-vcs/kist/tree"
	"github.com/kist-vcs/kist/tree/look/log"
	"github.com/kist-vcs/kist/tree/look/versions"
)

// entriesPerPage is the number of names on a page of a folder.
const entriesPerPage = 300

// maxThumbnail is the size of the largest picture that a list shows small. Browsers scale the
// pictures, so a list of large ones would be slow.
const maxThumbnail = 8 << 20

// treePage is the content of the page with a folder.
type treePage struct {
	Path    string
	Parts   []part
	Entry   object.Entry
	Hidden  bool // the visitor may not read everything in the folder
	Entries []entryLine
	Next    string // address of the next page; empty: there is none
	First   string // address of the first page; empty: this is it
	From    string // the first name of this page
	Grid    bool
	Other   string // address of the other form
	Readme  *preview
	Changes bool // the last changes are known
}

// part is a folder on the way to a path.
type part struct{ Name, Path string }

// partsOf returns the folders on the way to a path, and the path itself.
func partsOf(path string) (parts []part) {
	at := ""
	for _, name := range strings.Split(path, "/") {
		if name != "" {
			at = tree.Join(at, name)
			parts = append(parts, part{name, at})
		}
	}
	return parts
}

// entryLine is a name in a folder.
type entryLine struct {
	object.Entry
	Path   string
	Dir    bool
	Link   bool // a symlink
	Kind   string
	Thumb  bool
	Time   time.Time // of the file, or of its last change
	Commit object.ID // that changed it last; zero: not known
	Title  string    // of that commit
}

// showTree shows a folder.
func (s *site) showTree(r *request) (page, error) {
	v, err := r.openCommit()
	if err != nil {
		return page{}, err
	}
	t := treePage{Path: strings.TrimSuffix(r.PathValue("path"), "/"), From: r.parameter("from"), Grid: r.parameter("as") == "grid"}
	t.Parts = partsOf(t.Path)
	e, err := v.Find(r.Context(), t.Path)
	if err != nil {
		return page{}, err
	}
	if e.Type != object.TypeDir {
		return page{redirect: address("blob", t.Path, r.rev)}, nil
	}

	if err := s.fillFolder(r, v, &t); err != nil {
		return page{}, err
	}
	names, err := s.refNames(r.Context())
	if err != nil {
		return page{}, err
	}
	title := "Files"
	if t.Path != "" {
		title = path.Base(t.Path)
	}
	return page{name: "tree", Title: title, Nav: "files", Data: t, Names: names}, nil
}

// fillFolder sets the names of a page of a folder, the text about it, and the addresses of
// other pages.
func (s *site) fillFolder(r *request, v *serve.VisibleCommit, t *treePage) (err error) {
	ctx := r.Context()
	if t.Entry, err = v.Find(ctx, t.Path); err != nil {
		return err
	}
	next := ""
	id := t.Entry.Content.ID
	if t.Entry, err = v.Rules.Shown(ctx, t.Path, t.Entry); err != nil {
		return err
	}
	t.Hidden = t.Entry.Content.IsZero()
	for e, err := range v.Rules.Entries(ctx, v.Objects, t.Path, id, t.From) {
		if err != nil {
			return err
		}
		if len(t.Entries) == entriesPerPage {
			next = e.Name
			break
		}
		t.Entries = append(t.Entries, newEntryLine(t.Path, e))
	}
	if next == "" && t.From == "" { // all of the folder: folders first
		slices.SortStableFunc(t.Entries, func(a, b entryLine) int {
			return cmp.Or(kindOrder(a)-kindOrder(b), naturalOrder(a.Name, b.Name))
		})
	}
	s.lastChanges(ctx, v.Commit, t)
	if t.From == "" {
		if t.Readme, err = s.previewReadme(r, v, t, next != ""); err != nil {
			return err
		}
	}
	t.addresses(r.rev, next)
	return nil
}

func kindOrder(e entryLine) int {
	if e.Dir {
		return 0
	}
	return 1
}

// addresses sets the addresses of other pages of the folder.
func (t *treePage) addresses(rev, next string) {
	to := func(from string, grid bool) string {
		v := url.Values{}
		if rev != "HEAD" {
			v.Set("rev", rev)
		}
		if from != "" {
			v.Set("from", from)
		}
		if grid {
			v.Set("as", "grid")
		}
		if len(v) == 0 {
			return address("tree", t.Path, "")
		}
		return address("tree", t.Path, "") + "?" + v.Encode()
	}
	if next != "" {
		t.Next = to(next, t.Grid)
	}
	if t.From != "" {
		t.First = to("", t.Grid)
	}
	t.Other = to(t.From, !t.Grid)
}

func newEntryLine(dir string, e object.Entry) entryLine {
	line := entryLine{Entry: e, Path: tree.Join(dir, e.Name), Dir: e.Type == object.TypeDir, Link: e.Type == object.TypeSymlink}
	line.Time, _ = e.Modified()
	switch {
	case line.Dir:
		line.Kind = "folder"
	case line.Link:
		line.Kind = "link"
	case e.Type != object.TypeFile:
		line.Kind = "special"
	default:
		line.Kind = kindOf(e.Name)
		line.Thumb = line.Kind == "image" && e.Size > 0 && e.Size <= maxThumbnail
	}
	return line
}

// kinds has the sort of a file by the end of its name.
var kinds = map[string]string{
	".png": "image", ".jpg": "image", ".jpeg": "image", ".gif": "image", ".webp": "image", ".avif": "image", ".svg": "image", ".bmp": "image", ".ico": "image",
	".mp3": "audio", ".ogg": "audio", ".oga": "audio", ".opus": "audio", ".flac": "audio", ".wav": "audio", ".m4a": "audio", ".aac": "audio",
	".mp4": "video", ".webm": "video", ".mov": "video", ".mkv": "video", ".m4v": "video", ".ogv": "video", ".avi": "video",
	".pdf": "pdf", ".zip": "archive", ".gz": "archive", ".xz": "archive", ".zst": "archive", ".tar": "archive", ".7z": "archive", ".bz2": "archive",
}

// kindOf returns the sort of a file by its name, "file" by default.
func kindOf(name string) string {
	if kind, ok := kinds[strings.ToLower(path.Ext(name))]; ok {
		return kind
	}
	return "file"
}

// lastChanges sets the commit that changed each entry last, if the index of history is at
// hand.
func (s *site) lastChanges(ctx context.Context, commit object.ID, t *treePage) {
	err := s.versions.useIndex(ctx, niceIndexing, func(x *versions.Index) error {
		for i := range t.Entries {
			t.Entries[i].Commit = x.LastChange(commit, t.Entries[i].Path)
		}
		return nil
	})
	if err != nil { // the page does without
		return
	}
	known := map[object.ID]*object.Commit{}
	for i := range t.Entries {
		e := &t.Entries[i]
		if e.Commit.IsZero() {
			continue
		}
		c, ok := known[e.Commit]
		if !ok {
			c, _ = object.ReadCommit(ctx, s.Repo.Objects(), e.Commit)
			known[e.Commit] = c
		}
		if c != nil {
			e.Time = c.Committer.When()
			e.Title, _ = log.SplitMessage(c.Message)
			e.Title = cut(e.Title, maxTitle)
			t.Changes = true
		}
	}
}

// readmes are the names of texts about a folder that are looked for in a large one, the best first.
var readmes = []string{"README.md", "readme.md", "Readme.md", "README.markdown", "README", "README.txt", "readme.txt"}

// previewReadme returns the text about a folder that is in it, or nil. The page has only some names of a
// large folder.
func (s *site) previewReadme(r *request, v *serve.VisibleCommit, t *treePage, large bool) (*preview, error) {
	var best *entryLine
	for i := range t.Entries {
		e := &t.Entries[i]
		stem, _, _ := strings.Cut(strings.ToLower(e.Name), ".")
		if stem == "readme" && e.Type == object.TypeFile && (best == nil || isMarkdown(e.Name) && !isMarkdown(best.Name)) {
			best = e
		}
	}
	for i := 0; best == nil && large && i < len(readmes); i++ {
		e, err := v.Find(r.Context(), tree.Join(t.Path, readmes[i]))
		if err == nil && e.Type == object.TypeFile {
			best = new(newEntryLine(t.Path, e))
		}
	}
	if best == nil {
		return nil, nil
	}
	return s.previewFile(r.Context(), v, best.Path, best.Entry, viewing{Rev: r.rev})
}

// errNotFile means that a path is a folder or something else without content.
var errNotFile = &shownError{"Nothing to show", "This is not a file, so it has no content.", http.StatusNotFound}
