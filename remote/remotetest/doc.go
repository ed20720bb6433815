// Package remotetest has what tests of remotes need: [Run], a conformance
// suite for implementations of [remote.Backend]; [Memory], a store in memory;
// and [Faulty], a wrapper whose calls fail as planned or at random.
package remotetest
