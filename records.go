package kist

import (
	"errors"
	"strings"

	"github.com/kist-vcs/kist/refs/record"
)

// Records returns what is said of commits and contents apart from names: what
// is held, has expired or was purged.
func (r *Repository) Records() *record.Store { return record.Open(r.dir) }

// RecordView returns what follows from the records, and so what has to be here.
func (r *Repository) RecordView() (*record.View, error) {
	set, err := r.Records().Load()
	return r.ViewOf(set), err
}

// ViewOf returns what follows from records and accepted losses.
func (r *Repository) ViewOf(set *record.Set) *record.View {
	return set.View().WithLost(r.objects.IsLost)
}

// RecordViewOrEmpty is Said for commands that remove nothing. Damaged records do not stop
// them: SaidToRead warns once, and returns what follows from no records.
func (r *Repository) RecordViewOrEmpty() (*record.View, error) {
	set, _, err := r.RecordsOrEmpty()
	return r.ViewOf(set), err
}

// RecordsOrEmpty returns the records, and true. If they are damaged, it warns once,
// and returns none, and false.
func (r *Repository) RecordsOrEmpty() (set *record.Set, intact bool, err error) {
	set, err = r.Records().Load()
	if !IsRecordDamage(err) {
		return set, true, err
	}
	r.warnRecords(err)
	return &record.Set{}, false, nil
}

// warnRecords warns, once, that the records are damaged.
func (r *Repository) warnRecords(damage error) {
	r.recordsWarned.Do(func() {
		r.opt.Warn(damage.Error() + ": until 'kist verify --repair', what has expired or was purged seems to be missing")
	})
}

// Recorder returns what records say of who made them.
func (r *Repository) Recorder() string {
	who := r.Who()
	return strings.TrimSpace(who.Name + " <" + who.Email + ">")
}

func IsRecordDamage(err error) bool {
	var damage *record.CorruptError
	return errors.As(err, &damage)
}
