// Package tree works on directories as they are stored: it walks, compares,
// merges, edits and verifies them, and compares and merges the text of files.
//
// A directory is a chunked list of entries (docs/format/objects.md). Equal
// lists have equal nodes, so what two directories have in common is skipped
// by ID without being read: finding or making one change in a folder of a
// million entries reads and writes a handful of nodes.
//
// Paths are repository paths: components separated by slashes, without a
// leading one; "" is the root directory. They are sorted as a walk meets
// them (see [ComparePaths]).
package tree
