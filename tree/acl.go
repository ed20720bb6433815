package tree

import (
	"cmp"
	"encoding/binary"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strconv"
	"strings"
)

// The extended attributes in which Linux keeps ACLs. Only folders have a default one.
const (
	AccessACL  = "system.posix_acl_access"
	DefaultACL = "system.posix_acl_default"
)

// ACL is a POSIX access control list, in the order in which Linux keeps it.
type ACL []aclEntry

// aclEntry grants rights to a user or a group.
type aclEntry struct {
	tag  aclTag
	perm uint16 // of rwx
	id   uint32 // of a named user or group; else noACLID
}

// aclTag is the kind of an entry, as Linux numbers it.
type aclTag uint16

const (
	aclUserObj  aclTag = 0x01 // the owner
	aclUser     aclTag = 0x02
	aclGroupObj aclTag = 0x04 // the owning group
	aclGroup    aclTag = 0x08
	aclMask     aclTag = 0x10 // bounds the rights of named users and of all groups
	aclOther    aclTag = 0x20
)

// noACLID is in entries without a user or group.
const noACLID = ^uint32(0)

// aclWords maps each tag to its word in the text form.
var aclWords = map[aclTag]string{
	aclUserObj: "user", aclUser: "user", aclGroupObj: "group", aclGroup: "group", aclMask: "mask", aclOther: "other",
}

// maxACLEntries bounds the entries of an ACL, which Linux keeps in 64 KiB.
const maxACLEntries = (64<<10 - aclHeaderSize) / aclEntrySize

const (
	aclHeaderSize = 4
	aclEntrySize  = 8
	aclVersion    = 2
)

// DecodeACL reads the value of an extended attribute.
func DecodeACL(value []byte) (ACL, error) {
	if len(value) < aclHeaderSize || (len(value)-aclHeaderSize)%aclEntrySize != 0 || binary.LittleEndian.Uint32(value) != aclVersion {
		return nil, errors.New("an ACL in an unknown form")
	}
	var list ACL
	for e := range slices.Chunk(value[aclHeaderSize:], aclEntrySize) {
		list = append(list, aclEntry{aclTag(binary.LittleEndian.Uint16(e)), binary.LittleEndian.Uint16(e[2:]), binary.LittleEndian.Uint32(e[4:])})
	}
	return list.checkEntries()
}

// Encode returns the value of the extended attribute.
func (a ACL) Encode() []byte {
	value := binary.LittleEndian.AppendUint32(nil, aclVersion)
	for _, e := range a {
		value = binary.LittleEndian.AppendUint16(value, uint16(e.tag))
		value = binary.LittleEndian.AppendUint16(value, e.perm)
		value = binary.LittleEndian.AppendUint32(value, e.id)
	}
	return value
}

// String returns the text form of getfacl, with numbers for users and groups.
func (a ACL) String() string {
	var text strings.Builder
	for _, e := range a {
		id := ""
		if e.id != noACLID {
			id = strconv.FormatUint(uint64(e.id), 10)
		}
		fmt.Fprintf(&text, "%s:%s:%s\n", aclWords[e.tag], id, fs.FileMode(e.perm).String()[7:])
	}
	return text.String()
}

// ACLIDs finds the number of a user or a group by its name.
type ACLIDs struct {
	User, Group func(name string) (uint32, error)
}

// ParseACL reads the text form of an ACL as tar files have it: entries such as "user:ada:rw-", between
// line feeds or commas. A number may follow, as in "user:ada:rw-:1000", and goes before the name. It
// returns the names that ids does not find; the ACL lacks their entries.
func ParseACL(text string, ids ACLIDs) (a ACL, unknown []string, err error) {
	for line := range strings.FieldsFuncSeq(text, func(r rune) bool { return r == '\n' || r == ',' }) {
		line, _, _ = strings.Cut(line, "#") // getfacl writes the effective rights there
		if line = strings.Trim(line, " \t"); line == "" {
			continue
		}
		if len(a)+len(unknown) == maxACLEntries {
			return nil, nil, fmt.Errorf("an ACL of more than %d entries", maxACLEntries)
		}
		e, name, err := parseACLEntry(line, ids)
		switch {
		case err != nil:
			return nil, nil, fmt.Errorf("bad entry %q of an ACL: %w", line, err)
		case name != "":
			unknown = append(unknown, name)
		default:
			a = append(a, e)
		}
	}
	slices.SortFunc(a, func(x, y aclEntry) int { return cmp.Or(cmp.Compare(x.tag, y.tag), cmp.Compare(x.id, y.id)) })
	if a, err = a.checkEntries(); err != nil {
		return nil, nil, err
	}
	return a, unknown, nil
}

// aclTags maps the words of the text form to tags without names.
var aclTags = map[string]aclTag{
	"user": aclUserObj, "u": aclUserObj, "group": aclGroupObj, "g": aclGroupObj, "mask": aclMask, "m": aclMask, "other": aclOther, "o": aclOther,
}

// parseACLEntry reads an entry. It returns the name if the user or group is unknown.
func parseACLEntry(line string, ids ACLIDs) (e aclEntry, unknown string, err error) {
	fields := strings.Split(line, ":")
	if len(fields) == 2 { // other:r--
		fields = []string{fields[0], "", fields[1]}
	}
	if len(fields) < 3 || len(fields) > 4 {
		return e, "", errors.New("three fields are needed")
	}
	var known bool
	if e.tag, known = aclTags[fields[0]]; !known {
		return e, "", errors.New("an unknown kind")
	}
	if e.perm, err = parseACLPerm(fields[2]); err != nil {
		return e, "", err
	}

	e.id = noACLID
	switch {
	case fields[1] == "" && len(fields) == 3:
		return e, "", nil
	case fields[1] == "" || e.tag == aclMask || e.tag == aclOther:
		return e, "", errors.New("a name where none can be, or none where one must be")
	}
	find := ids.User
	if e.tag == aclGroupObj {
		find = ids.Group
	}
	e.tag <<= 1 // to the kind with a name
	e.id, unknown, err = aclID(fields[1], fields[3:], find)
	return e, unknown, err
}

// aclID returns the number of a user or group. It is in number, if that is not empty, or name is a
// number, or find knows the name. If not, aclID returns the name.
func aclID(name string, number []string, find func(string) (uint32, error)) (id uint32, unknown string, err error) {
	if name, err = unescapeACL(name); err != nil {
		return 0, "", err
	}
	if len(number) > 0 {
		id, err = parseACLID(number[0])
		return id, "", err
	}
	if id, err = parseACLID(name); err == nil {
		return id, "", nil
	}
	if id, err = find(name); err != nil || id == noACLID {
		return 0, name, nil
	}
	return id, "", nil
}

// parseACLPerm reads rights such as "r-x".
func parseACLPerm(text string) (perm uint16, err error) {
	if len(text) != 3 {
		return 0, errors.New("rights that are not as in rwx")
	}
	for i, want := range "rwx" {
		perm <<= 1
		switch text[i] {
		case byte(want):
			perm |= 1
		case '-':
		default:
			return 0, errors.New("rights that are not as in rwx")
		}
	}
	return perm, nil
}

func parseACLID(text string) (uint32, error) {
	id, err := strconv.ParseUint(text, 10, 32)
	if err != nil || uint32(id) == noACLID {
		return 0, errors.New("a number that is none of a user or group")
	}
	return uint32(id), nil
}

// unescapeACL replaces the octal numbers by which getfacl stands for special characters of names.
func unescapeACL(name string) (string, error) {
	var plain []byte
	for i := 0; i < len(name); i++ {
		if name[i] != '\\' {
			plain = append(plain, name[i])
			continue
		}
		c, err := strconv.ParseUint(name[i+1:min(i+4, len(name))], 8, 8)
		if err != nil || i+4 > len(name) || c == 0 {
			return "", errors.New("a bad escape in the name")
		}
		plain = append(plain, byte(c))
		i += 3
	}
	return string(plain), nil
}

// checkEntries returns a if Linux accepts it. The order is the one in which Linux keeps ACLs, and each
// user and group has one entry.
func (a ACL) checkEntries() (ACL, error) {
	counts := map[aclTag]int{}
	for i, e := range a {
		named := e.tag == aclUser || e.tag == aclGroup
		switch {
		case aclWords[e.tag] == "", e.perm > 7, named != (e.id != noACLID):
			return nil, errors.New("an ACL with a bad entry")
		case i > 0 && (a[i-1].tag > e.tag || a[i-1].tag == e.tag && a[i-1].id >= e.id):
			return nil, errors.New("an ACL with two entries for one user or group, or in disorder")
		}
		counts[e.tag]++
	}
	extended := counts[aclUser]+counts[aclGroup] > 0
	if counts[aclUserObj] == 0 || counts[aclGroupObj] == 0 || counts[aclOther] == 0 || extended && counts[aclMask] == 0 {
		return nil, errors.New("an ACL without an entry that each needs")
	}
	return a, nil
}

// IsExtended reports whether a has more than permission bits can say.
func (a ACL) IsExtended() bool { return len(a) > 3 }

// Perm returns the permission bits of a file that has the ACL. The bits of the group are those of the
// mask, which also bounds the named users.
func (a ACL) Perm() uint16 { return a.permBits(func(group, mask uint16) uint16 { return mask }) }

// PermAlone returns the permission bits of a file that had the ACL and loses it. Nobody gets more
// rights.
func (a ACL) PermAlone() uint16 {
	return a.permBits(func(group, mask uint16) uint16 { return group & mask })
}

// permBits returns permission bits. Bits chooses those of the group.
func (a ACL) permBits(bits func(group, mask uint16) uint16) uint16 {
	found := map[aclTag]uint16{}
	for _, e := range a {
		found[e.tag] = e.perm
	}
	group := found[aclGroupObj]
	if mask, ok := found[aclMask]; ok {
		group = bits(group, mask)
	}
	return found[aclUserObj]<<6 | group<<3 | found[aclOther]
}
