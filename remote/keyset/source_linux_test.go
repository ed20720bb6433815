package keyset

import "testing"

// A folder that nobody may write keeps nobody from reading. In /sys, not even root makes folders.
func TestReadOnlyFolder(t *testing.T) {
	s := newSite(t)
	s.dir = "/sys/kist/keys"
	k := s.keyset()
	names := s.put(k)
	s.want("read-only", names, k)
	s.want("again", names, k)
}
