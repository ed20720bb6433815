package cli

import (
	"context"
	"errors"
	"strings"

	"github.com/kist-vcs/kist/object"
	"github.com/kist-vcs/kist/refs"
)

// tagJSON is an annotated tag as show prints it with --json.
type tagJSON struct {
	Name    string     `json:"name"`
	ID      object.ID  `json:"id"`
	Target  object.ID  `json:"target"`
	Tagger  personJSON `json:"tagger"`
	Message string     `json:"message"`
}

// showTag prints the annotated tag that a revision is the name of, if it is.
func (p *commitPrinter) showTag(ctx context.Context, rev string) error {
	if strings.ContainsAny(rev, "^~") {
		return nil // v1^{commit} is the commit
	}
	name, err := p.repo.Refs().Expand(ctx, rev)
	if errors.Is(err, refs.ErrNotFound) || err == nil && !strings.HasPrefix(name, refs.Tags) {
		return nil
	}
	if err != nil {
		return err
	}
	id, err := p.repo.Refs().Get(name)
	if err != nil {
		return err
	}
	tag, err := object.ReadTag(ctx, p.repo.Objects(), id)
	if errors.Is(err, object.ErrNotFound) {
		return nil // it stands for a commit
	}
	if err != nil {
		return err
	}
	if p.env.global.json {
		p.env.json(tagJSON{tag.Name, id, tag.Target, newPersonJSON(tag.Tagger), tag.Message})
		return nil
	}
	if p.printed {
		p.env.printf("\n")
	}
	p.printed = true
	p.env.printf("%s\nTagger: %s\nDate:   %s\n", p.env.paint(yellow, "tag "+printable(tag.Name)), person(tag.Tagger), tag.Tagger.When().Format(gitTime))
	if message := strings.Trim(tag.Message, "\n"); message != "" {
		p.env.printf("\n%s\n", printable(message))
	}
	return nil
}
