package refs

import (
	"cmp"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// A revision is a parsed revision: a name, perhaps its value at another time,
// and steps from there to ancestors.
type revision struct {
	text   string
	name   string         // as written; empty: the branch HEAD is on
	search *regexp.Regexp // of ":/…": the newest commit with such a message, instead of a name
	at     atKind
	number int    // for atEntry
	back   int    // of "@{-1}": the number of checkouts ago, instead of a name; 0: none
	when   string // for atTime
	steps  []step
	tree   bool // "^{tree}" at the end: the tree of the commit
}

// An atKind is the kind of an "@{…}".
type atKind uint8

const (
	atNow      atKind = iota // no "@{…}"
	atEntry                  // "@{2}": a number of moves ago
	atTime                   // "@{yesterday}"
	atUpstream               // "@{u}": the remote-tracking branch of the upstream
)

// A step leads to the n-th parent ("^n", one generation), up the first parents
// ("~n", n generations), or to the newest reachable commit with such a message
// ("^{/…}"). Without generations it remains at the commit ("^{}", "^0").
type step struct {
	parent      int // 1 is the first
	generations int
	search      *regexp.Regexp // nil: a step to a parent
}

const (
	maxRevisionSize = 4096    // bytes
	maxNumber       = 1 << 30 // in "~n", "@{n}" and the like
	minUnixTime     = 1e8     // larger numbers in "@{…}" are seconds since 1970
)

func (r revision) unknownError(format string, args ...any) error {
	return &UnknownRevisionError{Rev: r.text, Reason: fmt.Sprintf(format, args...)}
}

// parseRevision reads the syntax of a revision: NAME[@{…}] and then any of
// ^, ^N, ^{commit}, ^{}, ^{/TEXT}, ~ and ~N, with ^{tree} only at the end. Or it is
// :/TEXT.
func parseRevision(text string) (revision, error) {
	r := revision{text: text}
	if len(text) > maxRevisionSize {
		return r, &UnknownRevisionError{Rev: text[:32] + "…", Reason: "longer than 4,096 bytes"}
	}

	if message, ok := strings.CutPrefix(text, messagePrefix); ok {
		search, err := r.compileSearch(message)
		r.search = search
		return r, err
	}

	end := strings.IndexAny(text, "~^")
	if at := strings.Index(text, "@{"); at >= 0 && (end < 0 || at < end) {
		end = at
	}
	if end < 0 {
		end = len(text)
	}

	r.name = text[:end]
	rest, err := r.parseAts(text[end:])
	if err != nil {
		return r, err
	}

	switch {
	case r.name == "@":
		r.name = "HEAD"
	case r.name == "" && r.at == atNow && r.back == 0:
		return r, r.unknownError("begins without a name")
	case r.name != "" && r.back > 0:
		return r, r.unknownError("a name before @{-n}")
	}

	if r.name == "HEAD" && r.at == atUpstream {
		r.name = "" // HEAD's branch
	}

	for rest != "" {
		if rest, err = r.parseStep(rest); err != nil {
			return r, err
		}
	}

	return r, nil
}

// parseAts reads the "@{…}" at the start of rest, or "@{-1}" and another one.
func (r *revision) parseAts(rest string) (string, error) {
	rest, err := r.parseAt(rest)
	if err == nil && r.back > 0 && !strings.HasPrefix(rest, "@{-") {
		return r.parseAt(rest)
	}
	return rest, err
}

// parseAt reads the "@{…}" at the start of rest, if there is one.
func (r *revision) parseAt(rest string) (string, error) {
	inside, ok := strings.CutPrefix(rest, "@{")
	if !ok {
		return rest, nil
	}

	inside, rest, ok = strings.Cut(inside, "}")
	if !ok {
		return "", r.unknownError("no } after @{")
	}

	digits, minus := strings.CutPrefix(inside, "-")
	number, err := strconv.ParseUint(digits, 10, 64)
	switch {
	case inside == "":
		return "", r.unknownError("nothing in @{}")
	case slices.Contains([]string{"u", "upstream", "push"}, strings.ToLower(inside)):
		r.at = atUpstream
	case err != nil || !minus && number >= minUnixTime:
		r.at, r.when = atTime, inside
	case number > maxNumber || minus && number == 0:
		return "", r.unknownError("@{%s} is out of range", inside)
	case minus:
		r.back = int(number)
	default:
		r.at, r.number = atEntry, int(number)
	}

	return rest, nil
}

// parseStep parses the step at the start of rest.
func (r *revision) parseStep(rest string) (string, error) {
	op := rest[0]
	rest = rest[1:]
	if op != '~' && op != '^' {
		return "", r.unknownError("%q is not understood", string(op)+rest)
	}
	if inside, ok := strings.CutPrefix(rest, "{"); ok && op == '^' {
		kind, rest, ok := strings.Cut(inside, "}")
		if message, is := strings.CutPrefix(kind, "/"); is && ok {
			search, err := r.compileSearch(message)
			r.steps = append(r.steps, step{search: search})
			return rest, err
		}
		switch {
		case ok && kind == "tree" && rest == "":
			r.tree = true
		case ok && (kind == "" || kind == "commit"):
			r.steps = append(r.steps, step{})
		default:
			return "", r.unknownError("^{%s is not understood", inside)
		}
		return rest, nil
	}

	digits := rest[:len(rest)-len(strings.TrimLeft(rest, "0123456789"))]
	rest = rest[len(digits):]
	number := uint64(1)
	if digits != "" {
		var err error
		if number, err = strconv.ParseUint(digits, 10, 64); err != nil || number > maxNumber {
			return "", r.unknownError("%c%s is out of range", op, digits)
		}
	}

	switch {
	case number == 0:
		r.steps = append(r.steps, step{})
	case op == '^':
		r.steps = append(r.steps, step{parent: int(number), generations: 1})
	default:
		r.steps = append(r.steps, step{parent: 1, generations: int(number)})
	}

	return rest, nil
}

// messagePrefix begins a revision that searches messages.
const messagePrefix = ":/"

// compileSearch returns the regular expression for messages, in the syntax of package
// regexp.
func (r *revision) compileSearch(message string) (*regexp.Regexp, error) {
	if message == "" || message[0] == '!' {
		return nil, r.unknownError("no text to search for; git's '!' is not supported")
	}
	search, err := regexp.Compile(message)
	if err != nil {
		return nil, r.unknownError("%v", err)
	}
	return search, nil
}

// SplitPath splits "REV:PATH" at the first colon outside of braces, as in
// "main@{2026-01-31 15:04}:notes/a:b". Without a colon, all of it is the
// revision and hasPath is false, and so it is with ":/TEXT". Either part may be
// empty.
func SplitPath(revpath string) (rev, path string, hasPath bool) {
	if strings.HasPrefix(revpath, messagePrefix) {
		return revpath, "", false
	}
	if i := indexOutside(revpath, ":"); i >= 0 {
		return revpath[:i], revpath[i+1:], true
	}
	return revpath, "", false
}

// SplitRange splits "A..B", the commits reachable from B but not from A, and
// "A...B", the commits reachable from only one of both (symmetric). A missing
// end means "HEAD". Other revisions are no range.
func SplitRange(text string) (from, to string, symmetric, ok bool) {
	i := indexOutside(text, "..")
	if i < 0 {
		return "", "", false, false
	}

	from, to = text[:i], text[i+2:]
	to, symmetric = strings.CutPrefix(to, ".")
	if from == "" {
		from = "HEAD"
	}
	if to == "" {
		to = "HEAD"
	}

	return from, to, symmetric, true
}

// SplitParents splits git's short forms for a commit and its parents. The suffix is "^@",
// all parents without the commit; "^!", the commit without its parents; or "^-N", the
// commits that REV reaches and its N-th parent does not. "^-" means "^-1". Parent is N, 0
// with the other forms. For any other text, suffix is "".
func SplitParents(text string) (rev, suffix string, parent int) {
	for _, suffix := range []string{"^@", "^!"} {
		if rev, ok := strings.CutSuffix(text, suffix); ok && rev != "" {
			return rev, suffix, 0
		}
	}
	i := strings.LastIndex(text, "^-")
	if i <= 0 || strings.HasPrefix(text, messagePrefix) || strings.Trim(text[i+2:], "0123456789") != "" {
		return text, "", 0
	}
	parent, err := strconv.Atoi(cmp.Or(text[i+2:], "1"))
	if err != nil || parent < 1 {
		return text, "", 0
	}
	return text[:i], "^-", parent
}

// indexOutside returns the index of the first sep outside of the braces of
// "@{…}" and "^{…}", or -1.
func indexOutside(text, sep string) int {
	for i := 0; i < len(text); i++ {
		if strings.HasPrefix(text[i:], sep) {
			return i
		}
		if strings.HasPrefix(text[i:], "@{") || strings.HasPrefix(text[i:], "^{") {
			end := strings.IndexByte(text[i:], '}')
			if end < 0 {
				return -1
			}
			i += end
		}
	}

	return -1
}
