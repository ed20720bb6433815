package serve_test

import (
	"encoding/json"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/kist-vcs/kist/cmd/kist/kisttest"
	"github.com/kist-vcs/kist/cmd/kist/serve"
	"github.com/kist-vcs/kist/tree/work/stage"
)

// document has the parts of an OpenAPI document that the tests use.
type document struct {
	Paths map[string]struct {
		Get struct {
			Parameters []struct {
				Name, In string
				Required bool
			}
			Responses map[string]struct {
				Content map[string]struct{ Schema map[string]any }
			}
		}
	}
	Components struct{ Schemas map[string]map[string]any }
}

// check returns the differences of a value from a schema.
func (d *document) check(schema map[string]any, v any, at string) []string {
	if ref, ok := schema["$ref"].(string); ok {
		name := ref[strings.LastIndex(ref, "/")+1:]
		if d.Components.Schemas[name] == nil {
			return []string{at + ": no schema " + name}
		}
		return d.check(d.Components.Schemas[name], v, at)
	}
	if !hasType(schema["type"], v) {
		return []string{fmt.Sprintf("%s: %.40v is no %v", at, v, schema["type"])}
	}
	if enum, ok := schema["enum"].([]any); ok && !slices.Contains(enum, v) {
		return []string{fmt.Sprintf("%s: %v is not in %v", at, v, enum)}
	}

	var wrong []string
	switch v := v.(type) {
	case []any:
		for i, item := range v {
			wrong = append(wrong, d.check(schema["items"].(map[string]any), item, fmt.Sprintf("%s[%d]", at, i))...)
		}
	case map[string]any:
		properties, _ := schema["properties"].(map[string]any)
		required, _ := schema["required"].([]any)
		for _, name := range required {
			if _, ok := v[name.(string)]; !ok {
				wrong = append(wrong, fmt.Sprintf("%s: no %s", at, name))
			}
		}
		for name, item := range v {
			if property, ok := properties[name].(map[string]any); ok {
				wrong = append(wrong, d.check(property, item, at+"."+name)...)
			} else if other, ok := schema["additionalProperties"].(map[string]any); ok {
				wrong = append(wrong, d.check(other, item, at+"."+name)...)
			} else {
				wrong = append(wrong, fmt.Sprintf("%s: %s is not described", at, name))
			}
		}
	}
	return wrong
}

// hasType reports whether a value has a type of JSON schema, or one of a list of types.
func hasType(kind, v any) bool {
	if list, ok := kind.([]any); ok {
		return slices.ContainsFunc(list, func(k any) bool { return hasType(k, v) })
	}
	switch v := v.(type) {
	case nil:
		return kind == "null"
	case bool:
		return kind == "boolean"
	case string:
		return kind == "string"
	case float64:
		return kind == "number" || kind == "integer" && v == float64(int64(v))
	case []any:
		return kind == "array"
	}
	return kind == "object"
}

// described checks that the answer to a request matches the document.
func (s *site) described(d *document, route, request string, code int, headers ...string) map[string]any {
	s.Helper()
	got := s.get(request, headers...)
	if got.StatusCode != code {
		s.Errorf("%s: %d %.300q, want %d", request, got.StatusCode, got.body, code)
	}
	content, ok := d.Paths[route].Get.Responses[fmt.Sprint(code)].Content["application/json"]
	if !ok || got.Header.Get("Content-Type") != "application/json" {
		s.Errorf("%s: status %d of type %q is not described", request, code, got.Header.Get("Content-Type"))
	}
	var v map[string]any
	if err := json.Unmarshal([]byte(got.body), &v); err != nil {
		s.Errorf("%s: %v", request, err)
	}
	for _, wrong := range d.check(content.Schema, v, route) {
		s.Errorf("%s: %s", request, wrong)
	}
	return v
}

func readDocument(t *testing.T, s *site, headers ...string) *document {
	t.Helper()
	var d document
	got := s.want("/api/openapi.json", 200, "openapi", headers...)
	if err := json.Unmarshal([]byte(got.body), &d); err != nil {
		t.Fatal(err)
	}
	return &d
}

func TestAPI(t *testing.T) {
	r := small(t)
	r.Write("bad\xff", "odd name")
	r.Write("page.html", "<p>\n")
	r.Write("zero", "a\x00b")
	r.Check(os.Symlink("a.txt", r.Dir+"/link"))
	r.Add(stage.AddOptions{})
	_, err := stage.EditAttrs(t.Context(), r.Repo, []string{"folder"}, func(_ string, attrs map[string]string) error {
		attrs["acl.read"], attrs["note"] = "anna", "x"
		return nil
	})
	r.Check(err)
	r.Commit("three\n\nLabel: monthly\n")
	r.Check(os.Remove(r.Dir + "/a.txt"))
	r.Add(stage.AddOptions{})
	r.Commit("four\n")
	s := serving(r, serve.Options{})
	d := readDocument(t, s)

	requests := []struct{ route, request string }{
		{"refs", "refs"}, {"log", "log"}, {"log", "log?limit=1&skip=1"}, {"log", "log?path=a.txt"}, {"commit", "commit?rev=HEAD~1"}, {"commit", "commit?rev=main"},
		{"tree/{path}", "tree/"}, {"tree/{path}", "tree/folder?rev=HEAD~1"}, {"tree/{path}", "tree/?limit=2"},
		{"file/{path}", "file/folder/b.txt"}, {"file/{path}", "file/folder"}, {"file/{path}", "file/"}, {"file/{path}", "file/bad%ff"}, {"file/{path}", "file/link"},
		{"diff", "diff"}, {"diff", "diff?patch=1&to=HEAD~1"}, {"diff", "diff?from=HEAD~3&to=HEAD&limit=1"}, {"diff", "diff?to=HEAD~3"}, {"diff", "diff?to=HEAD~1&path=folder"},
		{"history/{path}", "history/folder/b.txt"}, {"history/{path}", "history/a.txt?rev=HEAD~1"}, {"history/{path}", "history/a.txt"},
		{"search", "search?q=TXT"}, {"search", "search?q=c&in=text"}, {"search", "search?q=t&limit=1"}, {"search", "search?q=b&in=text&path=folder"}, {"stats", "stats"},
	}
	tested := map[string]bool{}
	for _, tt := range requests {
		tested["/api/v1/"+tt.route] = true
		s.described(d, "/api/v1/"+tt.route, "/api/v1/"+tt.request, 200)
	}
	for _, route := range serve.APIRoutes() {
		if _, ok := d.Paths[route]; !ok || !tested[route] {
			t.Errorf("%s: described: %t, tested: %t, want both", route, ok, tested[route])
		}
	}
	if len(d.Paths) != len(serve.APIRoutes()) {
		t.Errorf("%d routes are described, the server has %d", len(d.Paths), len(serve.APIRoutes()))
	}

	for _, tt := range []struct {
		route, request string
		code           int
	}{
		{"log", "log?rev=nope", 404}, {"log", "log?limit=x", 400}, {"log", "log?limit=0", 400}, {"log", "log?skip=-1", 400}, {"log", "log?path=../x", 400},
		{"tree/{path}", "tree/page.html", 404}, {"tree/{path}", "tree/nope", 404}, {"file/{path}", "file/nope", 404}, {"history/{path}", "history/nope", 404},
		{"diff", "diff?from=nope", 404}, {"search", "search", 400}, {"search", "search?q=a&in=x", 400}, {"search", "search?q=a&path=page.html", 400}, {"commit", "commit?rev=", 200},
	} {
		if v := s.described(d, "/api/v1/"+tt.route, "/api/v1/"+tt.request, tt.code); tt.code != 200 && v["error"] == nil {
			t.Errorf("%s: no error in the answer %v", tt.request, v)
		}
	}
	s.want("/api/v1/", 404, "openapi.json")
	s.want("/api/v1/refsx", 404, "openapi.json")
	s.want("/api/v1/refs/x", 404, "")
}

// TestAPIPages checks that all pages of a list together have each item once.
func TestAPIPages(t *testing.T) {
	r := kisttest.New(t)
	const commits, files = 7, 11
	for i := range commits {
		for j := range files {
			r.Write(fmt.Sprintf("f%02d", j), fmt.Sprint(i, j))
		}
		r.Add(stage.AddOptions{})
		r.Commit(fmt.Sprint(i, "\n"))
	}

	s := serving(r, serve.Options{})
	for _, tt := range []struct {
		request, list, key string
		want               int
	}{
		{"log?limit=3", "commits", "skip", commits}, {"diff?limit=4", "changes", "skip", files}, {"tree/?limit=5", "entries", "after", files},
	} {
		seen := map[string]bool{}
		next := ""
		for range 10 {
			var v map[string]any
			got := s.want("/api/v1/"+tt.request+next, 200, tt.list)
			r.Check(json.Unmarshal([]byte(got.body), &v))

			for _, item := range v[tt.list].([]any) {
				data, _ := json.Marshal(item)
				if seen[string(data)] {
					t.Errorf("%s: the pages repeat %s", tt.request, data)
				}
				seen[string(data)] = true
			}

			if v["next"] == nil {
				break
			}
			next = fmt.Sprintf("&%s=%v", tt.key, v["next"])
		}
		if len(seen) != tt.want {
			t.Errorf("%s: %d items, want %d", tt.request, len(seen), tt.want)
		}
	}
}
