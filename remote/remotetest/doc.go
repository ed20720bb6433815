// Package remotetest is for tests of remotes. [Run] and [RunLocker] are conformance
// suites for implementations of [remote.Backend] and [remote.Locker]. [Memory] is a
// store in memory, [Faulty] a wrapper whose calls fail as planned or at random,
// [Mutant] a store with replaceable methods, and [FakeS3] a server.
package remotetest
