// Package objecttest helps to test object stores. It has [Run], a conformance suite for
// implementations of [object.ReadWriter]; [Memory], a store in memory; and [Faulty], a
// wrapper whose calls fail on demand.
package objecttest
