// Package index keeps the staging area: what the next commit will hold, with
// the stat data that lets a scan tell an unchanged file without reading it.
//
// An [Index] is organised by directory, in the order of the trees it becomes:
// every folder is a [Dir] with its sorted entries (all that is not a folder)
// and its sorted sub-directories, and remembers the tree it was last written
// as. An edit forgets that tree for the folder and those above it, so writing
// a commit costs what changed.
//
// On disk it is the file .kist/index, a small head that names a base file and
// holds what changed since the base was written; see docs/format/index.md.
// [Load] reads it, [Update] is the only way to change it.
//
// An Index may be read by many goroutines at once while none edits it.
package index
