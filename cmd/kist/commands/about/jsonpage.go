package about

import (
	"fmt"
	"reflect"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/kist-vcs/kist/cmd/kist/cli"
	"github.com/kist-vcs/kist/cmd/kist/jsonform"
)

// JSONPage describes the rules of --json, and the objects that the results of commands contain.
func JSONPage(env *cli.Env, root *cobra.Command) string {
	var results []reflect.Type
	cli.EachCommand(root, func(cmd *cobra.Command) {
		for _, result := range env.ResultsOf(cmd) {
			results = append(results, result.Type)
		}
	})
	nested := jsonform.Nested(results...)
	slices.SortFunc(nested, func(a, b reflect.Type) int {
		return strings.Compare(jsonform.DocumentName(a), jsonform.DocumentName(b))
	})

	var b strings.Builder
	b.WriteString(`# Results as JSON

With ` + "`--json`" + `, a command prints each result as an object on a line of its own. Its page
lists the fields, and this page the objects in them. Later versions may add fields:
programs ignore unknown ones.

- An optional field can be absent. The help has it in brackets.
- An ID has 64 hexadecimal digits. A time is in the form of RFC 3339. Sizes are in bytes.
- A map is an object with any names.
- A path that is not UTF-8 has U+FFFD in place of its invalid bytes. A second field, with
  ` + "`_raw`" + ` at the end of its name, then has the exact bytes as base64.
- An [error](errors.md) is also an object, in place of a result.
`)
	for _, t := range nested {
		fmt.Fprintf(&b, "\n## %s\n\n%s", jsonform.DocumentName(t), fieldsPage(t))
	}
	return b.String()
}

// fieldsPage lists the fields of an object for a page of the reference.
func fieldsPage(t reflect.Type) string {
	var b strings.Builder
	for _, f := range jsonform.Fields(t) {
		kind := kindWords(f.Type)
		if f.Nullable {
			kind += " or null"
		}
		if f.Optional {
			kind += ", optional"
		}
		fmt.Fprintf(&b, "- `%s` (%s): %s\n", f.Name, kind, f.Text())
	}
	return b.String()
}

// kindWords names the kind of the values of a type, with a link to the description of an object.
func kindWords(t reflect.Type) string {
	switch kind := jsonform.KindOf(t); kind {
	case jsonform.KindObject:
		return "[" + jsonform.DocumentName(t) + "](json.md#" + strings.ToLower(jsonform.DocumentName(t)) + ")"
	case jsonform.KindList, jsonform.KindMap:
		return string(kind) + " of " + kindWords(t.Elem())
	default:
		return string(kind)
	}
}
