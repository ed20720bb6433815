package dav

import (
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/kist-vcs/kist/object"
	"github.com/kist-vcs/kist/tree"
	"github.com/kist-vcs/kist/tree/work/pending"
)

// Limits of locks. A client refreshes a lock that it needs for longer.
const (
	maxLockTime = time.Hour
	maxLocks    = 10_000 // of all users
	maxOwnLocks = 1000   // of one user
	maxShared   = 8      // shared locks that meet; the properties of each file list them
	maxOwner    = 1024   // bytes of the text about the owner of a lock
)

// lock is a lock of a client on a path. Locks are kept in memory.
type lock struct {
	token   string
	root    string // path below [Prefix]
	deep    bool   // everything below root is locked, too
	shared  bool
	owner   string // XML from the client
	user    string
	time    time.Duration
	expires time.Time
}

// covers reports whether the lock protects the state of the resource at a path.
func (l *lock) covers(path string) bool {
	return l.root == path || l.deep && tree.Below(path, l.root)
}

// locks has all locks. It is safe for concurrent use.
type locks struct {
	now func() time.Time

	mu   sync.Mutex
	list map[string]*lock            // by token
	at   map[string]map[string]*lock // by root and token
	of   map[string]int              // the number of locks of a user
}

func newLocks(now func() time.Time) *locks {
	return &locks{now: now, list: map[string]*lock{}, at: map[string]map[string]*lock{}, of: map[string]int{}}
}

// errManyLocks means that no more locks are possible.
var errManyLocks = &statusError{http.StatusInsufficientStorage, "there are too many locks"}

// addLock adds a lock. The caller holds l.mu.
func (l *locks) addLock(n *lock) {
	if l.at[n.root] == nil {
		l.at[n.root] = map[string]*lock{}
	}
	l.at[n.root][n.token], l.list[n.token] = n, n
	l.of[n.user]++
}

// dropLock removes a lock, if it exists. The caller holds l.mu.
func (l *locks) dropLock(token string) {
	n := l.list[token]
	if n == nil {
		return
	}
	delete(l.list, token)
	if delete(l.at[n.root], token); len(l.at[n.root]) == 0 {
		delete(l.at, n.root)
	}
	if l.of[n.user]--; l.of[n.user] == 0 {
		delete(l.of, n.user)
	}
}

// createLock makes a lock. If an existing lock conflicts, it returns an error and the root of that lock.
func (l *locks) createLock(n lock) (lock, string, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.dropExpired()
	met := 0
	for _, other := range l.list {
		meets := other.covers(n.root) || n.deep && tree.Below(other.root, n.root)
		if meets && !(n.shared && other.shared) {
			return n, other.root, errors.New("is locked")
		}
		if meets {
			met++
		}
	}
	if len(l.list) >= maxLocks || l.of[n.user] >= maxOwnLocks || met >= maxShared {
		return n, "", errManyLocks
	}
	n.token = "urn:uuid:" + newUUID()
	n.expires = l.now().Add(n.time)
	l.addLock(&n)
	return n, "", nil
}

// newUUID returns a random UUID, of version 4.
func newUUID() string {
	var b [16]byte
	rand.Read(b[:])
	b[6], b[8] = b[6]&0x0f|0x40, b[8]&0x3f|0x80
	return fmt.Sprintf("%x-%x-%x-%x-%x", b[:4], b[4:6], b[6:8], b[8:10], b[10:])
}

// dropExpired removes the locks whose time is over. The caller holds l.mu.
func (l *locks) dropExpired() {
	now := l.now()
	for token, lock := range l.list {
		if now.After(lock.expires) {
			l.dropLock(token)
		}
	}
}

// locksCovering returns the locks that protect the state of the resource at a path, sorted by token.
// It looks only at the path and the folders above it, because a list of a folder asks for each
// file.
func (l *locks) locksCovering(path string) (list []lock) {
	l.mu.Lock()
	defer l.mu.Unlock()
	now := l.now()
	for at := path; len(l.list) > 0; at, _ = tree.Split(at) {
		for _, lock := range l.at[at] {
			if lock.covers(path) && !now.After(lock.expires) {
				list = append(list, *lock)
			}
		}
		if at == "" {
			break
		}
	}
	slices.SortFunc(list, func(a, b lock) int { return strings.Compare(a.token, b.token) })
	return list
}

// findLocks returns the locks that choose selects, sorted by token.
func (l *locks) findLocks(choose func(*lock) bool) []lock {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.dropExpired()
	var list []lock
	for _, lock := range l.list {
		if choose(lock) {
			list = append(list, *lock)
		}
	}
	slices.SortFunc(list, func(a, b lock) int { return strings.Compare(a.token, b.token) })
	return list
}

// extendLock gives a lock of a user more time.
func (l *locks) extendLock(token, path, user string, more time.Duration) (lock, bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.dropExpired()
	found := l.list[token]
	if found == nil || !found.covers(path) || found.user != user {
		return lock{}, false
	}
	found.time, found.expires = more, l.now().Add(more)
	return *found, true
}

func (l *locks) removeLock(token string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.dropLock(token)
}

// removeBelow removes the locks on a path and below it, because it was removed.
func (l *locks) removeBelow(path string) {
	for _, lock := range l.findLocks(func(k *lock) bool { return tree.Below(k.root, path) }) {
		l.removeLock(lock.token)
	}
}

// removeInside removes the locks below a path, because it was replaced.
func (l *locks) removeInside(path string) {
	for _, lock := range l.findLocks(func(k *lock) bool { return k.root != path && tree.Below(k.root, path) }) {
		l.removeLock(lock.token)
	}
}

// checkLocks returns an error if a lock that the client did not name protects a place. Member
// means that a name appears in the folder above, or disappears there with everything below it.
func (q *request) checkLocks(p *place, member bool) error {
	name := p.fullPath()
	dir, _ := tree.Split(name)
	if err := q.ifHeader.checkAny(q, p); err != nil {
		return err
	}
	var shared *lock // that the client did not name
	held := false    // it named another shared one
	for _, l := range q.locks.findLocks(func(l *lock) bool {
		return l.covers(name) || member && (l.root == dir || tree.Below(l.root, name))
	}) {
		named := slices.Contains(q.ifHeader.tokens, l.token) && l.user == q.user.Name
		switch {
		case named && l.shared:
			held = true
		case named:
		case l.shared:
			shared = &l
		default:
			return q.lockedError(p, "lock-token-submitted", l.root)
		}
	}
	if shared != nil && !held {
		return q.lockedError(p, "lock-token-submitted", shared.root)
	}
	return nil
}

// lockedError returns the error for a lock on root that keeps the user from changing a place. If
// the user may not read root, the error names the place instead.
func (q *request) lockedError(p *place, name, root string) error {
	at := p.fullPath()
	if below, ok := strings.CutPrefix(root+"/", p.root+"/"); ok && p.rules.MayRead(q.r.Context(), strings.TrimSuffix(below, "/")) == nil {
		at = root
	}
	return &condError{http.StatusLocked, name, href(at, false)}
}

// conditions are those of an If header: it holds if one of the lists does.
type conditions struct {
	lists  []condList
	tokens []string // all lock tokens in the header
}

// condList is a list of conditions that hold together.
type condList struct {
	tag   string // the URL of a resource; empty: that of the request
	conds []cond
}

type cond struct {
	not         bool
	token, etag string
}

// maxConditions is the number of lists of an If header.
const maxConditions = 100

// parseConditions parses the If header. Without one, there are no lists.
func parseConditions(r *http.Request) (*conditions, error) {
	c := &conditions{}
	rest := strings.TrimSpace(r.Header.Get("If"))
	bad := &statusError{http.StatusBadRequest, "the If header is not valid"}
	tag := ""
	for rest != "" {
		if len(c.lists) >= maxConditions {
			return nil, bad
		}
		switch rest[0] {
		case '<':
			var ok bool
			if tag, rest, ok = strings.Cut(rest[1:], ">"); !ok {
				return nil, bad
			}
			rest = strings.TrimSpace(rest)
			if !strings.HasPrefix(rest, "(") {
				return nil, bad
			}
		case '(':
			list, after, err := parseCondList(rest[1:])
			if err != nil {
				return nil, bad
			}
			list.tag = tag
			c.lists = append(c.lists, list)
			for _, one := range list.conds {
				if one.token != "" {
					c.tokens = append(c.tokens, one.token)
				}
			}
			rest = strings.TrimSpace(after)
		default:
			return nil, bad
		}
	}
	return c, nil
}

// parseCondList parses a list up to its closing parenthesis and returns the rest.
func parseCondList(text string) (list condList, rest string, err error) {
	bad := errors.New("not a list of conditions")
	for {
		text = strings.TrimLeft(text, " \t")
		var c cond
		if len(text) > 3 && strings.EqualFold(text[:3], "not") {
			c.not = true
			text = strings.TrimLeft(text[3:], " \t")
		}
		ok := false
		switch {
		case text == "":
			return list, "", bad
		case text[0] == ')' && !c.not:
			if len(list.conds) == 0 {
				return list, "", bad
			}
			return list, text[1:], nil
		case text[0] == '<':
			c.token, text, ok = strings.Cut(text[1:], ">")
		case text[0] == '[':
			c.etag, text, ok = strings.Cut(text[1:], "]")
		}
		if !ok || c.token == "" && c.etag == "" {
			return list, "", bad
		}
		list.conds = append(list.conds, c)
	}
}

// checkAny returns an error with the status 412 unless one of the lists holds. P is the place of
// the request, at its present state.
func (c *conditions) checkAny(q *request, p *place) error {
	if len(c.lists) == 0 {
		return nil
	}
	for _, list := range c.lists {
		at := p
		if list.tag != "" {
			u, err := url.Parse(list.tag)
			if err != nil || u.Host != "" && !strings.EqualFold(u.Host, q.r.Host) {
				continue
			}
			if at, err = q.placeOfURL(u.Path); err != nil {
				continue
			}
			if at.root == p.root && p.branch != nil { // the state of the edit
				if at, err = q.placeAt(p, p.side, at.path); err != nil {
					return err
				}
			}
		} else if own, err := q.ownPlace(p); err == nil {
			at = own
		}
		if q.holdsAll(list, at) {
			return nil
		}
	}
	return &statusError{http.StatusPreconditionFailed, "a condition of the If header does not hold"}
}

// ownPlace returns the place of the request's URL. P is that place, or the destination.
func (q *request) ownPlace(p *place) (*place, error) {
	own, err := q.placeOfURL(q.r.URL.Path)
	if err == nil && own.root == p.root && p.branch != nil {
		return q.placeAt(p, p.side, own.path)
	}
	return own, err
}

// holdsAll reports whether all conditions of a list hold for a place.
func (q *request) holdsAll(list condList, p *place) bool {
	name := p.fullPath()
	for _, c := range list.conds {
		var is bool
		if c.token != "" {
			is = len(q.locks.findLocks(func(l *lock) bool { return l.token == c.token && l.covers(name) })) > 0
		} else if e, err := p.readEntry(q.r.Context()); err == nil && e.Type == object.TypeFile {
			is = etag(&e) == c.etag
		}
		if is == c.not {
			return false
		}
	}
	return true
}

// lockTime returns the time that a client wants for a lock, within the limits.
func lockTime(r *http.Request) time.Duration {
	for wish := range strings.SplitSeq(r.Header.Get("Timeout"), ",") {
		text, ok := strings.CutPrefix(strings.TrimSpace(wish), "Second-")
		if sec, err := strconv.ParseInt(text, 10, 64); ok && err == nil && sec > 0 && sec < int64(maxLockTime/time.Second) {
			return time.Duration(sec) * time.Second
		}
	}
	return maxLockTime
}

// answerLock answers LOCK: it makes a lock, and an empty file if the path does not exist, or gives a
// lock more time.
func (q *request) answerLock(p *place) error {
	if err := p.checkWritable(); err != nil && (p.branch == nil || p.path != "") {
		return err
	}
	info, err := readLockInfo(q)
	if err != nil {
		return err
	}
	if info == nil {
		return q.refreshLock(p)
	}
	l := lock{root: p.fullPath(), shared: info.shared, owner: info.owner, user: q.user.Name, time: lockTime(q.r)}
	switch strings.ToLower(q.r.Header.Get("Depth")) {
	case "", "infinity":
		l.deep = true
	case "0":
	default:
		return &statusError{http.StatusBadRequest, "this depth is not possible"}
	}
	if err := p.rules.MayWrite(q.r.Context(), p.path); err != nil {
		return err
	}
	if isFinderFile(q.r, p) {
		return &statusError{http.StatusForbidden, "kist does not keep this file"}
	}
	if err := q.ifHeader.checkAny(q, p); err != nil {
		return err
	}

	l, by, err := q.locks.createLock(l)
	if err != nil && by != "" {
		return q.lockedError(p, "no-conflicting-lock", by)
	}
	if err != nil {
		return err
	}
	created, err := q.createLocked(p, l.token)
	if err != nil {
		q.locks.removeLock(l.token)
		return err
	}
	q.w.Header().Set("Lock-Token", "<"+l.token+">")
	q.writeLockAnswer(l, created)
	return nil
}

// createLocked makes an empty file if the place does not exist. The client has the lock of the
// token on it.
func (q *request) createLocked(p *place, token string) (created bool, err error) {
	if _, err := p.side.Find(q.r.Context(), p.path); !isNotFound(err) {
		return false, err
	}
	defer p.branch.BeginUpload()()
	up, err := q.changes.Receive(q.r.Context(), strings.NewReader(""))
	if err != nil {
		return false, err
	}
	defer up.Close()
	q.ifHeader = &conditions{tokens: append(q.ifHeader.tokens, token)} // its lists were checked before
	err = p.branch.Change(q.r.Context(), q.authorOfChanges(), up, func(e *pending.Edit) error {
		now, err := q.placeAt(p, e.Before, p.path)
		if err != nil {
			return err
		}
		old, err := q.checkTarget(now)
		if err == nil && old == nil {
			err = q.checkLocks(now, true)
		}
		if err != nil || old != nil {
			return err
		}
		created = true
		e.Set(p.path, up.Entry)
		return nil
	})
	return created, err
}

// refreshLock gives the lock that the If header names more time.
func (q *request) refreshLock(p *place) error {
	if len(q.ifHeader.tokens) != 1 {
		return &statusError{http.StatusBadRequest, "a lock is refreshed by an If header with its token"}
	}
	l, ok := q.locks.extendLock(q.ifHeader.tokens[0], p.fullPath(), q.user.Name, lockTime(q.r))
	if !ok {
		return &condError{http.StatusPreconditionFailed, "lock-token-matches-request-uri", ""}
	}
	q.writeLockAnswer(l, false)
	return nil
}

// writeLockAnswer answers LOCK.
func (q *request) writeLockAnswer(l lock, created bool) {
	q.w.Header().Set("Content-Type", xmlType)
	if created {
		q.w.WriteHeader(http.StatusCreated)
	}
	fmt.Fprint(q.w, xmlHeader, `<D:prop xmlns:D="DAV:"><D:lockdiscovery>`, q.activeLock(l, true), `</D:lockdiscovery></D:prop>`)
}

// activeLock returns the XML of a lock. Its user and the owner of the repository see the token.
// Full means with the client's text about the lock, which the list of a folder need not repeat.
func (q *request) activeLock(l lock, full bool) string {
	scope, depth := "exclusive", "0"
	if l.shared {
		scope = "shared"
	}
	if l.deep {
		depth = "infinity"
	}
	var b strings.Builder
	fmt.Fprintf(&b, `<D:activelock><D:locktype><D:write/></D:locktype><D:lockscope><D:%s/></D:lockscope><D:depth>%s</D:depth>`, scope, depth)
	if full && l.owner != "" {
		fmt.Fprintf(&b, `<D:owner>%s</D:owner>`, l.owner)
	}
	left := max(0, l.expires.Sub(q.locks.now()))
	fmt.Fprintf(&b, `<D:timeout>Second-%d</D:timeout>`, int64((left+time.Second-1)/time.Second))
	if l.user == q.user.Name || q.user.Owner {
		fmt.Fprintf(&b, `<D:locktoken><D:href>%s</D:href></D:locktoken>`, l.token)
	}
	fmt.Fprintf(&b, `<D:lockroot><D:href>%s</D:href></D:lockroot></D:activelock>`, escape(href(l.root, false)))
	return b.String()
}

// answerUnlock answers UNLOCK.
func (q *request) answerUnlock(p *place) error {
	token := strings.TrimSuffix(strings.TrimPrefix(strings.TrimSpace(q.r.Header.Get("Lock-Token")), "<"), ">")
	if token == "" {
		return &statusError{http.StatusBadRequest, "no Lock-Token header"}
	}
	name := p.fullPath()
	found := q.locks.findLocks(func(l *lock) bool { return l.token == token && l.covers(name) })
	switch {
	case len(found) == 0:
		return &condError{http.StatusConflict, "lock-token-matches-request-uri", ""}
	case found[0].user != q.user.Name && !q.user.Owner:
		return &statusError{http.StatusForbidden, "the lock belongs to somebody else"}
	}
	q.locks.removeLock(token)
	answerChanged(q.w, false)
	return nil
}

// lockJSON is a lock in the list for the owner.
type lockJSON struct {
	Token   string    `json:"token"`
	URL     string    `json:"url"`
	User    string    `json:"user"`
	Shared  bool      `json:"shared"`
	Deep    bool      `json:"deep"` // everything below the URL is locked, too
	Expires time.Time `json:"expires"`
}

// listLocks answers with all locks. Only the owner gets them: they name paths of all users. UNLOCK
// with a token of the list breaks a lock.
func listLocks(q *request) error {
	if !q.user.Owner {
		return &statusError{http.StatusForbidden, "only the owner of the repository sees all locks"}
	}
	list := []lockJSON{}
	for _, l := range q.locks.findLocks(func(*lock) bool { return true }) {
		list = append(list, lockJSON{l.token, href(l.root, false), l.user, l.shared, l.deep, l.expires.UTC()})
	}
	data, err := json.Marshal(list)
	if err != nil {
		return err
	}
	q.w.Header().Set("Content-Type", "application/json")
	_, err = q.w.Write(append(data, '\n'))
	return err
}
