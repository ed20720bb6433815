package kist

import (
	"strings"

	"github.com/kist-vcs/kist/refs/record"
)

// Records returns what is said of commits and contents apart from names: what
// is held, has expired or was purged.
func (r *Repository) Records() *record.Store { return record.Open(r.dir) }

// Said returns what follows from the records, and so what has to be here.
func (r *Repository) Said() (*record.View, error) {
	set, err := r.Records().Load()
	return r.view(set), err
}

// view returns what follows from records and accepted losses.
func (r *Repository) view(set *record.Set) *record.View { return set.View().WithLost(r.objects.IsLost) }

// SaidToRead is Said for commands that remove nothing. Damaged records do not stop
// them: SaidToRead warns once, and returns what follows from no records.
func (r *Repository) SaidToRead() (*record.View, error) {
	set, _, err := r.recordsToRead()
	return r.view(set), err
}

// recordsToRead returns the records, and true. If they are damaged, it warns once,
// and returns none, and false.
func (r *Repository) recordsToRead() (set *record.Set, intact bool, err error) {
	set, err = r.Records().Load()
	if !isRecordDamage(err) {
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

// recorder returns what records say of who made them.
func (r *Repository) recorder() string {
	who := r.who()
	return strings.TrimSpace(who.Name + " <" + who.Email + ">")
}
