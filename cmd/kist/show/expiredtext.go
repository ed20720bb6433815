package show

import (
	"time"

	"github.com/kist-vcs/kist/cmd/kist/cli"
	"github.com/kist-vcs/kist/refs/record"
)

// ExpiredJSON is the record of an expiration.
type ExpiredJSON struct {
	Time   time.Time `json:"time" doc:"when it expired"`
	Who    string    `json:"who" doc:"who made it expire"`
	Host   string    `json:"host" doc:"the machine where it expired"`
	Policy string    `json:"policy" doc:"the policy; empty if the commit was named"`
}

func NewExpiredJSON(rec record.Record) *ExpiredJSON {
	return &ExpiredJSON{rec.Time, rec.Who, rec.Host, rec.Reason}
}

// ExpiredText describes an expiration: when, by whom and by which policy.
func ExpiredText(rec record.Record) string {
	text := rec.Time.Format("2006-01-02")
	if rec.Who != "" {
		text += " by " + rec.Who
	}
	if rec.Reason != "" {
		text += ", " + rec.Reason
	}
	return cli.Printable(text)
}
