//go:build !linux

package volume

func networkFS(string) string { return "" }
