package tree

import "slices"

// Cone selects the directories that a worktree has: the chosen ones with everything below
// them, and the directories above them with only their own files. This is the cone mode of
// git's sparse checkouts. A nil Cone selects everything.
type Cone struct {
	chosen []string // sorted; none is below another
}

// NewCone returns the cone of the chosen directories. With the root among them, it is nil.
// Without any, it has only the root's own files. The error is that of [CheckPath].
func NewCone(dirs []string) (*Cone, error) {
	c := &Cone{chosen: []string{}}
	for _, dir := range slices.SortedFunc(slices.Values(dirs), ComparePaths) {
		if dir == "" {
			return nil, nil
		}
		if err := CheckPath(dir); err != nil {
			return nil, err
		}
		if n := len(c.chosen); n == 0 || !Below(dir, c.chosen[n-1]) {
			c.chosen = append(c.chosen, dir)
		}
	}
	return c, nil
}

// Dirs returns the chosen directories: sorted, and without those below another. The slice
// belongs to the cone.
func (c *Cone) Dirs() []string {
	if c == nil {
		return nil
	}
	return c.chosen
}

// Equal reports whether two cones select the same directories.
func (c *Cone) Equal(other *Cone) bool {
	return (c == nil) == (other == nil) && slices.Equal(c.Dirs(), other.Dirs())
}

// Has reports whether a directory, with its own files, is in the worktree.
func (c *Cone) Has(dir string) bool {
	if c == nil || dir == "" {
		return true
	}
	i, found := slices.BinarySearchFunc(c.chosen, dir, ComparePaths)
	return found || i > 0 && Below(dir, c.chosen[i-1]) || i < len(c.chosen) && Below(c.chosen[i], dir)
}
