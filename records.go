package kist

import "github.com/kist-vcs/kist/refs/record"

// Records returns what is said of commits and contents apart from names: what
// is held, has expired or was purged.
func (r *Repository) Records() *record.Store { return record.Open(r.dir) }

// Said returns what follows from the records now.
func (r *Repository) Said() (*record.View, error) {
	set, err := r.Records().Load()
	return set.At(r.opt.Now()), err
}
