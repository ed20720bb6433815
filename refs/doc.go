// Package refs keeps the names of commits: HEAD, branches, tags,
// remote-tracking refs, the logs of how they moved, and the few notes a
// merge or fetch leaves behind (MERGE_HEAD, ORIG_HEAD, …). It also reads the
// revision syntax in which people name a commit.
//
// Everything is a small plain file in the .kist folder, replaced whole or not
// at all. Readers take no lock; all writers of a repository take turns. The
// files are described in docs/format/refs.md.
package refs
