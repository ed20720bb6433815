package commands

import (
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/spf13/cobra"

	"github.com/kist-vcs/kist/cmd/kist/cli"
	"github.com/kist-vcs/kist/cmd/kist/jsonform"
	"github.com/kist-vcs/kist/cmd/kist/serve"
)

// silent lists the commands that print nothing with --json, or the same as without.
var silent = []string{
	"attr", "bisect", "export", "hold", "key", "schedule", "schedule remove", "view", "view remove",
	"cat", "completion", "difftool", "docs", "help",
}

// TestResults checks that all commands declare their results, and that each field has a description.
// The scripts check that commands print no other results.
func TestResults(t *testing.T) {
	env, _, _ := testEnv(t)
	var all []reflect.Type
	cli.EachCommand(cli.New(env), func(cmd *cobra.Command) {
		results := env.ResultsOf(cmd)
		name := strings.TrimPrefix(cmd.CommandPath(), "kist ")
		if got, want := len(results) == 0, slices.Contains(silent, name); got != want {
			t.Errorf("%s prints no JSON: %t, want %t", name, got, want)
		}
		for _, result := range results {
			all = append(all, result.Type)
			for _, item := range result.Section().Items {
				if len(item.Term) > 28 {
					t.Errorf("%s: the name of field %s is too long for the help", name, item.Term)
				}
			}
		}
	})

	checkDescriptions(t, all, jsonform.Nested(all...))
}

// TestAnswers checks that each field of the answers of the server has a description.
func TestAnswers(t *testing.T) {
	answers := serve.Answers()
	for _, inner := range jsonform.Nested(answers...) {
		if !slices.Contains(answers, inner) {
			answers = append(answers, inner)
		}
	}
	checkDescriptions(t, nil, answers)
}

// checkDescriptions checks the descriptions of objects, and that the named ones have different names.
func checkDescriptions(t *testing.T, objects, named []reflect.Type) {
	names := map[string]reflect.Type{}
	for _, object := range named {
		if other := names[jsonform.DocumentName(object)]; other != nil {
			t.Errorf("%s and %s have the same name on a page", object, other)
		}
		names[jsonform.DocumentName(object)] = object
	}
	for _, object := range slices.Concat(objects, named) {
		for _, wrong := range undescribed(object) {
			t.Errorf("%s: %s", object, wrong)
		}
	}
}

// undescribed returns the fields of an object whose description is missing or wrong.
func undescribed(object reflect.Type) (wrong []string) {
	for _, f := range jsonform.Fields(object) {
		switch {
		case f.Doc == "":
			wrong = append(wrong, f.Name+" has no doc")
		case strings.HasSuffix(f.Doc, "."):
			wrong = append(wrong, f.Name+": the doc ends with a full stop")
		case f.Nullable != strings.Contains(f.Doc, "null: "):
			wrong = append(wrong, f.Name+": the doc must say what null means, if it can be null")
		}
	}
	return wrong
}

func TestUndescribed(t *testing.T) {
	type form struct {
		A int    `json:"a"`
		B *int   `json:"b" doc:"a number"`
		C int    `json:"c" doc:"a number; null: none"`
		D int    `json:"d,omitempty" doc:"A number."`
		E *int   `json:"e" doc:"a number; null: none"`
		F *int   `json:"f,omitempty" doc:"a number"`
		G []byte `json:"e_raw"`
		H int    `json:"-"`
		i int
	}
	if got := undescribed(reflect.TypeOf(form{i: 1})); len(got) != 4 {
		t.Errorf("%q, want the fields a to d", got)
	}
}
