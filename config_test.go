package kist_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/kist-vcs/kist"
)

// A configuration above the size limit of the reader is not written.
func TestConfigTooLarge(t *testing.T) {
	dir := t.TempDir()
	r, err := kist.Init(t.Context(), dir, kist.Options{}, kist.InitOptions{})
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	var bad *kist.ConfigError
	if err := r.SetConfig(t.Context(), "user.name", strings.Repeat("x", 1<<20)); !errors.As(err, &bad) {
		t.Errorf("set a value of 1 MiB: %v, want a ConfigError", err)
	}
	if err := r.SetConfig(t.Context(), "user.name", strings.Repeat("x", 1<<20-1000)); err != nil {
		t.Errorf("set a value below 1 MiB: %v", err)
	}
	again, err := kist.Open(dir, kist.Options{})
	if err != nil {
		t.Fatal(err)
	}
	again.Close()
}
