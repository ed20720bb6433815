// Package gc keeps a store healthy: it collects garbage, verifies what is in a
// store, and tells which commits and paths are affected by what is damaged or
// missing.
package gc
