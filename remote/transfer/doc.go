// Package transfer moves objects between a repository and a remote: [Remote] is an opened
// remote, [Remote.Push] brings commits to it, and [Remote.Fetch] gets them from there.
// Both first find the missing objects, then copy them in parallel, with bounded memory.
// They trust no object before its hash was checked; refs move last.
//
// The protocol is described in docs/format/remote.md. Words in capitals, such as
// RELY_ON_ALL_LIVE, name the rules there; without any of them, data is lost.
package transfer
