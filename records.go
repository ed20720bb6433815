package kist

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strings"

	"github.com/kist-vcs/kist/object"
	"github.com/kist-vcs/kist/object/disk"
	"github.com/kist-vcs/kist/refs/record"
)

// Records returns the store of holds, expirations and purges.
func (r *Repository) Records() *record.Store { return record.Open(r.dir) }

// RecordView returns the effects of the records: which commits are held or expired,
// and which contents are purged. Damaged records are an error.
func (r *Repository) RecordView() (*record.Effects, error) {
	set, err := r.Records().Load()
	return r.ViewOf(set), err
}

// ViewOf returns the effects of the records in set and of accepted losses.
func (r *Repository) ViewOf(set *record.Set) *record.Effects {
	return set.View().WithLost(r.objects.IsLost)
}

// RecordViewOrEmpty is RecordView for commands that remove nothing. If the records
// are damaged, it warns once and returns a view without records.
func (r *Repository) RecordViewOrEmpty() (*record.Effects, error) {
	set, _, err := r.RecordsOrEmpty()
	return r.ViewOf(set), err
}

// RecordsOrEmpty returns the records and true. If they are damaged, it warns once and
// returns an empty set and false.
func (r *Repository) RecordsOrEmpty() (set *record.Set, intact bool, err error) {
	set, err = r.Records().Load()
	if !errors.Is(err, record.ErrDamaged) {
		return set, true, err
	}
	r.warnRecords(err)
	return &record.Set{}, false, nil
}

// warnRecords warns once that the records are damaged.
func (r *Repository) warnRecords(damage error) {
	r.recordsWarned.Do(func() {
		r.opt.Warn(damage.Error() + ": until 'kist verify --repair', expired and purged content seems to be missing")
	})
}

// Recorder returns the name and address that new records carry.
func (r *Repository) Recorder() string {
	who := r.Who()
	return strings.TrimSpace(who.Name + " <" + who.Email + ">")
}

// LostFile is the file in the .kist folder that lists the objects whose loss was accepted,
// by a repair here or by a fetch.
const LostFile = "lost"

// ReadLost returns the objects whose loss was accepted.
func ReadLost(dir string) ([]object.Key, error) {
	path := dir + "/" + LostFile
	info, err := disk.Lstat(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil, nil
	case err != nil:
		return nil, err
	case !info.Mode().IsRegular() || info.Size() > maxLostSize:
		return nil, ErrLostList
	}
	data, err := disk.ReadFile(path)
	if err != nil {
		return nil, err
	}
	return DecodeLost(data)
}

// EncodeLost returns the file for a list: a line for each object, sorted, and a
// line with the checksum.
func EncodeLost(keys []object.Key) []byte {
	keys = slices.Clone(keys)
	slices.SortFunc(keys, object.Key.Compare)
	lines := make([]string, len(keys))
	for i, key := range keys {
		lines[i] = key.Kind.String() + " " + key.ID.String()
	}
	return disk.WithSum([]byte(strings.Join(lines, "\n")))
}

// DecodeLost returns the objects of a list. Any input that EncodeLost cannot produce
// is an [ErrLostList].
func DecodeLost(file []byte) (keys []object.Key, err error) {
	data, err := disk.WithoutSum(file)
	if err != nil {
		return nil, ErrLostList
	}
	for line := range strings.SplitSeq(string(data), "\n") {
		name, id, _ := strings.Cut(line, " ")
		key := object.Key{}
		for kind := object.KindChunk; kind.Valid(); kind++ {
			if kind.String() == name {
				key.Kind = kind
			}
		}
		if key.ID, err = object.ParseID(id); err != nil || !key.Kind.Valid() {
			return nil, ErrLostList
		}
		keys = append(keys, key)
	}
	if !bytes.Equal(EncodeLost(keys), file) {
		return nil, ErrLostList
	}
	return keys, nil
}

const maxLostSize = 64 << 20 // of the file, in bytes

// ErrLostList is matched by the error for a damaged list of accepted losses. Such
// a list is not used.
var ErrLostList = fmt.Errorf("%s is damaged: %w", LostFile, object.ErrCorrupt)
