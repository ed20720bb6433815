package jsonform

import (
	"math"

	"github.com/kist-vcs/kist/gc"
)

// Used is the form of the size of the content of some commits.
type Used struct {
	Commits     int      `json:"commits" doc:"the number of commits"`
	History     uint64   `json:"bytes_history" doc:"the size of the files of all commits, each counted in full"`
	Objects     int64    `json:"objects" doc:"the number of objects that they need"`
	Raw         int64    `json:"bytes_raw" doc:"the size of these objects, not compressed"`
	Stored      int64    `json:"bytes_stored" doc:"the size of these objects as they are stored"`
	Dedup       *float64 `json:"dedup" doc:"the factor that deduplication saves; null: unknown"`
	Compression *float64 `json:"compression" doc:"the factor that compression saves; null: unknown"`
}

// NewUsed returns the form for a number of commits. History is the size of their files in bytes,
// and all counts each object once.
func NewUsed(commits int, history uint64, all gc.Amount) Used {
	return Used{
		commits, history, all.Objects, all.Raw, all.Stored,
		ratio(int64(history), all.Raw), ratio(all.Raw, all.Stored),
	}
}

// ratio returns a/b with three decimals, or nil if one of them is 0.
func ratio(a, b int64) *float64 {
	if a == 0 || b == 0 {
		return nil
	}
	return new(math.Round(1000*float64(a)/float64(b)) / 1000)
}
