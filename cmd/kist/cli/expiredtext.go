package cli

import (
	"time"

	"github.com/kist-vcs/kist/refs/record"
)

// expiredJSON is the record of an expiration.
type expiredJSON struct {
	Time   time.Time `json:"time"`
	Who    string    `json:"who"`
	Host   string    `json:"host"`
	Policy string    `json:"policy"` // "" if the commit was named
}

func newExpiredJSON(rec record.Record) *expiredJSON {
	return &expiredJSON{rec.Time, rec.Who, rec.Host, rec.Reason}
}

// expiredText describes an expiration: when, by whom and by which policy.
func expiredText(rec record.Record) string {
	text := rec.Time.Format("2006-01-02")
	if rec.Who != "" {
		text += " by " + rec.Who
	}
	if rec.Reason != "" {
		text += ", " + rec.Reason
	}
	return printable(text)
}
