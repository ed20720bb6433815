// Package transfertest has what the tests of remote/transfer and remote/collect share:
// repositories that push, fetch and collect, and a remote that a test fills itself.
package transfertest
