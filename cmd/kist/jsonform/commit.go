package jsonform

import (
	"strings"
	"time"

	"github.com/kist-vcs/kist/object"
)

// Commit is a commit as every command prints it with --json.
type Commit struct {
	ID           object.ID   `json:"id" doc:"the commit"`
	Tree         *object.ID  `json:"tree" doc:"its tree; null: hidden from the user"`
	Parents      []object.ID `json:"parents" doc:"its parents"`
	Author       Person      `json:"author" doc:"who wrote it"`
	Committer    Person      `json:"committer" doc:"who made the commit"`
	Time         time.Time   `json:"time" doc:"when it was made: the time of the committer"`
	Message      string      `json:"message" doc:"the message"`
	Host         string      `json:"host" doc:"the machine where it was made"`
	Labels       []string    `json:"labels,omitempty" doc:"its labels"`
	Files        *uint64     `json:"files" doc:"the number of its files; null: hidden from the user"`
	Bytes        *uint64     `json:"bytes" doc:"the size of its files; null: hidden from the user"`
	Skipped      []Skipped   `json:"skipped,omitempty" doc:"the first 1,000 paths that were not stored, if it is partial"`
	SkippedCount uint64      `json:"skipped_count,omitempty" doc:"the number of all these paths"`
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
	Name  string    `json:"name" doc:"the name"`
	Email string    `json:"email" doc:"the e-mail address"`
	Time  time.Time `json:"time" doc:"the time of the action"`
}

func NewPerson(s object.Stamp) Person { return Person{s.Name, s.Email, s.When()} }

// Skipped is a path that was not stored, and the reason.
type Skipped struct {
	AtPath
	Reason string `json:"reason" doc:"why it was left out"`
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
