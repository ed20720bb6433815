package access

import (
	"context"
	"slices"

	"github.com/kist-vcs/kist"
	"github.com/kist-vcs/kist/object"
	"github.com/kist-vcs/kist/object/graph"
	"github.com/kist-vcs/kist/refs/record"
)

// past has the rules of the commits in a history. It grows on demand. A request that ends
// early leaves its progress to the next one.
type past struct {
	repo   *kist.Repository
	memory *memory

	turn    chan struct{} // holds an element while somebody uses the rest
	commits []pastCommit  // parents first
	numbers map[object.ID]int32

	// About the history of the head that was asked for last:
	head    object.ID
	reached []bool // by commit
	ruled   bool   // some rules are not those of the head
	answers map[object.ID][]*ruleFolder
}

// pastCommit is a commit. If its content has expired and is gone, it has the tree and the rules
// of its first parent.
type pastCommit struct {
	parents []int32
	tree    object.ID
	rules   *ruleFolder
}

// maxAnswers is the most commits for which past keeps the later rules.
const maxAnswers = 10_000

func newPast(r *kist.Repository, m *memory) *past {
	return &past{repo: r, memory: m, turn: make(chan struct{}, 1), numbers: map[object.ID]int32{}}
}

// laterRules returns the different rules of the commits in the history of head that are not in the
// history of commit. So these commits are later, or beside it. It leaves out the rules of head.
func (p *past) laterRules(ctx context.Context, head, commit object.ID) ([]*ruleFolder, error) {
	if head.IsZero() || head == commit {
		return nil, nil
	}
	select {
	case p.turn <- struct{}{}:
		defer func() { <-p.turn }()
	case <-ctx.Done():
		return nil, ctx.Err()
	}

	if head != p.head {
		top, err := p.addHistory(ctx, head)
		if err != nil {
			return nil, err
		}
		p.head, p.reached, p.answers = head, p.reachOf(top), map[object.ID][]*ruleFolder{}
		p.ruled = false
		for i, reached := range p.reached {
			rules := p.commits[i].rules
			p.ruled = p.ruled || reached && rules != nil && rules != p.commits[top].rules
		}
	}
	if !p.ruled {
		return nil, nil
	}
	if known, ok := p.answers[commit]; ok {
		return known, nil
	}

	var before []bool
	if !commit.IsZero() {
		number, err := p.addHistory(ctx, commit)
		if err != nil {
			return nil, err
		}
		before = p.reachOf(number)
	}
	answer := p.rulesExcept(before)
	if len(p.answers) >= maxAnswers {
		clear(p.answers)
	}
	p.answers[commit] = answer
	return answer, nil
}

// rulesExcept returns the different rules in the history of the head, except those of the
// head and of some commits.
func (p *past) rulesExcept(before []bool) (list []*ruleFolder) {
	own := p.commits[p.numbers[p.head]].rules
	seen := map[*ruleFolder]bool{nil: true, own: true}
	for i, reached := range p.reached {
		if rules := p.commits[i].rules; reached && !seen[rules] && (i >= len(before) || !before[i]) {
			seen[rules] = true
			list = append(list, rules)
		}
	}
	return list
}

// reachOf returns, by commit, whether the history of a commit has it.
func (p *past) reachOf(number int32) []bool {
	reached := make([]bool, number+1)
	reached[number] = true
	for i := range slices.Backward(reached) {
		if reached[i] {
			for _, parent := range p.commits[i].parents {
				reached[parent] = true
			}
		}
	}
	return reached
}

// addHistory returns the number of a commit, after it has added the commit and its history.
func (p *past) addHistory(ctx context.Context, id object.ID) (int32, error) {
	if number, known := p.numbers[id]; known {
		return number, nil
	}
	records, err := p.repo.RecordViewOrEmpty()
	if err != nil {
		return 0, err
	}
	read := func(id object.ID) (*object.Commit, []object.ID, error) {
		c, err := object.ReadCommit(ctx, p.repo.Objects(), id)
		if isDamage(err) {
			return nil, nil, nil
		}
		if err != nil {
			return nil, nil, err
		}
		links := slices.Clone(c.Parents)
		slices.Reverse(links)
		return c, links, nil
	}
	value := func(id object.ID, c *object.Commit) (int32, error) {
		out, err := p.readCommit(ctx, records, id, c)
		if err != nil {
			return 0, err
		}
		p.commits = append(p.commits, out)
		return int32(len(p.commits) - 1), nil
	}
	return graph.Fold(ctx, p.numbers, id, read, value)
}

// readCommit returns a commit whose parents were added. C is nil if the commit cannot be read: then
// nobody may read anything by its rules.
func (p *past) readCommit(ctx context.Context, records *record.Effects, id object.ID, c *object.Commit) (out pastCommit, err error) {
	if c == nil {
		out.rules, err = p.memory.keepFolder(ruleFolder{closed: true})
		return out, err
	}
	for _, parent := range c.Parents {
		out.parents = append(out.parents, p.numbers[parent])
	}
	var before pastCommit
	if len(out.parents) > 0 {
		before = p.commits[out.parents[0]]
	}

	if _, expired := records.Expired(id); expired {
		if _, err := object.ReadTree(ctx, p.repo.Objects(), c.Tree); isDamage(err) {
			out.tree, out.rules = before.tree, before.rules
			return out, nil
		}
	}
	out.tree = c.Tree
	if before.tree.IsZero() { // of a commit that cannot be read
		before.rules = nil
	}
	out.rules, err = p.memory.rulesOf(ctx, p.repo.Objects(), before.rules, before.tree, c.Tree)
	return out, err
}
