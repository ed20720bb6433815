// Package record has what is said of commits and contents apart from names:
// that a commit is held, that its content has expired, that a content was
// purged. There is one record for each of these; it is switched on and off,
// never removed, so that records that were made in different places can be put
// together in any order: the one that was changed more often counts.
//
// A Set has records, a View says what follows from them at a moment, a Store
// keeps those of a repository. Remotes keep theirs in the root log. The formats
// are described in docs/format/records.md.
package record
