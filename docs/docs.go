// Package docs has the pages that 'kist help' prints.
package docs

import _ "embed"

// The pages about names of paths and commits, about ages, about variables, about remotes in S3 and behind web servers, and about signatures.
var (
	//go:embed paths.md
	Paths string
	//go:embed revisions.md
	Revisions string
	//go:embed ages.md
	Ages string
	//go:embed environment.md
	Environment string
	//go:embed howto/s3.md
	S3 string
	//go:embed howto/thaw.md
	Thaw string
	//go:embed howto/publish.md
	Publish string
	//go:embed howto/immutable.md
	Immutable string
	//go:embed howto/encrypt.md
	Encrypt string
	//go:embed howto/sign.md
	Sign string
)
