package ignore

import (
	"fmt"
	"strings"
	"testing"
)

// typical is a common ignore file.
const typical = `# build
*.o
*.a
*.so
*.pyc
*.class
*.log
*.tmp
*.swp
*~
.DS_Store
Thumbs.db
node_modules/
__pycache__/
.venv/
build/
dist/
target/
/bin
/out/
*.py[cod]
*$py.class
.idea/
.vscode/*
!.vscode/settings.json
docs/_build/
**/generated/**
coverage*.xml
*.egg-info/
.cache
`

func BenchmarkMatch(b *testing.B) {
	paths := make([]string, 1000)
	for i := range paths {
		paths[i] = fmt.Sprintf("src/module%d/package%d/file_%d.go", i%10, i%50, i)
	}
	for _, set := range []struct{ name, patterns string }{
		{"none", ""}, {"one", "*.o\n"}, {"typical", typical}, {"literals", strings.Repeat("some/file/name\nname\n", 1000)},
	} {
		b.Run(set.name, func(b *testing.B) {
			m := new(Matcher).Push(mustParse(b, set.patterns, ""))
			i := 0
			b.ReportAllocs()
			for b.Loop() {
				m.Match(paths[i], false)
				if i++; i == len(paths) {
					i = 0
				}
			}
		})
	}
}

func BenchmarkHostile(b *testing.B) {
	for _, test := range hostile {
		b.Run(test.name, func(b *testing.B) {
			m := new(Matcher).Push(mustParse(b, test.pattern, ""))
			for b.Loop() {
				m.Match(test.path, false)
			}
		})
	}
}

func BenchmarkParse(b *testing.B) {
	for b.Loop() {
		mustParse(b, typical, "")
	}
}
