package jsonform

import (
	"strings"
	"time"

	"github.com/kist-vcs/kist/object"
)

// Commit is a commit as every command prints it with --json.
type Commit struct {
	ID           object.ID   `json:"id"`
	Tree         *object.ID  `json:"tree"` // null: its ID is hidden from the user
	Parents      []object.ID `json:"parents"`
	Author       Person      `json:"author"`
	Committer    Person      `json:"committer"`
	Time         time.Time   `json:"time"` // the committer's
	Message      string      `json:"message"`
	Host         string      `json:"host"`
	Labels       []string    `json:"labels,omitempty"`
	Files        *uint64     `json:"files"`                   // null: hidden
	Bytes        *uint64     `json:"bytes"`                   // null: hidden
	Skipped      []Skipped   `json:"skipped,omitempty"`       // the first 1,000
	SkippedCount uint64      `json:"skipped_count,omitempty"` // all
}

func NewCommit(id object.ID, c *object.Commit) Commit {
	parents := c.Parents
	if parents == nil {
		parents = []object.ID{}
	}
	return Commit{
		ID: id, Tree: &c.Tree, Parents: parents,
		Author: NewPerson(c.Author), Committer: NewPerson(c.Committer), Time: c.Committer.When(),
		Message: c.Message, Host: c.Host, Labels: Labels(c.Message), Files: &c.Files, Bytes: &c.Bytes,
		Skipped: NewSkipped(c.Skipped), SkippedCount: c.SkippedCount,
	}
}

// Person is a person, and the time of an action.
type Person struct {
	Name  string    `json:"name"`
	Email string    `json:"email"`
	Time  time.Time `json:"time"`
}

func NewPerson(s object.Stamp) Person { return Person{s.Name, s.Email, s.When()} }

// Skipped is a path that was not stored, and the reason.
type Skipped struct {
	AtPath
	Reason string `json:"reason"`
}

func NewSkipped(list []object.Skipped) []Skipped {
	out := make([]Skipped, len(list))
	for i, s := range list {
		out[i] = Skipped{NewPath(s.Path), s.Reason}
	}
	return out
}

// LabelTrailer begins a line of a commit's message that gives the commit a label. Such
// lines are in the last paragraph.
const LabelTrailer = "Label: "

// Labels returns the Labels in the message of a commit.
func Labels(message string) []string {
	var list []string
	for line := range strings.SplitSeq(message[strings.LastIndex(message, "\n\n")+1:], "\n") {
		if name, ok := strings.CutPrefix(line, LabelTrailer); ok && name != "" {
			list = append(list, name)
		}
	}
	return list
}
