package kist

import (
	"errors"
	"strings"

	"github.com/kist-vcs/kist/refs/record"
)

// Records returns the store of holds, expirations and purges.
func (r *Repository) Records() *record.Store { return record.Open(r.dir) }

// RecordView returns the effects of the records: which commits are held or expired,
// and which contents are purged. Damaged records are an error.
func (r *Repository) RecordView() (*record.View, error) {
	set, err := r.Records().Load()
	return r.ViewOf(set), err
}

// ViewOf returns the effects of the records in set and of accepted losses.
func (r *Repository) ViewOf(set *record.Set) *record.View {
	return set.View().WithLost(r.objects.IsLost)
}

// RecordViewOrEmpty is RecordView for commands that remove nothing. If the records
// are damaged, it warns once and returns a view without records.
func (r *Repository) RecordViewOrEmpty() (*record.View, error) {
	set, _, err := r.RecordsOrEmpty()
	return r.ViewOf(set), err
}

// RecordsOrEmpty returns the records and true. If they are damaged, it warns once and
// returns an empty set and false.
func (r *Repository) RecordsOrEmpty() (set *record.Set, intact bool, err error) {
	set, err = r.Records().Load()
	if !IsRecordDamage(err) {
		return set, true, err
	}
	r.warnRecords(err)
	return &record.Set{}, false, nil
}

// warnRecords warns once that the records are damaged.
func (r *Repository) warnRecords(damage error) {
	r.recordsWarned.Do(func() {
		r.opt.Warn(damage.Error() + ": until 'kist verify --repair', what has expired or was purged seems to be missing")
	})
}

// Recorder returns the name and address that new records carry.
func (r *Repository) Recorder() string {
	who := r.Who()
	return strings.TrimSpace(who.Name + " <" + who.Email + ">")
}

// IsRecordDamage reports whether err is a [*record.CorruptError].
func IsRecordDamage(err error) bool {
	var damage *record.CorruptError
	return errors.As(err, &damage)
}
