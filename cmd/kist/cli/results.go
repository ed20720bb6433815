package cli

import (
	"fmt"
	"reflect"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/kist-vcs/kist/cmd/kist/jsonform"
)

// JSONResult describes objects that a command prints with --json.
type JSONResult struct {
	When string // as in "for each branch", or a whole title, as in "WITH --progress json"; "": one object, always
	Type reflect.Type
}

// results has the results that each command declared.
type results struct {
	Cmd *cobra.Command // the command that runs

	// Strict refuses to print a result that the command did not declare. Tests set it.
	Strict bool

	declared map[*cobra.Command][]JSONResult
}

// Prints declares that cmd prints objects of the type of form with --json. Its help and its page
// describe their fields, from the tags of the struct: see [jsonform.Fields].
func (r *results) Prints(cmd *cobra.Command, when string, form any) {
	r.declared[cmd] = append(r.declared[cmd], JSONResult{when, reflect.TypeOf(form)})
}

// ResultsOf returns the results that cmd declared.
func (r *results) ResultsOf(cmd *cobra.Command) []JSONResult { return r.declared[cmd] }

// checkDeclared returns an error if a command that is strict prints v but did not declare it.
func (r *results) checkDeclared(v any) error {
	if !r.Strict || r.Cmd == nil {
		return nil
	}
	t := reflect.TypeOf(v)
	if t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	for _, result := range slices.Concat(r.declared[r.Cmd], r.declared[r.Cmd.Root()]) {
		if result.Type == t {
			return nil
		}
	}
	return fmt.Errorf("%s did not declare that it prints %s", r.Cmd.CommandPath(), t)
}

// Section lists the fields of a result for the help. Those in brackets can be absent.
func (r JSONResult) Section() ManualSection {
	s := ManualSection{Title: r.Title()}
	for _, f := range fieldsInHelp(r.Type) {
		text := f.Text()
		if inner := jsonform.Inner(f.Type); inner != nil {
			var names []string
			for _, f := range fieldsInHelp(inner) {
				names = append(names, f.Name)
			}
			text += " {" + strings.Join(names, ", ") + "}"
		}
		term := f.Name
		if f.Optional {
			term = "[" + term + "]"
		}
		s.Items = append(s.Items, ManualItem{term, text})
	}
	return s
}

// Title returns the title of the section about a result.
func (r JSONResult) Title() string {
	const title = "WITH --json"
	option, isOption := strings.CutPrefix(r.When, "with ")
	switch {
	case isOption:
		return title + " and " + option
	case r.When == "":
		return title
	case strings.HasPrefix(r.When, "WITH "):
		return r.When
	}
	return title + ", " + r.When
}

// fieldsInHelp returns the fields of an object without those with bytes of others, as path_raw.
func fieldsInHelp(t reflect.Type) []jsonform.Field {
	return slices.DeleteFunc(jsonform.Fields(t), func(f jsonform.Field) bool {
		kind := jsonform.KindOf(f.Type)
		if kind == jsonform.KindList {
			kind = jsonform.KindOf(f.Type.Elem())
		}
		return kind == jsonform.KindBytes
	})
}
