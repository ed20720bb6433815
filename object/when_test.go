package object

import (
	"encoding/json"
	"testing"
)

// TestWhenIsJSON checks that JSON can encode the time of any commit, however extreme.
func TestWhenIsJSON(t *testing.T) {
	for _, sec := range []int64{1 << 62, 253402300800, 253402300799, 0, -62167219201, -1 << 62} {
		for _, zone := range []int16{0, 840, -840} {
			s := Stamp{Time: Time{Sec: sec, Nsec: 1}, Zone: zone}
			if _, err := json.Marshal(s.When()); err != nil {
				t.Errorf("encode second %d in zone %d: %v", sec, zone, err)
			}
		}
	}
}
