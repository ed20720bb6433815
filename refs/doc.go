// Package refs keeps the names of commits: HEAD, branches, tags,
// remote-tracking refs, the logs of their moves, and the notes that a merge or
// fetch leaves behind (MERGE_HEAD, ORIG_HEAD, …). It also reads the revision
// syntax in which people name a commit.
//
// Each name is a small file in the .kist folder, replaced atomically. Readers
// take no lock. All writers of a repository share one lock.
// docs/format/refs.md describes the files.
package refs
