// Package tree works on stored directories: it walks, compares, merges, edits
// and verifies them, and compares and merges the text of files.
//
// A directory is a chunked list of entries (docs/format/objects.md). Equal
// lists have equal nodes, so common parts of two directories are skipped by ID
// without being read. To find or make one change in a folder of a million
// entries, kist reads and writes only a handful of nodes.
//
// Paths are repository paths: components separated by slashes, without a
// leading one; "" is the root directory. They are sorted in the order of a
// walk (see [ComparePaths]).
package tree
