package serve

import (
	"encoding/json"
	"maps"
	"reflect"
	"slices"
	"strings"
	"sync"

	"github.com/kist-vcs/kist/cmd/kist/jsonform"
)

// part is an object of the document.
type part = map[string]any

// apiDocument describes the API in the form of OpenAPI. It is made of apiRoutes when it is first
// needed.
var apiDocument = sync.OnceValues(func() ([]byte, error) {
	paths := part{}
	for _, route := range apiRoutes {
		paths[apiPrefix+route.pattern] = part{"get": route.describeOperation()}
	}
	schemas := part{}
	answers := Answers()
	for _, t := range slices.Concat(answers, jsonform.Nested(answers...)) {
		schemas[jsonform.DocumentName(t)] = objectSchema(t)
	}

	return json.MarshalIndent(part{
		"openapi": "3.1.0",
		"info": part{
			"title": "kist serve", "version": "1",
			"description": "Reads a kist repository. Answers change only with the repository. /files/PATH has the raw content of files, /metrics is for Prometheus.",
			"license":     part{"name": "Apache License 2.0", "identifier": "Apache-2.0"},
		},
		"servers":  []part{{"url": "/", "description": "The server that has this document."}},
		"security": []part{{}, {"login": []string{}}},
		"paths":    paths,
		"components": part{
			"securitySchemes": part{"login": part{"type": "http", "scheme": "basic"}},
			"schemas":         schemas,
		},
	}, "", " ")
})

// Answers returns the types of the answers of the API.
func Answers() []reflect.Type {
	types := []reflect.Type{reflect.TypeFor[failedJSON]()}
	for _, route := range apiRoutes {
		types = append(types, reflect.TypeOf(route.result))
	}
	return types
}

// apiParameter is an argument of a route. It is in the path if the pattern of the route has it, and
// otherwise in the query.
type apiParameter struct {
	name, doc string
	required  bool
	values    []string // nil: any text, or a number
	number    *apiRange
}

// apiRange has the least and the most value of a number. There is no limit if most is 0.
type apiRange struct{ least, most int }

// The parameters that several routes take.
var (
	inPath  = apiParameter{name: "path", doc: "A path from the top folder. It may have slashes. Each byte that is not allowed in a URL is escaped as %XX.", required: true}
	ofRev   = apiParameter{name: "rev", doc: "A branch, a tag or an ID, by default HEAD. The owner may use any revision."}
	skipped = apiParameter{name: "skip", doc: "Leave out the first items.", number: &apiRange{}}
	atMost  = apiParameter{name: "limit", doc: "The most items of a page.", number: &apiRange{1, 1000}}
	inPages = apiParameter{name: "limit", doc: "The most items of a page.", number: &apiRange{1, 10000}}
)

// apiFailures describes the statuses of requests that fail. A route can have one more.
var apiFailures = map[string]string{
	"400": "An argument is wrong.",
	"401": "A name and a password are missing or wrong.",
	"404": "There is no such thing, or the user may not read it.",
	"410": "The content was purged, or has expired.",
}

// describeOperation describes the requests of a route.
func (r *apiRoute) describeOperation() part {
	parameters := []part{}
	for _, p := range r.parameters {
		in := "query"
		if strings.Contains(r.pattern, "{"+p.name+"}") {
			in = "path"
		}
		parameters = append(parameters, part{"name": p.name, "in": in, "description": p.doc, "required": p.required, "schema": p.schemaOfType()})
	}

	responses := part{"200": response("The answer.", r.result)}
	failures := maps.Clone(apiFailures)
	if r.forbidden != "" {
		failures["403"] = r.forbidden
	}
	for status, meaning := range failures {
		responses[status] = response(meaning, failedJSON{})
	}
	return part{"operationId": r.id, "summary": r.summary, "parameters": parameters, "responses": responses}
}

func (p *apiParameter) schemaOfType() part {
	switch {
	case p.values != nil:
		return part{"type": "string", "enum": p.values}
	case p.number == nil:
		return part{"type": "string"}
	case p.number.most == 0:
		return part{"type": "integer", "minimum": p.number.least}
	}
	return part{"type": "integer", "minimum": p.number.least, "maximum": p.number.most}
}

func response(meaning string, result any) part {
	return part{"description": meaning, "content": part{"application/json": part{"schema": schemaOf(reflect.TypeOf(result))}}}
}

// objectSchema describes the objects of a struct.
func objectSchema(t reflect.Type) part {
	properties, required := part{}, []string{}
	for _, f := range jsonform.Fields(t) {
		schema := schemaOf(f.Type)
		schema["description"] = f.Doc
		if f.Values != nil {
			schema["enum"] = f.Values
		}
		if f.Nullable {
			schema["type"] = []any{schema["type"], "null"}
		}
		if !f.Optional {
			required = append(required, f.Name)
		}
		properties[f.Name] = schema
	}
	return part{"type": "object", "properties": properties, "required": required, "additionalProperties": false}
}

// schemaOf describes the values of a type.
func schemaOf(t reflect.Type) part {
	switch kind := jsonform.KindOf(t); kind {
	case jsonform.KindID:
		return part{"type": "string", "pattern": "^[0-9a-f]{64}$"}
	case jsonform.KindTime:
		return part{"type": "string", "format": "date-time"}
	case jsonform.KindBytes:
		return part{"type": "string", "contentEncoding": "base64"}
	case jsonform.KindList:
		return part{"type": "array", "items": schemaOf(t.Elem())}
	case jsonform.KindMap:
		return part{"type": "object", "additionalProperties": schemaOf(t.Elem())}
	case jsonform.KindObject:
		return part{"$ref": "#/components/schemas/" + jsonform.DocumentName(t)}
	default:
		return part{"type": string(kind)}
	}
}
