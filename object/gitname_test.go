package object_test

import (
	"strings"
	"testing"

	"github.com/kist-vcs/kist/object"
)

// The forms of .git are those of .kist, in which only the letters and the hash differ.
func TestIsGitName(t *testing.T) {
	yes := []string{
		".git", ".GIT", ".Git", ".git.", ".git ", ".git. .", ".git:", ".git::$INDEX_ALLOCATION", "git~1", "GIT~2", "git~10", "git~1.",
		"gi2837~1", "GI2837~9", "gi283~10", "gi2~1000", ".g\u200cit", "\u200c.git", ".git\ufeff", `.git\config`, `a\.GIT`, `a\git~1\b`, ".gi\u00adt", ".git\U000e0001",
	}
	no := []string{
		"", "a", "git", "GIT", ".gitignore", ".gitmodules", ".git-old", ".git.txt", "a.git", "..git", " .git", ".gi", ".gitt", "git~", "git~0", "git~x", "gi2837~",
		"gi283~1", "gi2838~1", "g", ".g", "\u200c", ".kist", "kist~1", `a\b`, `\`, ".git\n", ".\xffgit",
	}
	for _, name := range yes {
		if !object.IsGitName(name) {
			t.Errorf("IsGitName(%q) is false", name)
		}
		if err := object.CheckName(name); err != nil {
			t.Errorf("CheckName(%q): %v: trees may have it", name, err)
		}
	}
	for _, name := range no {
		if object.IsGitName(name) {
			t.Errorf("IsGitName(%q) is true", name)
		}
	}

	for _, name := range badNames {
		if !strings.HasPrefix(name, ".kist") || strings.Contains(name, "/") {
			continue
		}
		if form := ".git" + strings.TrimPrefix(name, ".kist"); !object.IsGitName(form) {
			t.Errorf("IsGitName(%q) is false, though %q is a form of .kist", form, name)
		}
	}
}
