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
	return set.View(), err
}

// recorder returns what records say of who made them.
func (r *Repository) recorder() string {
	who := r.who()
	return strings.TrimSpace(who.Name + " <" + who.Email + ">")
}
