// Package gc keeps a store healthy: it collects garbage, verifies a store, and
// finds the commits and paths that damaged or missing objects affect.
package gc
