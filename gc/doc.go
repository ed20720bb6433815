// Package gc keeps a store healthy: it verifies what is in it, and tells which
// commits and paths are affected by what is damaged or missing.
package gc
