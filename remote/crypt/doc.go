// Package crypt encrypts a remote. A [Store] lies between a store and everything else. It encrypts
// packs, index files, roots and state files before they leave this machine, and decrypts and
// authenticates every blob that it reads. A store learns the number of the blobs, the times of requests, and the
// size class of each blob.
//
// docs/format/encrypted.md describes the format.
package crypt
