package cli

import (
	"time"

	"github.com/kist-vcs/kist/object"
)

// commitJSON is a commit as every command prints it with --json.
type commitJSON struct {
	ID           object.ID     `json:"id"`
	Tree         object.ID     `json:"tree"`
	Parents      []object.ID   `json:"parents"`
	Author       personJSON    `json:"author"`
	Committer    personJSON    `json:"committer"`
	Time         time.Time     `json:"time"` // the committer's
	Message      string        `json:"message"`
	Host         string        `json:"host"`
	Files        uint64        `json:"files"`
	Bytes        uint64        `json:"bytes"`
	Skipped      []skippedJSON `json:"skipped,omitempty"`       // the first 1,000
	SkippedCount uint64        `json:"skipped_count,omitempty"` // all
}

// personJSON is who did something, and when.
type personJSON struct {
	Name  string    `json:"name"`
	Email string    `json:"email"`
	Time  time.Time `json:"time"`
}

// skippedJSON is a path that was not stored, and why.
type skippedJSON struct {
	Path    string `json:"path"`
	PathRaw []byte `json:"path_raw,omitempty"`
	Reason  string `json:"reason"`
}

func newCommitJSON(id object.ID, c *object.Commit) commitJSON {
	parents := c.Parents
	if parents == nil {
		parents = []object.ID{}
	}
	return commitJSON{
		ID: id, Tree: c.Tree, Parents: parents,
		Author: newPersonJSON(c.Author), Committer: newPersonJSON(c.Committer), Time: c.Committer.When(),
		Message: c.Message, Host: c.Host, Files: c.Files, Bytes: c.Bytes,
		Skipped: newSkippedJSON(c.Skipped), SkippedCount: c.SkippedCount,
	}
}

func newPersonJSON(s object.Signature) personJSON { return personJSON{s.Name, s.Email, s.When()} }

func newSkippedJSON(list []object.Skipped) []skippedJSON {
	out := make([]skippedJSON, len(list))
	for i, s := range list {
		out[i] = skippedJSON{s.Path, rawPath(s.Path), s.Reason}
	}
	return out
}
