//go:build !linux

package volume

func renameNew(from, to string) error { return renameChecked(from, to) }
