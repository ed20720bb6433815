// Package kist is version control and backup for folders of any files: git's
// model of an index, commits, branches, tags and merges over content-defined,
// deduplicated and compressed chunks.
//
// [Init] makes a repository and [Open] opens one. A [Repository] wires the
// parts together and has the operations that need several of them: staging,
// committing, checking out, merging. What needs one part only is done through
// that part: [Repository.Refs] for branches and tags, [Repository.Objects] for
// objects, package tree for directories and their differences, package
// refs/history for the graph of commits.
//
// The package reads neither the environment nor the clock of its own accord:
// [Options] brings what it needs to know of its surroundings.
package kist
