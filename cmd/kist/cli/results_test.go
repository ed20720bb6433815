package cli

import (
	"testing"

	"github.com/spf13/cobra"
)

// A strict environment refuses a result that the command did not declare, and passes errors.
func TestStrictResults(t *testing.T) {
	type declared struct{ A int }
	type other struct{ A int }
	root, cmd := &cobra.Command{Use: "kist"}, &cobra.Command{Use: "cmd"}
	root.AddCommand(cmd)
	r := results{Cmd: cmd, Strict: true, declared: map[*cobra.Command][]JSONResult{}}
	r.Prints(root, "", errorJSON{})
	r.Prints(cmd, "", declared{})

	for _, v := range []any{declared{}, &declared{}, errorJSON{}} {
		if err := r.checkDeclared(v); err != nil {
			t.Error(err)
		}
	}
	if r.checkDeclared(other{}) == nil || r.checkDeclared(map[string]int{}) == nil {
		t.Error("an undeclared result is accepted")
	}
	if r.Strict = false; r.checkDeclared(other{}) != nil {
		t.Error("an undeclared result is refused outside of tests")
	}
}
