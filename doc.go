// Package kist opens repositories: version control and backup for folders of any
// files, with git's model of an index, commits, branches and tags over
// content-defined, deduplicated and compressed chunks.
//
// [Init] makes a repository and [Open] opens one. A [Repository] holds the
// configuration and the parts: [Repository.Refs] for branches and tags,
// [Repository.Objects] for objects, [Repository.Worktree] for files.
//
// Operations are functions of other packages that take a Repository:
// tree/work/stage adds files, tree/work/commits commits and merges, tree/work/checkout switches
// and restores, remote/exchange pushes and fetches, gc collects garbage.
//
// The package reads neither the environment nor the clock: the caller passes
// them in [Options].
package kist
