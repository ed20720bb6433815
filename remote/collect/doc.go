// Package collect keeps a remote small and intact: [PlanGarbage] finds the files and objects that
// no ref reaches, and [Collection.Apply] deletes them.
// [MergeSmall] merges small packs, [Check] finds damage, and [Repair] replaces damaged files.
//
// An object is reached if a ref or a hold leads to it. A file is condemned once a root marks it for
// deletion: messages call it marked. A pack is repacked if its objects are stored as small as
// possible, as patches of others.
//
// A collection follows section "Collecting" of docs/format/remote.md. Words in capitals, such
// as RELY_ON_ALL_LIVE, name the rules there; without any of them, data is lost.
package collect
