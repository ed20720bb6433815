package log

import (
	"cmp"
	"iter"
	"maps"
	"slices"
	"strings"

	"github.com/kist-vcs/kist/object"
)

// PersonCommits lists the commits of an author or committer, as shortlog prints them.
type PersonCommits struct {
	Name, Email string
	Subjects    []string // of the commits, the oldest first
}

// ByPerson groups the commits of a log, the newest first, by the person of a stamp.
// Persons come in the order of their names. With addresses, persons of the same name but
// another address are different; otherwise Email is empty.
func ByPerson(commits iter.Seq2[Logged, error], who func(*object.Commit) object.Stamp, addresses bool) ([]PersonCommits, error) {
	type key struct{ name, email string }
	persons := map[key]*PersonCommits{}
	for c, err := range commits {
		if err != nil {
			return nil, err
		}
		s := who(c.Commit)
		k := key{name: s.Name}
		if addresses {
			k.email = s.Email
		}
		if persons[k] == nil {
			persons[k] = &PersonCommits{Name: k.name, Email: k.email}
		}
		persons[k].Subjects = append(persons[k].Subjects, shortSubject(c.Commit.Message))
	}

	list := make([]PersonCommits, 0, len(persons))
	for p := range maps.Values(persons) {
		slices.Reverse(p.Subjects)
		list = append(list, *p)
	}
	slices.SortFunc(list, func(a, b PersonCommits) int {
		return cmp.Or(strings.Compare(a.Name, b.Name), strings.Compare(a.Email, b.Email))
	})
	return list, nil
}

// shortSubject returns the subject of a message without a mark such as "[PATCH 1/2]".
func shortSubject(message string) string {
	title, _ := SplitMessage(message)
	title = strings.TrimLeft(title, WhiteSpace)
	if strings.HasPrefix(title, "[PATCH") {
		if _, rest, ok := strings.Cut(title, "]"); ok {
			title = strings.TrimLeft(rest, WhiteSpace)
		}
	}
	return cmp.Or(title, "<none>")
}
