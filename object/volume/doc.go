// Package volume is the local object store: a folder of sealed volumes.
//
// A volume is one Badger database, written once by one process, then sealed:
// its files are never opened for writing again, and are read without Badger.
// Badger's part is to take objects in fast; what it does with files that are
// damaged, or a disk that is full, must not touch what was stored before. It
// is the only package that knows Badger.
//
// A [Store] reads; a [Session] writes. Sessions of any number of processes
// work side by side, each in a volume of its own, and readers wait for no one.
// Whatever makes stored objects reachable (a ref, the index) is written inside
// [Session.Publish].
//
// The format is described in docs/format/volume.md.
package volume
