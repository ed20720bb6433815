// Package record has the records about commits and contents: a commit is held,
// its content has expired, a content was purged. There is one record for each
// such fact. It is switched on and off but never removed. So records from
// several places can be merged in any order: the one that was changed more
// often counts.
//
// A Set has records. A View has their consequences at a moment. A Store keeps
// the records of a repository; remotes keep theirs in the root log.
// docs/format/records.md describes the formats.
package record
