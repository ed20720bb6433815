package rootlog

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/fxamacker/cbor/v2"

	"github.com/kist-vcs/kist/object"
	"github.com/kist-vcs/kist/object/canonical"
)

// confirmedField is the field of a root with the confirmed refs. Programs may ignore it: they
// copy it into their own roots, as all fields that they do not know.
const confirmedField = "confirmed"

// maxConfirmed is the largest size of the field in bytes. It leaves room for other fields
// within maxExtra.
const maxConfirmed = 16 << 10

// confirmedBody is the confirmation of a ref: its value, and when a writer confirmed it.
type confirmedBody struct {
	_    struct{} `cbor:",toarray"`
	Time canonical.Time
	Key  cbor.ByteString
}

// Confirmed returns the last time at which a writer confirmed the present value of a ref, the
// zero time if none did.
func (s *State) Confirmed(ref string) time.Time {
	c, ok := s.confirmed()[ref]
	if !ok {
		return time.Time{}
	}
	at, err := c.Time.Time()
	if err != nil {
		return time.Time{}
	}
	return at
}

// confirmed returns the confirmations of refs that still have the confirmed value. A field of
// another form has none.
func (s *State) confirmed() map[string]confirmedBody {
	var all map[string]confirmedBody
	if decoding.Unmarshal(s.extra[confirmedField], &all) != nil {
		return nil
	}
	maps.DeleteFunc(all, func(ref string, c confirmedBody) bool {
		return c.Key == "" || c.Key != s.refs.entries[ref]
	})
	return all
}

// confirm notes which refs the change confirms. Without room, the oldest confirmations leave.
func (s *State) confirm(before *State, c *Change) error {
	all := s.confirmed()
	if all == nil {
		all = map[string]confirmedBody{}
	}
	for _, ref := range c.Confirm {
		key, ok := s.refs.entries[ref]
		if !ok {
			return asInvalid(fmt.Errorf("%s does not exist", ref))
		}
		all[ref] = confirmedBody{Time: canonical.TimeOf(c.Time), Key: key}
	}

	s.extra = maps.Clone(s.extra)
	delete(s.extra, confirmedField)
	newest := slices.SortedFunc(maps.Keys(all), func(a, b string) int {
		return cmp.Or(cmp.Compare(all[b].Time.Sec, all[a].Time.Sec), cmp.Compare(a, b))
	})
	size := 0
	for i, ref := range newest {
		if size += len(ref) + len(object.ID{}) + 24; size > maxConfirmed {
			for _, ref := range newest[i:] {
				delete(all, ref)
			}
			break
		}
	}
	if len(all) == 0 {
		return nil
	}

	value, err := encoding.Marshal(all)
	if err != nil {
		return err
	}
	if s.extra == nil {
		s.extra = extra{}
	}
	s.extra[confirmedField] = value
	return nil
}
