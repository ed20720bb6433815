package index

import "strings"

// arena keeps short strings together, which saves an allocation for each and
// does not keep alive the longer strings that they were cut from.
type arena struct{ b *strings.Builder }

const arenaSize = 64 << 10

// grow makes room for n bytes more in one piece.
func (a *arena) grow(n int) {
	if a.b == nil || a.b.Cap()-a.b.Len() < n {
		a.b = new(strings.Builder)
		a.b.Grow(n)
	}
}

func (a *arena) keep(s string) string {
	if a.b == nil || a.b.Cap()-a.b.Len() < len(s) {
		a.grow(max(arenaSize, len(s)))
	}
	off := a.b.Len()
	a.b.WriteString(s)
	return a.b.String()[off:]
}

func (a *arena) keepBytes(s []byte) string {
	if a.b == nil || a.b.Cap()-a.b.Len() < len(s) {
		a.grow(max(arenaSize, len(s)))
	}
	off := a.b.Len()
	a.b.Write(s)
	return a.b.String()[off:]
}
